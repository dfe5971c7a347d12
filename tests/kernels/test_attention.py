"""The attention kernels on a GPU: any shape, layout and scores; nothing written outside, the same bits again."""

from __future__ import annotations

import math
import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import block_per_head, flash_hopper, flash_portable
from kernels.compiler import KernelError
from kernels.flash_portable import Tile, tile_for

LIMITS = {torch.float32: 1e-4, torch.float16: 3e-3, torch.bfloat16: 1.6e-2}
EXTREME_FLOAT32 = 1e-3
"""Logits of some hundreds, rounded to float32, are off by 1e-5; plain float32 arithmetic is off by up to 2.3e-4."""
KERNELS = (flash_portable, flash_hopper, block_per_head)
SCORES = ("random", "extreme", "opposed", "zero", "equal", "dominant", "rising")
LAYOUTS = ("bhtd", "bthd", "packed", "padded")


def reference(q, k, v, causal):
    """O and log-sum-exp in float64."""
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if causal:
        scores.masked_fill_(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu_(1), -math.inf
        )
    return scores.softmax(-1) @ v.double(), scores.logsumexp(-1)


def inputs(shape, dtype, layout="bhtd", scores="random"):
    """Q, K, V [batch, n_head, seq_len, head_dim], stored as `layout` says; beside what is `padded` lie NaNs."""
    if layout == "packed":
        batch, n_head, seq_len, head_dim = shape
        packed = torch.empty(batch, seq_len, 3, n_head, head_dim, dtype=dtype, device="cuda")
        q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
    else:
        q, k, v = (poisoned(shape, dtype, layout)[1] for _ in range(3))
    for x in (q, k, v):
        x.copy_(torch.randn(shape, device="cuda"))
    if scores == "extreme":
        q.mul_(5), k.mul_(5)
    elif scores == "opposed":
        for x in (q, k):  # scores of 80 and -80
            x.copy_(x[..., :1].sign().expand(shape) * math.sqrt(80 / math.sqrt(shape[-1])))
    elif scores == "zero":
        q.zero_()
    elif scores == "equal":
        k.copy_(k[:, :, :1].expand(shape).clone())
    elif scores == "dominant":
        k[:, :, 0] = 6 * q[:, :, -1]
    elif scores == "rising":
        k.copy_(k.float() * torch.linspace(12, 0.1, shape[2], device="cuda")[:, None])
    elif scores == "climbing":
        k.copy_(k.float() * torch.linspace(60, 0.1, shape[2], device="cuda")[:, None])
    elif scores == "mixed":
        q.mul_(mixed(shape[:3]).to(q))
    elif scores == "low":
        q.abs_().mul_(32), k.abs_().neg_()
    return q, k, v


def mixed(shape):
    """[batch, n_head, seq_len, 1]: 64 in one head of three and some rows of another, for scores of hundreds; else 1."""
    factor = torch.ones(*shape, 1)
    head = torch.arange(shape[0] * shape[1]).view(shape[:2]) % 3
    factor[head == 1] = 64
    factor[head == 2, ::97] = 64
    return factor


def assert_right(out, right, dtype, what):
    rows = right.norm(dim=-1)
    # a row may happen to be nearly zero, and a head of one element often is
    error = (out.double() - right).norm(dim=-1) / rows.clamp_min(0.1 * rows.square().mean().sqrt())
    assert bool(out.isfinite().all()), f"{what}: not finite"
    limit = EXTREME_FLOAT32 if dtype == torch.float32 and "extreme" in what else LIMITS[dtype]
    assert error.max().item() <= limit, f"{what}: the worst row is off by {error.max().item():.2g}"


def poisoned(shape, dtype, layout):
    """Storage of NaN, and the part of it that a tensor of this shape is; `padded` is what has some on every side."""
    if layout == "padded":
        batch, n_head, seq_len, head_dim = shape
        sizes = (batch + 2, n_head + 2, seq_len + 16, head_dim + 16)
        storage = torch.full(sizes, math.nan, dtype=dtype, device="cuda")
        return storage, storage[1:-1, 1:-1, 8:-8, 8:-8]
    around = 1 + 4096 // math.prod(shape[1:])
    if layout == "bthd":
        batch, n_head, seq_len, head_dim = shape
        shape = (batch, seq_len, n_head, head_dim)
    storage = torch.full((shape[0] + 2 * around, *shape[1:]), math.nan, dtype=dtype, device="cuda")
    part = storage[around:-around]
    return storage, part.transpose(1, 2) if layout == "bthd" else part


def assert_nothing_else_is_written(storage, part, what):
    """Whether the storage around this part of it is still what it was."""
    part.fill_(math.nan)
    assert bool(storage.isnan().all()), f"{what}: writes outside"


def usable(kernel):
    """The kernel's forward; the test is skipped if this GPU has not what it needs."""
    if kernel is flash_hopper and (reason := kernel.refuses(64, torch.device("cuda"))):
        pytest.skip(reason)
    return kernel.forward


@pytest.fixture(params=[flash_portable, flash_hopper], ids=lambda kernel: kernel.ACTOR)
def fused(request):
    """A fused kernel's forward."""
    return usable(request.param)


def check_flash(fused, shape, dtype, causal, layout, scores):
    what = f"{shape} {dtype} causal={causal} {layout} {scores}"
    q, k, v = inputs(shape, dtype, layout, scores)
    storage, out = poisoned(shape, dtype, "bhtd" if layout == "packed" else layout)
    lse_storage, lse = poisoned(shape[:3], torch.float32, "bht")
    assert fused(q, k, v, causal=causal, out=out, lse=lse) is out
    right, right_lse = reference(q, k, v, causal)
    assert_right(out, right, dtype, what)
    wrong = ((lse.double() - right_lse).abs() / right_lse.abs().clamp_min(1)).max().item()
    assert wrong <= 1e-3, f"{what}: a row's log-sum-exp is off by {wrong:.2g}"
    again = fused(q, k, v, causal=causal)
    assert torch.equal(again, out), f"{what}: other bits on repeat"
    assert_nothing_else_is_written(storage, out, what)
    assert_nothing_else_is_written(lse_storage, lse, what)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", range(8, 129, 8))
def test_every_head_dim_is_right_at_awkward_lengths(fused, head_dim):
    for i, seq_len in enumerate((1, 7, 64, 127, 129, 1000, 1024)):
        for causal in (True, False):
            dtype = (torch.bfloat16, torch.float16)[(i + causal) % 2]
            layout, scores = LAYOUTS[(i + causal) % 4], SCORES[(2 * i + causal + head_dim // 8) % 7]
            check_flash(fused, (2, 3, seq_len, head_dim), dtype, causal, layout, scores)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 4097, 72),
        (2, 3, 4097, 64),
        (60, 50, 33, 64),
        (3000, 1, 65, 32),
        (1, 3000, 1, 128),
        (25, 12, 130, 72),
        (12, 12, 1024, 64),
        (24, 12, 512, 32),
    ],
    ids=str,
)
def test_many_heads_and_long_sequences_are_right(fused, shape):
    for causal in (True, False):
        check_flash(fused, shape, torch.bfloat16, causal, "packed", "random")


# By head_dim, so that pytest-xdist's workers share what is to be compiled.
@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", range(8, 129, 8))
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 700)),
    dtype=st.sampled_from([torch.bfloat16, torch.float16]),
    causal=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    scores=st.sampled_from(SCORES),
)
def test_any_shape_is_right(fused, head_dim, sizes, dtype, causal, layout, scores):
    check_flash(fused, (*sizes, head_dim), dtype, causal, layout, scores)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(block_per_head.ELEMENT_TYPES), ids=str)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 200)),
    head_dim=st.sampled_from([1, 7, 8, 33, 64, 72, 200]),
    causal=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    scores=st.sampled_from(SCORES),
)
def test_the_lessons_kernel_is_right_at_any_shape(dtype, sizes, head_dim, causal, layout, scores):
    shape = (*sizes, head_dim)
    q, k, v = inputs(shape, dtype, layout, scores)
    out = block_per_head.forward(q, k, v, causal=causal)
    what = f"{shape} {dtype} causal={causal} {layout} {scores}"
    assert_right(out, reference(q, k, v, causal)[0], dtype, what)


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [32, 64, 72])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.ACTOR)
def test_keys_after_a_query_do_not_influence_it(kernel, head_dim):
    forward = usable(kernel)
    q, k, v = inputs((2, 3, 513, head_dim), torch.bfloat16)
    before = forward(q, k, v, causal=True)
    for seen in (511, 448, 300, 129, 64, 1):
        k[:, :, seen:] += 700
        v[:, :, seen:] -= 5000
        assert torch.equal(forward(q, k, v, causal=True)[:, :, :seen], before[:, :, :seen]), seen


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 3, 513, 72), (1, 1, 1, 64), (25, 12, 130, 64)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.ACTOR)
def test_a_graph_and_another_stream_give_the_same_bits(kernel, shape):
    forward = usable(kernel)
    q, k, v = inputs(shape, torch.bfloat16, "packed")
    eager = forward(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = forward(q, k, v, causal=True)
    for _ in range(3):
        out.fill_(math.nan)
        graph.replay()
        assert torch.equal(out, eager)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = forward(q, k, v, causal=True)
    side.synchronize()
    assert torch.equal(out, eager)


@pytest.mark.gpu
def test_a_thread_that_never_used_the_gpu_may_launch(fused):
    q, k, v = inputs((2, 3, 130, 64), torch.bfloat16)
    out, right = torch.empty_like(q), fused(q, k, v, causal=True)
    torch.cuda.synchronize()
    thread = threading.Thread(target=fused, args=(q, k, v), kwargs={"causal": True, "out": out})
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, right)


@pytest.mark.gpu
def test_expanded_keys_are_read_as_they_are_or_refused(fused):
    q, k, v = inputs((2, 4, 130, 64), torch.bfloat16)
    k, v = (x[:, :1].expand(x.shape) for x in (k, v))
    try:
        out = fused(q, k, v, causal=True)
    except KernelError as error:
        assert "a contiguous copy would do" in str(error)  # noqa: PT017 - either is right, silence is not
    else:
        assert_right(out, reference(q, k, v, True)[0], q.dtype, "expanded")


@pytest.mark.gpu
def test_what_flash_portable_cannot_take_is_refused():
    x = torch.zeros(1, 2, 8, 64, dtype=torch.bfloat16, device="cuda")
    with pytest.raises(
        KernelError, match=r"head_dim 60 is not supported: a multiple of 8 up to 128 would do"
    ):
        flash_portable.forward(x[..., :60], x[..., :60], x[..., :60], causal=True)
    with pytest.raises(
        KernelError, match=r"lse is \[1, 2, 7\] torch\.float32 on cuda:0: float32 \[1, 2, 8\]"
    ):
        flash_portable.forward(x, x, x, causal=True, lse=torch.zeros(1, 2, 7, device="cuda"))


def test_few_queries_get_small_tiles_and_a_wide_head_few_rows():
    assert tile_for(64, batch_heads=384, seq_len=1024, causal=True, sm_count=132).rows == 128
    assert tile_for(64, batch_heads=12, seq_len=1024, causal=True, sm_count=132).rows == 64
    assert tile_for(128, batch_heads=384, seq_len=1024, causal=True, sm_count=132).rows == 64


def test_a_second_round_hardly_begun_is_worth_smaller_tiles_where_all_take_as_long():
    # 384 tiles of 128 queries on 264 places, or 768 of 64 on 396: two rounds either way.
    found = {causal: tile_for(64, 48, 1024, causal, 132).rows for causal in (False, True)}
    assert found == {False: 64, True: 128}
    assert tile_for(64, 60, 1024, causal=False, sm_count=132).rows == 128  # 480 are two rounds, 960 are three


def test_a_tile_has_room_for_two_stages_of_k_and_v_and_for_q():
    row = 16 * 9  # head_dim 64: eight 16-byte chunks, and one so that rows lie in different banks
    assert Tile(m_tiles=2, warps=4, keys=64, blocks_per_sm=2).shared_bytes(64) == 4 * 64 * row
    assert Tile(m_tiles=2, warps=4, keys=32, blocks_per_sm=2).shared_bytes(64) == (32 + 128) * row
