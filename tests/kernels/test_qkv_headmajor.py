"""The projection that writes head by head: right for any shape, and refused in words where it cannot be."""

from __future__ import annotations

import math

import pytest
import torch

from kernels import qkv_headmajor
from kernels.compiler import KernelError

# batch, seq_len, n_head, head_dim: rows, columns and depths on both sides of a tile's edge
SHAPES = [
    (1, 1, 1, 8),
    (2, 7, 3, 16),
    (1, 129, 2, 72),
    (3, 1000, 12, 32),
    (2, 1024, 12, 64),
    (2, 1024, 12, 72),
    (1, 4097, 5, 40),
    (4, 127, 24, 64),
    (1, 1024, 48, 16),
    (7, 33, 1, 256),
]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_it_is_the_projection_in_the_layout_it_promises(shape, dtype):
    batch, seq_len, n_head, head_dim = shape
    d_model = n_head * head_dim
    x = torch.randn(batch, seq_len, d_model, device="cuda").to(dtype)
    w = (torch.randn(d_model, 3 * d_model, device="cuda") / math.sqrt(d_model)).to(dtype)
    out = qkv_headmajor.forward(x, w, n_head)
    right = (x.double() @ w.double()).view(batch, seq_len, 3, n_head, head_dim).permute(2, 0, 3, 1, 4)
    assert out.shape == right.shape
    assert out.is_contiguous()
    error = (out.double() - right).norm(dim=-1) / right.norm(dim=-1)
    assert error.max().item() < 1.2e-2
    assert torch.equal(qkv_headmajor.forward(x, w, n_head), out), "not the same bits again"


@pytest.mark.parametrize(
    ("x", "w", "n_head", "words"),
    [
        ((2, 3, 16), (16, 32), 2, r"w_qkv \[16, 32\]"),
        ((3, 16), (16, 48), 2, r"x is \[3, 16\]"),
        ((2, 3, 24), (24, 72), 5, "d_model 24 is not n_head 5 times a head_dim"),
        ((2, 3, 24), (24, 72), 2, "head_dim 12 is not supported: a multiple of 8"),
    ],
)
def test_what_it_cannot_take_is_refused_with_what_would_do(x, w, n_head, words):
    with pytest.raises(KernelError, match=words):
        qkv_headmajor.forward(
            torch.zeros(x, dtype=torch.bfloat16), torch.zeros(w, dtype=torch.bfloat16), n_head
        )


@pytest.mark.parametrize(
    ("dtype", "words"), [(torch.float32, "is torch.float32"), (torch.bfloat16, "is on cpu")]
)
def test_the_wrong_dtype_and_the_wrong_device_are_named(dtype, words):
    with pytest.raises(KernelError, match=words):
        qkv_headmajor.forward(torch.zeros(1, 2, 8, dtype=dtype), torch.zeros(8, 24, dtype=dtype), 1)
