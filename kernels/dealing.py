"""How a persistent grid's blocks get their tiles: dealt to and fro, as many heads at once as even the work out best.

The tiles of some heads are neighbours, those with the most keys first, so that K and V are read from the L2 cache.
Under a causal mask tiles differ, and whether each block gets its share hangs on how many heads are taken at once: the
wrong number gives one block half as much again as the mean, and a grid is as slow as its slowest block.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_L2_BYTES = 32 * 2**20
"""K and V of heads that are computed at once: what stays in an L2 cache of 50 MB, beside Q and O that pass through."""
_STARTING = 1.5
"""About what a tile costs before and after its tiles of keys, in tiles of keys: masking, storing, starting anew."""
_MOST_TRIED = 64
_BESIDE = {False: 128, True: 192}
"""Under a full mask, about what a tile costs beside its tiles of keys, in rows of one; split, with the exchange."""


@functools.lru_cache(1024)
def heads_at_once(
    batch_heads: int, seq_len: int, head_dim: int, causal: bool, rows: int, keys: int, blocks: int
) -> int:
    """How many heads to take at once, for `blocks` blocks with tiles of `rows` queries and `keys` keys."""
    fit = max(1, min(batch_heads, _L2_BYTES // max(1, 4 * seq_len * head_dim)))
    if not causal or not batch_heads * seq_len:
        return fit
    tried = range(fit, max(0, fit // 4 - 1, fit - _MOST_TRIED), -1)
    return min(tried, key=lambda heads: round(slowest(batch_heads, seq_len, rows, keys, blocks, heads), 2))


def slowest(batch_heads: int, seq_len: int, rows: int, keys: int, blocks: int, heads: int) -> float:
    """What the block with the most causal work gets, as a multiple of the mean, with `heads` heads taken at once.

    There must be work: `batch_heads` and `seq_len` are at least 1.
    """
    row_tiles = math.ceil(seq_len / rows)
    last_row = np.minimum((np.arange(row_tiles) + 1) * rows, seq_len) - 1
    cost = _STARTING + last_row // keys + 1
    tile = np.arange(batch_heads * row_tiles)
    before = tile // (heads * row_tiles) * heads
    among = np.minimum(heads, batch_heads - before)
    of_row = cost[row_tiles - 1 - (tile - before * row_tiles) // among]
    share = _dealt(of_row, blocks)
    return float(share.max() / share.mean())


@functools.lru_cache(1024)
def busiest(batch_heads: int, seq_len: int, rows: int, keys: int, sm_count: int, split: bool) -> float:
    """What the SM with the most work has under a full mask, in rows times tiles of keys, with a block on each SM.

    Split, two SMs take each tile of rows and half of its keys. Only few heads are worth asking for: all are taken at
    once.
    """
    if not batch_heads * seq_len:
        return 0.0
    tiles_of_keys = math.ceil(math.ceil(seq_len / keys) / (2 if split else 1))
    # A consumer has 64 rows. The last rows of a head come last if the keys are split, else first.
    rows_of = np.minimum(rows, math.ceil(seq_len / 64) * 64 - np.arange(0, seq_len, rows))
    cost = np.repeat(rows_of if split else rows_of[::-1], batch_heads) * tiles_of_keys + _BESIDE[split]
    return float(_dealt(cost, sm_count // 2 if split else sm_count).max())


def _dealt(costs: NDArray[np.float64], takers: int) -> NDArray[np.float64]:
    """What each of those who take tiles gets in all: dealt to and fro."""
    turn, place = np.divmod(np.arange(len(costs)), takers)
    taker = np.where(turn % 2 == 0, place, takers - 1 - place)
    return np.bincount(taker, weights=costs, minlength=takers)
