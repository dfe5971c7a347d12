"""How tiles are dealt to a persistent grid's blocks: each to exactly one, and evenly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.dealing import deal, row_costs, slowest

SMS = 132
MIB = 2**20
work = st.tuples(st.integers(1, 40), st.integers(1, 700), st.sampled_from([64, 128, 192]))
"""Heads, seq_len and rows of a tile."""
keys_of_a_tile = st.sampled_from([64, 128])
some_blocks = st.integers(1, 30)


def rounds(block, blocks, tiles):
    """The tiles of one block, as `dealt` in flash_hopper.cu hands them out."""
    turn = 0
    while (tile := turn * blocks + (blocks - 1 - block if turn % 2 else block)) < tiles:
        yield tile
        turn += 1


def head_and_row(tile, batch_heads, row_tiles, rows, group, causal):
    """Which head's tile this is, and its first row, as `work_of` in flash_hopper.cu says."""
    before = tile // (group * row_tiles) * group
    among = min(group, batch_heads - before)
    rest = tile - before * row_tiles
    row_tile = rest // among
    return before + rest % among, (row_tiles - 1 - row_tile if causal else row_tile) * rows


def cost(first_row, seq_len, rows, keys, causal):
    """Of a tile of rows: its tiles of keys and what it costs beside, less where a block's consumers have no row."""
    last_row = min(first_row + rows, seq_len) - 1
    keys_seen = (last_row if causal else seq_len - 1) // keys + 1
    consumers = math.ceil((last_row + 1 - first_row) / 64)
    return (1.5 + keys_seen) * (0.25 + 0.75 * consumers / (rows // 64))


def simulated(batch_heads, seq_len, rows, keys, blocks, group, causal):
    """What each block does, tile by tile: (head, first row)."""
    row_tiles = math.ceil(seq_len / rows)
    return [
        [
            head_and_row(tile, batch_heads, row_tiles, rows, group, causal)
            for tile in rounds(block, blocks, batch_heads * row_tiles)
        ]
        for block in range(blocks)
    ]


@given(work, keys_of_a_tile, some_blocks, st.integers(1, 50), st.booleans())
def test_every_tile_is_dealt_to_exactly_one_block(sizes, keys, blocks, group, causal):
    batch_heads, seq_len, rows = sizes
    blocks = min(blocks, batch_heads * math.ceil(seq_len / rows))  # as a launch has
    done = simulated(*sizes, keys, blocks, group, causal)
    tiles = sorted(tile for mine in done for tile in mine)
    assert tiles == [(head, row) for head in range(batch_heads) for row in range(0, seq_len, rows)]
    assert max(map(len, done)) - min(map(len, done)) <= 1


@given(work, keys_of_a_tile, some_blocks, st.integers(1, 50), st.booleans())
def test_the_slowest_block_is_what_a_simulation_finds(sizes, keys, blocks, group, causal):
    batch_heads, seq_len, rows = sizes
    shares = [
        sum(cost(first_row, seq_len, rows, keys, causal) for _, first_row in mine)
        for mine in simulated(*sizes, keys, blocks, group, causal)
    ]
    assert slowest(batch_heads, seq_len, causal, rows, keys, blocks, group) == pytest.approx(max(shares))


def test_blocks_with_one_tile_each_are_as_slow_as_the_longest():
    # Tiles of 128 rows see 1 and 2 tiles of 128 keys, and 1.5 is what a tile costs beside.
    assert slowest(2, 256, True, 128, 128, 4, 2) == pytest.approx(3.5)
    assert slowest(1, 128, False, 128, 128, 1, 1) == pytest.approx(2.5)


@given(work, keys_of_a_tile, st.booleans())
def test_tiles_with_the_most_work_come_first(sizes, keys, causal):
    _, seq_len, rows = sizes
    costs = list(row_costs(seq_len, causal, rows, keys))
    if causal and seq_len % rows:
        costs = costs[1:]  # the last rows see the most keys, and may be few
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("batch", "seq_len", "causal", "rows", "most"),
    [(32, 1024, True, 128, 1.02), (32, 1024, True, 192, 1.05), (32, 1024, False, 192, 1.04),
     (4, 1024, False, 192, 1.01), (8, 4096, True, 192, 1.05), (8, 4096, False, 192, 1.03)],
)  # fmt: skip
@pytest.mark.parametrize("head_dim", [32, 64, 72])
def test_heads_taken_at_once_even_the_work_out(batch, seq_len, causal, rows, most, head_dim):
    dealt = deal(12 * batch, seq_len, head_dim, causal, rows, 128, SMS)
    mean = row_costs(seq_len, causal, rows, 128).sum() * 12 * batch / SMS
    assert 1 - 1e-9 <= dealt.slowest / mean <= most


def test_taking_all_that_fit_at_once_would_leave_a_fifth_of_the_time_to_one_block():
    lesson = 384, 1024, True, 128, 128, SMS
    assert slowest(*lesson, 64) >= 1.14 * slowest(*lesson, deal(384, 1024, 64, *lesson[2:]).heads)


@given(work, st.integers(1, 16), keys_of_a_tile, some_blocks, st.booleans())
def test_a_deal_tells_what_its_slowest_block_gets(sizes, eighths, keys, blocks, causal):
    batch_heads, seq_len, rows = sizes
    dealt = deal(batch_heads, seq_len, 8 * eighths, causal, rows, keys, blocks)
    found = slowest(batch_heads, seq_len, causal, rows, keys, blocks, dealt.heads)
    # Of many rounds the mean is told.
    assert 0.85 * found <= dealt.slowest <= found * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 3000), st.integers(0, 16384), st.integers(1, 16), st.booleans(), st.sampled_from([64, 192])
)
def test_heads_at_once_fit_in_the_cache_and_are_at_least_one(batch_heads, seq_len, eighths, causal, rows):
    heads = deal(batch_heads, seq_len, 8 * eighths, causal, rows, 128, SMS).heads
    k_and_v = 2 * 2 * seq_len * 8 * eighths
    assert 1 <= heads <= max(1, batch_heads)
    assert heads == 1 or heads * k_and_v <= 32 * MIB
