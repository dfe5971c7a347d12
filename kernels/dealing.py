"""How a persistent grid's blocks get their tiles: so many at once, and in such rounds, that all get the same.

The tiles of some heads are neighbours, those with the most work first, so that K and V are read from the L2 cache. In
each round every block gets one tile. Tiles differ under a causal mask, and where the last one of a head has fewer rows.
Whether each block gets its share hangs on how many heads are taken at once and on how rounds are dealt: the wrong way
gives one block half as much again as the mean, and a grid is as slow as its slowest block.

A round is dealt in the order of its tiles, from any of them on, forward or backward. To and fro is tried first; where
that is uneven, one round after the other is shifted until no shift helps. A queue (each next tile to the block that is
free first) would be no more even, and needs a table of all tiles, or a counter in memory.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

ROUNDS = 40
"""Of which a deal says how they are dealt. So many tiles a block even out whatever is done."""
_EASY_BYTES = 16 * 2**20
"""K and V of heads that are computed at once and stay in an L2 cache of 50 MB, beside Q and O that pass through."""
_MOST_BYTES = 2 * _EASY_BYTES
_CROWDED = 0.06
"""About how much slower all is with `_MOST_BYTES` of K and V: measured on an H200 at head_dim 64 and 72."""
_STARTING = 1.5
"""About what a tile costs before and after its tiles of keys, in tiles of keys: masking, storing, starting anew."""
_FIXED_SHARE = 0.25
"""Guessed: what a tile costs whose block has hardly a row, as a share of a whole one's: one consumer waits alone."""
_CONSUMER_ROWS = 64
"""Queries of one consumer, a warpgroup."""
_MOST_TRIED = 128
"""Numbers of heads that are dealt to and fro, evenly spread where there are more to choose from."""
_MOST_SHIFTED = 8
"""Deals, the best ones to and fro, whose rounds are then shifted: some 3 ms each for 2,300 tiles, once for a shape."""
_MOST_BLOCKS = 600
"""Of which rounds are shifted, more than a Hopper GPU holds: it takes their square, and for 3,000 a minute."""
_MOST_SWEEPS = 6
"""Times that all rounds are gone through; three nearly always do."""
_SQUARES_WEIGHT = 1e-3
"""Of the sum of the shares' squares, beside the largest share: about a thousandth of it, to decide between equals."""
BOX_COLUMNS = 64
"""Of a head's row, fetched at once; a row may need a second, narrower box."""
_SHIFTED, _SHIFTED_TWO_BOXES = 0.03, 0.045
"""What a shifted deal costs besides, as a share, the second where a row of a head takes two boxes of columns: measured
on an H200. Blocks whose first tiles are short run ahead of the others, and more of K and V is wanted at once."""


@dataclass(frozen=True, slots=True)
class Deal:
    """How many heads are taken at once, and what the block with the most work then gets, in tiles of keys.

    Of more than `ROUNDS` rounds, `slowest` is the mean.

    `shifts` says how each round is dealt. From 0 on: the first block gets the round's tile `shift`, the next block the
    next tile. Negative: the first gets tile `~shift`, the next the one before. After the last tile comes the first, and
    after `ROUNDS` rounds the first shift.
    """

    heads: int
    slowest: float
    shifts: tuple[int, ...]


@functools.lru_cache(1024)
def deal(
    batch_heads: int, seq_len: int, head_dim: int, causal: bool, rows: int, keys: int, blocks: int
) -> Deal:
    """The best deal found for `blocks` blocks with tiles of `rows` queries and `keys` keys."""
    to_and_fro = ROUNDS // 2 * (0, -blocks)
    shifting = _SHIFTED if head_dim <= BOX_COLUMNS else _SHIFTED_TWO_BOXES
    head_bytes = max(1, 2 * 2 * seq_len * head_dim)
    easy = max(1, min(batch_heads, _EASY_BYTES // head_bytes))
    cost = row_costs(seq_len, causal, rows, keys)
    tiles, mean = batch_heads * len(cost), batch_heads * float(cost.sum()) / blocks
    if not tiles or tiles > ROUNDS * blocks:
        return Deal(easy, mean, to_and_fro)

    def duration(found: Deal) -> float:
        crowded = max(0.0, found.heads * head_bytes / _EASY_BYTES - 1) * _CROWDED
        shifted = 0.0 if found.shifts == to_and_fro else shifting
        return (1 + crowded + shifted) * found.slowest

    def dealt(heads: int) -> Deal:
        share = shares(in_rounds(cost, batch_heads, blocks, heads), to_and_fro)
        return Deal(heads, float(share.max()), to_and_fro)

    most = max(1, min(batch_heads, _MOST_BYTES // head_bytes))
    deals = sorted(map(dealt, range(most, easy // 4, -math.ceil(most / _MOST_TRIED))), key=duration)
    # No deal takes less than the mean, and a shifted one as much more as shifting costs.
    even = tiles <= blocks or duration(deals[0]) <= (1 + shifting) * mean
    if even or blocks > _MOST_BLOCKS:
        return deals[0]
    best = deals[:_MOST_SHIFTED]
    shifted = (_shift(found, in_rounds(cost, batch_heads, blocks, found.heads)) for found in best)
    return min(best[0], *shifted, key=duration)  # of equals the first: not shifted in vain


def in_rounds(cost: np.ndarray, batch_heads: int, blocks: int, heads: int) -> np.ndarray:
    """What tiles cost in the order they are dealt, [rounds, blocks], `heads` heads' tiles being neighbours.

    `cost` is that of each tile of a head. The last round is filled up with tiles of no cost.
    """
    row_tiles = len(cost)
    tile = np.arange(batch_heads * row_tiles)
    before = tile // (heads * row_tiles) * heads
    among = np.minimum(heads, batch_heads - before)
    rounds = np.zeros((math.ceil(len(tile) / blocks), blocks))
    rounds.flat[: len(tile)] = cost[(tile - before * row_tiles) // among]
    return rounds


def shares(rounds: np.ndarray, shifts: tuple[int, ...]) -> np.ndarray:
    """What each block gets of `in_rounds` dealt by `shifts`, of which there is one for each round, or more."""
    blocks = rounds.shape[1]
    shift = np.array(shifts[: len(rounds)])[:, None]
    place = np.where(shift < 0, ~shift - np.arange(blocks), shift + np.arange(blocks)) % blocks
    share: np.ndarray = np.take_along_axis(rounds, place, axis=1).sum(axis=0)
    return share


def row_costs(seq_len: int, causal: bool, rows: int, keys: int) -> np.ndarray:
    """What each tile of a head's rows costs, in the order they are dealt: the last rows first under a causal mask.

    In tiles of keys for all of a block's consumers; one that has no row leaves its time to the others, in part.
    """
    first_row = np.arange(math.ceil(seq_len / rows)) * rows
    if causal:
        first_row = first_row[::-1]
    own = np.minimum(seq_len - first_row, rows)
    last_key = first_row + own - 1 if causal else np.full_like(own, seq_len - 1)
    consumers = np.ceil(own / _CONSUMER_ROWS) / (rows // _CONSUMER_ROWS)
    return (_STARTING + last_key // keys + 1) * (_FIXED_SHARE + (1 - _FIXED_SHARE) * consumers)


def _shift(found: Deal, rounds: np.ndarray) -> Deal:
    """The deal with one of its `rounds` after the other shifted to where the slowest block gets least."""
    blocks = rounds.shape[1]
    shifts, share = list(found.shifts), shares(rounds, found.shifts)
    both_ways = np.stack([rounds, rounds[:, ::-1]], axis=1)
    # [rounds, 2, blocks, blocks]: what each block gets by each of the shifts 0 to blocks - 1 and -blocks to -1.
    every = sliding_window_view(np.concatenate([both_ways, both_ways[..., :-1]], axis=-1), blocks, axis=-1)
    weight = _SQUARES_WEIGHT / max(1.0, float(share.sum()))
    for _ in range(_MOST_SWEEPS):
        before = share.max()
        for i, by_shift in enumerate(every):
            rest = share - by_shift[int(shifts[i] < 0), shifts[i] % blocks]
            # Of about equal maxima, the least sum of squares.
            score = (by_shift + rest).max(axis=-1) + by_shift @ rest * weight
            back, at = divmod(int(score.argmin()), blocks)
            shifts[i], share = at - back * blocks, rest + by_shift[back, at]
        if share.max() >= before:
            break
    return Deal(found.heads, float(share.max()), tuple(shifts))
