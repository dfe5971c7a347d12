"""The projection that writes head by head: right at any shape on a GPU, and clear about what it does not take."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import qkv_headmajor
from kernels.compiler import KernelError

LIMITS = {torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.mark.gpu
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    batch=st.integers(1, 5),
    seq_len=st.integers(1, 300),
    n_head=st.integers(1, 9),
    head_dim=st.integers(1, 16).map(lambda n: 8 * n),
    dtype=st.sampled_from(qkv_headmajor.DTYPES),
)
def test_any_shape_is_right_and_nothing_else_is_written(batch, seq_len, n_head, head_dim, dtype):
    d_model = n_head * head_dim
    x = torch.randn(batch, seq_len, d_model, device="cuda").to(dtype)
    w = (torch.randn(d_model, 3 * d_model, device="cuda") / math.sqrt(d_model)).to(dtype)
    # The allocator hands this block out again, so that an element that is never written shows as NaN.
    poison = torch.full((3 * x.numel(),), math.nan, dtype=dtype, device="cuda")
    del poison
    out = qkv_headmajor.forward(x, w, n_head)
    right = (x.double() @ w.double()).view(batch, seq_len, 3, n_head, head_dim).permute(2, 0, 3, 1, 4)
    assert out.shape == right.shape
    error = ((out.double() - right).norm() / right.norm()).item()
    assert error <= LIMITS[dtype], f"off by {error:.2g}"
    assert torch.equal(qkv_headmajor.forward(x, w, n_head), out)


@pytest.mark.parametrize(
    ("x", "w", "n_head", "said"),
    [
        (
            (2, 4, 16),
            (16, 47),
            2,
            r"x is \[2, 4, 16\] and w_qkv \[16, 47\]: .*\[d_model, 3 · d_model\] would do",
        ),
        ((4, 16), (16, 48), 2, r"x is \[4, 16\] and w_qkv"),
        ((2, 4, 16), (16, 48), 3, r"d_model 16 is not n_head 3 times a head_dim"),
        ((2, 4, 24), (24, 72), 2, r"head_dim 12 is not supported: a multiple of 8 would do"),
        ((2, 4, 16), (16, 48), 2, r"x is on cpu, and kernels run on the current GPU"),
    ],
)
def test_what_it_cannot_take_is_named(x, w, n_head, said):
    def make(shape):
        return torch.zeros(shape, dtype=torch.bfloat16)

    with pytest.raises(KernelError, match=f"^qkv_headmajor: {said}"):
        qkv_headmajor.forward(make(x), make(w), n_head)


def test_a_dtype_without_tensor_cores_is_named():
    with pytest.raises(KernelError, match=r"x is torch\.float32: bfloat16 or float16, both alike, would do"):
        qkv_headmajor.forward(torch.zeros(2, 4, 16), torch.zeros(16, 48), 2)
