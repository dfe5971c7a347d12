"""flash_hopper where two blocks of a cluster share queries and split the keys: the same function, in the same bits."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import flash_hopper, fused
from kernels.compiler import KernelError
from kernels.dealing import deal
from kernels.flash_hopper import Tile, tile_for
from tests.kernels.test_attention import LAYOUTS, SCORES, assert_right, check_flash, inputs, reference, usable
from tests.kernels.test_fused import no_gpu

WIDE = 192
"""Queries of three consumers, for which a head_dim above 72 leaves no room."""


def split_tiles(head_dim):
    """The tiles that `tile_for` splits, for any shape of this head_dim."""
    narrow = Tile(copies=2 if head_dim <= 96 else 1, split=True)
    wide = Tile(warpgroups=3, copies=1, multiplied=1 if head_dim <= 32 else 0, split=True)
    return [narrow, wide] if head_dim <= 72 else [narrow]


def attend(tile):
    """`forward` with this tile; the test is skipped if this GPU has not what it needs."""
    forward = usable(flash_hopper)

    def attended(q, k, v, **rest):
        return forward(q, k, v, tile=tile, **rest)

    return attended


def chosen(batch_heads, seq_len, head_dim=64, causal=False, dtype=torch.bfloat16):
    return tile_for(head_dim, batch_heads, seq_len, causal, 132, dtype)


def test_few_heads_under_a_full_mask_are_split():
    for head_dim in (32, 64, 72):
        assert chosen(12, 1024, head_dim).split
        assert chosen(12, 1024, head_dim).rows == WIDE
    assert chosen(2, 4096).split
    assert chosen(12, 512).split


def test_what_gains_nothing_is_not_split():
    assert not chosen(48, 1024).split  # 384 tiles are three rounds of 132 SMs
    assert not chosen(384, 1024).split
    assert not chosen(12, 128).split  # one tile of keys
    assert not chosen(1, 1).split


@given(
    st.sampled_from(fused.HEAD_DIMS),
    st.integers(0, 400),
    st.integers(0, 20000),
    st.booleans(),
    st.sampled_from(fused.DTYPES),
)
def test_neither_a_causal_mask_nor_fp16_is_split_and_what_is_has_a_tile_of_these(
    head_dim, batch_heads, seq_len, causal, dtype
):
    tile = chosen(batch_heads, seq_len, head_dim, causal, dtype)
    if tile.split:
        assert not causal
        assert dtype == torch.bfloat16
        assert tile in split_tiles(head_dim)
        assert seq_len > tile.keys  # both have keys


@pytest.mark.parametrize(("causal", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_split_that_would_add_up_what_does_not_add_up_is_refused(causal, dtype):
    x = torch.zeros(1, 2, 300, 64, dtype=dtype)
    with (
        no_gpu(),
        pytest.raises(KernelError, match=r"tile with split .*torch\.bfloat16 under a full mask would do"),
    ):
        flash_hopper.forward(x, x, x, causal=causal, tile=Tile(split=True))


@pytest.mark.parametrize("heads", [1, 12, 16])
def test_a_cluster_of_two_blocks_takes_each_tile_and_a_warp_stores_eight_rows(heads, monkeypatch):
    x = torch.zeros(1, heads, 1024, 72, dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    rows = []
    with no_gpu() as noted:
        monkeypatch.setattr(flash_hopper, "heads_map", lambda *of: rows.append((of[2], of[5])) or bytes(128))
        flash_hopper.forward(x, x, x, causal=False, out=out, tile=Tile(warpgroups=3, copies=1, split=True))
    ((_, _, grid, block, problem),) = noted
    clusters = min(66, heads * math.ceil(1024 / WIDE))
    assert (grid, block) == (2 * clusters, 512)
    assert rows == [(x.data_ptr(), 64), (x.data_ptr(), 128), (x.data_ptr(), 128), (out.data_ptr(), 8)]
    *counts, _ = struct.unpack_from("6if", problem, 552)
    group = deal(heads, 1024, 72, False, WIDE, 128, clusters, True).heads
    assert counts == [heads, heads, 1024, math.ceil(1024 / WIDE), group, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("seq_len", [1, 7, 64, 127, 128, 129, 192, 193, 255, 256, 257, 385, 1000, 1024, 1025])
@pytest.mark.parametrize("head_dim", [8, 32, 64, 72, 96, 128])
def test_any_length_is_right_also_if_a_block_has_no_keys(head_dim, seq_len):
    for tile in split_tiles(head_dim):
        check_flash(attend(tile), (2, 3, seq_len, head_dim), torch.bfloat16, False, "packed", "random")


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [16, 40, 64, 72, 80, 104])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 1400)),
    wide=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    scores=st.sampled_from((*SCORES, "mixed", "climbing", "low")),
)
def test_any_shape_is_right(head_dim, sizes, wide, layout, scores):
    tile = split_tiles(head_dim)[-1 if wide else 0]
    check_flash(attend(tile), (*sizes, head_dim), torch.bfloat16, False, layout, scores)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(60, 50, 260, 64), (3, 1500, 321, 32), (8, 12, 1024, 72)], ids=str)
def test_clusters_with_many_tiles_are_right(shape):
    for tile in split_tiles(shape[-1]):
        for scores in ("random", "mixed"):
            check_flash(attend(tile), shape, torch.bfloat16, False, "bthd", scores)


@pytest.mark.gpu
@pytest.mark.parametrize("far", ["first", "second"])
@pytest.mark.parametrize("head_dim", [32, 64, 72, 128])
def test_rows_that_are_far_in_either_half_of_the_keys_are_right_and_change_no_bit_beside(head_dim, far):
    # The keys of one half point where some queries do: their exponentials leave the range in that half alone.
    batch, n_head, seq_len = 2, 7, 700
    half = slice(0, 384) if far == "first" else slice(384, None)
    for tile in split_tiles(head_dim):
        forward = attend(tile)
        q, k, v = inputs((batch, n_head, seq_len, head_dim), torch.bfloat16)
        k.mul_(0.25)
        k[:, :, half] += 1
        lse, lse_before = torch.empty(2, batch, n_head, seq_len, device="cuda")
        before = forward(q, k, v, causal=False, lse=lse_before)
        rows = torch.zeros(batch, n_head, seq_len, dtype=torch.bool, device="cuda")
        # in all eights of a warp's rows, one, or some neighbours
        rows[0, 1, 3] = rows[0, 2, 8] = rows[1, 3, 190:200] = rows[1, 6, 640:] = True
        assert not (lse_before.abs() > 40).any()
        q[rows] = 100 / math.sqrt(head_dim)
        after = forward(q, k, v, causal=False, lse=lse)
        right, right_lse = reference(q, k, v, False)
        assert bool((right_lse[rows] > 60 * math.log(2)).all())
        what = f"{tile} {far}"
        assert_right(after, right, q.dtype, what)
        assert ((lse - right_lse).abs() / right_lse.abs().clamp_min(1)).max().item() <= 1e-3, what
        assert torch.equal(after[~rows], before[~rows]), what
        assert torch.equal(lse[~rows], lse_before[~rows]), what


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [32, 64, 72, 128])
def test_a_half_whose_sum_would_be_doubted_alone_is_right_beside_the_other(head_dim):
    # 256 · exp2(-70) from one half of the keys, 256 from the other.
    q, k, v = inputs((1, 3, 512, head_dim), torch.bfloat16)
    q.fill_(1)
    for low in (slice(0, 256), slice(256, None)):
        k.zero_()
        k[:, :, low] = -70 * math.log(2) / math.sqrt(head_dim)
        right, right_lse = reference(q, k, v, False)
        for tile in split_tiles(head_dim):
            lse = torch.empty(q.shape[:3], device="cuda")
            assert_right(attend(tile)(q, k, v, causal=False, lse=lse), right, q.dtype, f"{tile}")
            assert (lse - right_lse).abs().max().item() <= 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 72])
def test_nan_in_a_query_is_nan_in_its_row_and_nan_in_a_key_of_either_half_is_nan_everywhere(head_dim):
    for tile in split_tiles(head_dim):
        q, k, v = inputs((1, 5, 600, head_dim), torch.bfloat16)
        poisoned = torch.zeros(q.shape[:3], dtype=torch.bool, device="cuda")
        poisoned[0, 2, 9] = poisoned[0, 3, 599] = True
        q[poisoned] = math.nan
        for key in (0, 599):
            of_head = torch.zeros_like(poisoned)
            of_head[0, 4] = True
            poisonous = k.clone()
            poisonous[0, 4, key] = math.nan
            lse = torch.empty(q.shape[:3], device="cuda")
            out = attend(tile)(q, poisonous, v, causal=False, lse=lse)
            assert torch.equal(out.isnan().all(-1), poisoned | of_head), tile
            assert torch.equal(out.isnan().any(-1), poisoned | of_head), tile
            assert torch.equal(lse.isnan(), poisoned | of_head), tile


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [32, 64, 72])
def test_a_split_and_a_whole_tile_agree(head_dim):
    forward = usable(flash_hopper)
    q, k, v = inputs((1, 12, 1024, head_dim), torch.bfloat16, "packed")
    lses = torch.empty(2, 1, 12, 1024, device="cuda")
    whole = forward(q, k, v, causal=False, lse=lses[0], tile=Tile())
    assert chosen(12, 1024, head_dim).split
    split = forward(q, k, v, causal=False, lse=lses[1])
    # Each adds up in its own order, and may compute some exponentials otherwise: bfloat16 may round to the neighbour.
    largest = whole.float().abs().max().item()
    assert (split.float() - whole.float()).abs().max().item() <= 2**-7 * largest  # the spacing of bfloat16
    assert (lses[0] - lses[1]).abs().max().item() <= 1e-4


@pytest.mark.gpu
def test_fp16_is_right_where_bf16_is_split():
    assert chosen(12, 1024).split
    check_flash(usable(flash_hopper), (1, 12, 1024, 64), torch.float16, False, "packed", "random")


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [32, 64, 72, 128])
def test_a_hundred_launches_in_a_row_and_a_graph_give_the_same_bits(head_dim):
    for tile in split_tiles(head_dim):
        forward = attend(tile)
        q, k, v = inputs((1, 12, 1024, head_dim), torch.bfloat16, "packed")
        eager = forward(q, k, v, causal=False)
        outs = [torch.full_like(eager, math.nan) for _ in range(2)]
        for i in range(100):
            forward(q, k, v, causal=False, out=outs[i % 2])
        assert torch.equal(outs[0], eager)
        assert torch.equal(outs[1], eager)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = forward(q, k, v, causal=False)
        for _ in range(20):
            out.fill_(math.nan)
            graph.replay()
            assert torch.equal(out, eager)
