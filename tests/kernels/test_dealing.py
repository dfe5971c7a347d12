"""How tiles are dealt to a persistent grid's blocks: each to exactly one, and evenly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.dealing import busiest, heads_at_once, slowest

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


def head_and_row(tile, batch_heads, row_tiles, rows, group, split=False):
    """Which head's tile this is, and its first row, as `work_of` in flash_hopper.cu says."""
    before = tile // (group * row_tiles) * group
    among = min(group, batch_heads - before)
    rest = tile - before * row_tiles
    return before + rest % among, (rest // among if split else row_tiles - 1 - rest // among) * rows


def simulated(batch_heads, seq_len, rows, keys, blocks, group):
    """What each block does, tile by tile: (head, first row, tiles of keys under a causal mask)."""
    row_tiles = math.ceil(seq_len / rows)
    done = []
    for block in range(blocks):
        mine = []
        for tile in rounds(block, blocks, batch_heads * row_tiles):
            head, first_row = head_and_row(tile, batch_heads, row_tiles, rows, group)
            mine.append((head, first_row, (min(first_row + rows, seq_len) - 1) // keys + 1))
        done.append(mine)
    return done


@given(work, keys_of_a_tile, some_blocks, st.integers(1, 50))
def test_every_tile_is_dealt_to_exactly_one_block(sizes, keys, blocks, group):
    batch_heads, seq_len, rows = sizes
    blocks = min(blocks, batch_heads * math.ceil(seq_len / rows))  # as a launch has
    done = simulated(*sizes, keys, blocks, group)
    tiles = sorted((head, first_row) for mine in done for head, first_row, _ in mine)
    assert tiles == [(head, row) for head in range(batch_heads) for row in range(0, seq_len, rows)]
    assert max(map(len, done)) - min(map(len, done)) <= 1


@given(work, keys_of_a_tile, some_blocks, st.integers(1, 50))
def test_the_slowest_block_is_what_a_simulation_finds(sizes, keys, blocks, group):
    shares = [
        sum(1.5 + tiles_of_keys for *_, tiles_of_keys in mine)
        for mine in simulated(*sizes, keys, blocks, group)
    ]
    expected = max(shares) / (sum(shares) / blocks)
    assert slowest(*sizes, keys, blocks, group) == pytest.approx(expected)


def test_blocks_with_one_tile_each_are_as_slow_as_the_longest():
    # Tiles of 128 rows see 1 and 2 tiles of 128 keys, and 1.5 is what a tile costs beside.
    assert slowest(2, 256, 128, 128, 4, 2) == pytest.approx(3.5 / 3.0)
    assert slowest(1, 128, 128, 128, 1, 1) == 1.0


@given(work, keys_of_a_tile, some_blocks, st.booleans())
def test_the_busiest_under_a_full_mask_is_what_a_simulation_finds(sizes, keys, sms, split):
    batch_heads, seq_len, rows = sizes
    row_tiles, sms = math.ceil(seq_len / rows), 2 * sms
    tiles_of_keys, beside = math.ceil(seq_len / keys), 128
    if split:  # the block with more
        tiles_of_keys, beside = math.ceil(tiles_of_keys / 2), 192
    takers = sms // 2 if split else sms
    done = [0] * takers
    for taker in range(takers):
        for tile in rounds(taker, takers, batch_heads * row_tiles):
            _, first_row = head_and_row(tile, batch_heads, row_tiles, rows, batch_heads, split)
            consumers = sum(first_row + 64 * i < seq_len for i in range(rows // 64))
            done[taker] += 64 * consumers * tiles_of_keys + beside
    assert busiest(batch_heads, seq_len, rows, keys, sms, split) == max(done)


def test_splitting_evens_out_the_lessons_heads_and_not_four_times_as_many():
    lesson = 12, 1024
    assert busiest(*lesson, 128, 128, SMS, False) == 128 * 8 + 128  # one tile on 96 SMs, none on 36
    assert busiest(*lesson, 192, 128, SMS, True) == 192 * 4 + 192  # or two of 64 rows, which take less
    assert busiest(48, 1024, 192, 128, SMS, True) > busiest(48, 1024, 128, 128, SMS, False)


def test_nothing_keeps_nobody_busy():
    assert busiest(0, 1024, 128, 128, SMS, False) == busiest(12, 0, 192, 128, SMS, True) == 0


def test_heads_taken_at_once_even_the_work_out():
    lesson = 384, 1024, 128, 128, SMS
    assert slowest(*lesson, 64) >= 1.15
    batch_heads, seq_len, *rest = lesson
    for head_dim in (32, 64, 72, 128):
        chosen = heads_at_once(batch_heads, seq_len, head_dim, True, *rest)
        assert slowest(*lesson, chosen) <= 1.03, head_dim


@given(work, st.integers(1, 16), keys_of_a_tile, some_blocks)
def test_taking_all_that_fit_at_once_is_never_better_by_a_hundredth(sizes, eighths, keys, blocks):
    batch_heads, seq_len, rows = sizes
    fit = heads_at_once(batch_heads, seq_len, 8 * eighths, False, rows, keys, blocks)
    chosen = heads_at_once(batch_heads, seq_len, 8 * eighths, True, rows, keys, blocks)
    assert slowest(*sizes, keys, blocks, chosen) <= slowest(*sizes, keys, blocks, fit) + 0.01


@settings(max_examples=50)
@given(
    st.integers(0, 3000), st.integers(0, 16384), st.integers(1, 16), st.booleans(), st.sampled_from([64, 192])
)
def test_heads_at_once_fit_in_the_cache_and_are_at_least_one(batch_heads, seq_len, eighths, causal, rows):
    chosen = heads_at_once(batch_heads, seq_len, 8 * eighths, causal, rows, 128, SMS)
    k_and_v = 2 * 2 * seq_len * 8 * eighths
    assert 1 <= chosen <= max(1, batch_heads)
    assert chosen == 1 or chosen * k_and_v <= 32 * MIB


@pytest.mark.parametrize(
    ("batch_heads", "seq_len", "head_dim", "heads"),
    [(384, 1024, 64, 128), (24, 16384, 64, 8), (12, 1024, 64, 12), (1, 10**6, 128, 1)],
)
def test_a_full_mask_takes_what_fits(batch_heads, seq_len, head_dim, heads):
    assert heads_at_once(batch_heads, seq_len, head_dim, False, 128, 128, SMS) == heads
