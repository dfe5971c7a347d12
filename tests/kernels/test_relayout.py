"""The relayout: the same elements whatever the strides, in one launch, and refused in words where it cannot be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import relayout
from kernels.compiler import KernelError
from kernels.relayout import _vector

# batch, seq_len, n_head, head_dim: a sequence's pieces on both sides of a block's edge, tokens that do not divide
SHAPES = [
    (1, 1, 1, 8),
    (2, 7, 3, 16),
    (1, 129, 2, 72),
    (3, 1000, 12, 32),
    (2, 1024, 12, 64),
    (2, 1021, 12, 72),
    (1, 4097, 5, 40),
    (2, 33, 1, 256),
    (2, 31, 3, 33),
    (1, 5, 2, 1),
]


def projected(shape, dtype) -> list[torch.Tensor]:
    """Q, K and V as views of a fused projection's output."""
    batch, seq_len, n_head, head_dim = shape
    whole = torch.randn(batch, seq_len, 3, n_head, head_dim, device="cuda").to(dtype)
    return [part.transpose(1, 2) for part in whole.unbind(2)]


def check(*tensors: torch.Tensor) -> None:
    copies = relayout.contiguous(*tensors)
    assert len(copies) == len(tensors)
    for copy, tensor in zip(copies, tensors, strict=True):
        assert copy.is_contiguous()
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", relayout.DTYPES, ids=str)
def test_it_copies_the_heads_of_a_projection_bit_for_bit(shape, dtype):
    check(*projected(shape, dtype))


@pytest.mark.gpu
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 300), st.integers(1, 5), st.integers(1, 80)),
    st.integers(1, 3),
    st.integers(0, 9),
    st.integers(0, 9),
    st.sampled_from(relayout.DTYPES),
    st.permutations([0, 1, 2]),
)
@settings(max_examples=60, deadline=None)
def test_any_strides_and_any_start_do_and_nothing_else_is_read_or_written(
    shape, count, before, after, dtype, order
):
    """The heads lie in wider rows full of NaN, in any order of the outer dimensions."""
    batch, seq_len, n_head, head_dim = shape
    sizes = (batch, n_head, seq_len)
    wide = torch.full(
        (count, *(sizes[i] for i in order), before + head_dim + after), torch.nan, device="cuda"
    )
    wide[..., before : before + head_dim].normal_()
    wide = wide.to(dtype)
    back = [order.index(axis) for axis in range(3)]
    check(*(one[..., before : before + head_dim].permute(*back, 3) for one in wide))


@pytest.mark.gpu
def test_what_is_contiguous_or_empty_or_expanded_is_copied_too():
    check(torch.randn(2, 3, 5, 8, device="cuda"))
    check(*torch.randn(2, 1, 3, 5, 8, device="cuda").expand(2, 4, 3, 5, 8))
    for empty in ((0, 3, 5, 8), (2, 0, 5, 8), (2, 3, 0, 8), (2, 3, 5, 0)):
        check(torch.zeros(empty, device="cuda"))


@pytest.mark.gpu
def test_it_runs_on_the_current_stream_and_in_a_graph():
    q, k, v = projected((2, 100, 3, 64), torch.bfloat16)
    relayout.contiguous(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copies = relayout.contiguous(q, k, v)
    for tensor in (q, k, v):
        tensor.normal_()
    graph.replay()
    assert all(map(torch.equal, copies, (q, k, v)))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_the_vector_is_the_widest_that_divides_everything(sizes):
    even = [2 * size for size in sizes]
    vector = _vector(*even)
    assert not any(size % vector for size in even)
    assert vector == 16 or any(size % (2 * vector) for size in even)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (
            [(2, 3, 5)],
            r"relayout: q has the shape \[2, 3, 5\]: \[batch, n_head, seq_len, head_dim\] would do",
        ),
        ([(1, 1, 1, 1)] * 4, "relayout: 4 tensors: 1 to 3 at once would do"),
        ([], "relayout: 0 tensors: 1 to 3 at once would do"),
        ([(1, 2, 3, 8)], "relayout: q is on cpu, and kernels run on the current GPU"),
    ],
)
def test_what_it_cannot_take_is_refused_with_what_would_do(tensors, words):
    with pytest.raises(KernelError, match=words):
        relayout.contiguous(*map(torch.zeros, tensors))


def test_the_wrong_dtype_and_a_last_axis_that_is_not_dense_are_named():
    with pytest.raises(KernelError, match=r"q is torch\.float64: .* would do"):
        relayout.contiguous(torch.zeros(1, 2, 3, 8, dtype=torch.float64))
    with pytest.raises(KernelError, match="q's last dimension has the stride 3: 1 would do"):
        relayout.contiguous(torch.zeros(1, 2, 8, 3).mT)
