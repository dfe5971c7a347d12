"""How tiles are dealt to a persistent grid's blocks: each to exactly one, and evenly."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import dealing
from kernels.compiler import FOLDER
from kernels.dealing import ROUNDS, deal, in_rounds, row_costs, shares

SMS = 132
MIB = 2**20
work = st.tuples(st.integers(1, 40), st.integers(1, 700), st.sampled_from([64, 128, 192]))
"""Heads, seq_len and rows of a tile."""
keys_of_a_tile = st.sampled_from([64, 128])
some_blocks = st.integers(1, 30)


def to_and_fro(blocks):
    """The shifts of rounds that begin where the one before ended."""
    return ROUNDS // 2 * (0, -blocks)


def tiles_of(block, blocks, tiles, shifts):
    """The tiles of one block, as `dealt` in flash_hopper.cu hands them out."""
    for turn in range(math.ceil(tiles / blocks)):
        shift = shifts[turn % ROUNDS]
        place = ~shift - block if shift < 0 else shift + block
        tile = turn * blocks + place + (blocks if place < 0 else 0 if place < blocks else -blocks)
        if tile >= tiles:
            return
        yield tile


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


def simulated(batch_heads, seq_len, rows, blocks, group, causal, shifts):
    """What each block does, tile by tile: (head, first row)."""
    row_tiles = math.ceil(seq_len / rows)
    return [
        [
            head_and_row(tile, batch_heads, row_tiles, rows, group, causal)
            for tile in tiles_of(block, blocks, batch_heads * row_tiles, shifts)
        ]
        for block in range(blocks)
    ]


def slowest_to_and_fro(batch_heads, seq_len, causal, rows, keys, blocks, heads):
    """What the block with the most work gets without shifts."""
    cost = row_costs(seq_len, causal, rows, keys)
    return shares(in_rounds(cost, batch_heads, blocks, heads), 50 * to_and_fro(blocks)).max()


@st.composite
def some_shifts(draw, blocks):
    """Any that a deal may have, for some blocks."""
    return tuple(draw(st.lists(st.integers(-blocks, blocks - 1), min_size=ROUNDS, max_size=ROUNDS)))


@given(work, some_blocks, st.integers(1, 50), st.booleans(), st.data())
def test_every_tile_is_dealt_to_exactly_one_block(sizes, blocks, group, causal, data):
    batch_heads, seq_len, rows = sizes
    blocks = min(blocks, batch_heads * math.ceil(seq_len / rows))  # as a launch has
    done = simulated(*sizes, blocks, group, causal, data.draw(some_shifts(blocks)))
    tiles = sorted(tile for mine in done for tile in mine)
    assert tiles == [(head, row) for head in range(batch_heads) for row in range(0, seq_len, rows)]
    assert max(map(len, done)) - min(map(len, done)) <= 1


@given(work, keys_of_a_tile, some_blocks, st.integers(1, 50), st.booleans(), st.data())
def test_the_blocks_shares_are_what_a_simulation_finds(sizes, keys, blocks, group, causal, data):
    batch_heads, seq_len, rows = sizes
    shifts = data.draw(some_shifts(blocks)) * 50  # as the kernel begins anew
    done = simulated(*sizes, blocks, group, causal, shifts)
    right = [sum(cost(first_row, seq_len, rows, keys, causal) for _, first_row in mine) for mine in done]
    rounds = in_rounds(row_costs(seq_len, causal, rows, keys), batch_heads, blocks, group)
    assert shares(rounds, shifts) == pytest.approx(right)


def test_the_kernel_is_handed_as_many_shifts_as_a_deal_has():
    assert re.findall(r"#define SHIFTS (\d+)", (FOLDER / "flash_hopper.cu").read_text()) == [str(ROUNDS)]
    # Rounds that begin anew must go on to and fro.
    assert ROUNDS % 2 == 0


@given(work, st.integers(1, 16), keys_of_a_tile, some_blocks, st.booleans())
def test_a_deal_has_a_shift_for_each_round_within_the_blocks(sizes, eighths, keys, blocks, causal):
    batch_heads, seq_len, rows = sizes
    shifts = deal(batch_heads, seq_len, 8 * eighths, causal, rows, keys, blocks).shifts
    assert len(shifts) == ROUNDS
    assert all(-blocks <= shift < blocks for shift in shifts)


def test_blocks_with_one_tile_each_are_as_slow_as_the_longest():
    # Tiles of 128 rows see 1 and 2 tiles of 128 keys, and 1.5 is what a tile costs beside.
    assert deal(2, 256, 64, True, 128, 128, 4).slowest == pytest.approx(3.5)
    assert deal(1, 128, 64, False, 128, 128, 1).slowest == pytest.approx(2.5)


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
     (8, 1024, True, 192, 1.04), (4, 1024, False, 192, 1.01), (8, 4096, True, 192, 1.05),
     (8, 4096, False, 192, 1.03), (2, 16384, True, 192, 1.02)],
)  # fmt: skip
@pytest.mark.parametrize("head_dim", [32, 64, 72])
def test_heads_taken_at_once_even_the_work_out(batch, seq_len, causal, rows, most, head_dim):
    dealt = deal(12 * batch, seq_len, head_dim, causal, rows, 128, SMS)
    mean = row_costs(seq_len, causal, rows, 128).sum() * 12 * batch / SMS
    assert 1 - 1e-9 <= dealt.slowest / mean <= most


def test_taking_all_that_fit_at_once_would_leave_a_fifth_of_the_time_to_one_block():
    lesson = 384, 1024, True, 128, 128, SMS
    assert slowest_to_and_fro(*lesson, 64) >= 1.14 * deal(384, 1024, 64, *lesson[2:]).slowest


def test_shifted_rounds_spare_long_rows_what_to_and_fro_leaves_to_one_block():
    lesson = 24, 16384, True, 192, 128, SMS
    assert min(slowest_to_and_fro(*lesson, heads) for heads in range(1, 6)) >= (
        1.07 * deal(24, 16384, 64, *lesson[2:]).slowest
    )


def test_rounds_are_not_shifted_in_vain():
    # Sixteen rounds of 132 tiles, 96 of them short: some block gets none of those, whatever is done.
    dealt = deal(96, 4096, 64, False, 192, 128, SMS)
    assert dealt.shifts == to_and_fro(SMS)
    # Two heads have one long and one short tile each, for two blocks: to and fro is best.
    assert deal(2, 256, 64, True, 128, 128, 2).shifts == to_and_fro(2)


def test_a_grid_of_thousands_of_blocks_is_dealt_at_once(monkeypatch):
    """To shift one round looks at the square of the blocks: a minute, of a kernel's first call."""
    shifted = []
    monkeypatch.setattr(dealing, "_shift", lambda found, _rounds: shifted.append(found) or found)
    uneven = 2221, 4096, 128, False, 192, 128
    found = deal.__wrapped__(*uneven, 3000)
    assert (found.shifts, shifted) == (to_and_fro(3000), [])
    deal.__wrapped__(222, 4096, 128, False, 192, 128, 300)
    assert shifted, "fewer blocks are"


@pytest.mark.parametrize(
    ("batch_heads", "seq_len", "blocks"),
    [
        (10**6, 1, 1),
        (10**6, 1, 1000),
        (10**6, 4096, 7),
        (1, 1, 1000),
        (2, 1, 2),
        (39_600, 1, 1000),
        (0, 9, 1),
    ],
)
def test_grids_that_no_gpu_has_and_very_many_heads_are_dealt_whole(batch_heads, seq_len, blocks):
    found = deal.__wrapped__(batch_heads, seq_len, 64, True, 64, 64, blocks)
    assert 1 <= found.heads <= max(1, batch_heads)
    assert len(found.shifts) == ROUNDS
    assert all(-blocks <= shift < blocks for shift in found.shifts)
    whole = batch_heads * row_costs(seq_len, True, 64, 64).sum()
    assert found.slowest >= whole / blocks * (1 - 1e-9)


@settings(deadline=None)
@given(work, keys_of_a_tile, some_blocks, st.booleans())
def test_no_deal_is_worse_than_to_and_fro(sizes, keys, blocks, causal):
    batch_heads, seq_len, rows = sizes
    dealt = deal(batch_heads, seq_len, 8, causal, rows, keys, blocks)
    # These K and V fit in the cache whatever is done.
    every = (
        slowest_to_and_fro(batch_heads, seq_len, causal, rows, keys, blocks, n)
        for n in range(batch_heads, batch_heads // 4, -1)
    )
    assert dealt.slowest <= min(every) * (1 + 1e-9)


@given(work, st.integers(1, 16), keys_of_a_tile, some_blocks, st.booleans())
def test_a_deal_tells_what_its_slowest_block_gets(sizes, eighths, keys, blocks, causal):
    batch_heads, seq_len, rows = sizes
    dealt = deal(batch_heads, seq_len, 8 * eighths, causal, rows, keys, blocks)
    done = simulated(*sizes, blocks, dealt.heads, causal, dealt.shifts)
    found = max(sum(cost(first_row, seq_len, rows, keys, causal) for _, first_row in mine) for mine in done)
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
