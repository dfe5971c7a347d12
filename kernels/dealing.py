"""How a persistent grid's blocks get their tiles: dealt to and fro, as many heads at once as even the work out best.

The tiles of some heads are neighbours, those with the most work first, so that K and V are read from the L2 cache.
Tiles differ under a causal mask, and where the last one of a head has fewer rows. Whether each block gets its share
hangs on how many heads are taken at once: the wrong number gives one block half as much again as the mean, and a grid
is as slow as its slowest block.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

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
_MANY_ROUNDS = 40
"""So many tiles a block even out whatever is done."""
_MOST_TRIED = 128


@dataclass(frozen=True, slots=True)
class Deal:
    """How many heads are taken at once, and what the block with the most work then gets, in tiles of keys."""

    heads: int
    slowest: float


@functools.lru_cache(1024)
def deal(
    batch_heads: int, seq_len: int, head_dim: int, causal: bool, rows: int, keys: int, blocks: int
) -> Deal:
    """The best deal for `blocks` blocks with tiles of `rows` queries and `keys` keys."""
    head_bytes = max(1, 2 * 2 * seq_len * head_dim)
    easy = max(1, min(batch_heads, _EASY_BYTES // head_bytes))
    if batch_heads * math.ceil(seq_len / rows) > _MANY_ROUNDS * blocks:
        return Deal(easy, float(row_costs(seq_len, causal, rows, keys).sum()) * batch_heads / blocks)
    if not batch_heads * seq_len:
        return Deal(easy, 0.0)

    def duration(found: Deal) -> float:
        crowded = max(0.0, found.heads * head_bytes / _EASY_BYTES - 1) * _CROWDED
        return (1 + crowded) * found.slowest

    most = max(1, min(batch_heads, _MOST_BYTES // head_bytes))
    tried = range(most, easy // 4, -math.ceil(most / _MOST_TRIED))
    deals = (Deal(n, slowest(batch_heads, seq_len, causal, rows, keys, blocks, n)) for n in tried)
    return min(deals, key=duration)


def slowest(
    batch_heads: int, seq_len: int, causal: bool, rows: int, keys: int, blocks: int, heads: int
) -> float:
    """What the block with the most work gets, in tiles of keys, with `heads` heads taken at once.

    There must be work: `batch_heads` and `seq_len` are at least 1.
    """
    cost = row_costs(seq_len, causal, rows, keys)
    row_tiles = len(cost)
    tile = np.arange(batch_heads * row_tiles)
    before = tile // (heads * row_tiles) * heads
    among = np.minimum(heads, batch_heads - before)
    of_row = cost[(tile - before * row_tiles) // among]
    turn, place = np.divmod(tile, blocks)
    block = np.where(turn % 2 == 0, place, blocks - 1 - place)
    return float(np.bincount(block, weights=of_row).max())


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
