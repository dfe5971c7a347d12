"""How a persistent grid's blocks get their tiles: dealt to and fro, as many heads at once as even the work out best.

The tiles of some heads are neighbours, those with the most keys first, so that K and V are read from the L2 cache.
Under a causal mask tiles differ, and whether each block gets its share hangs on how many heads are taken at once: the
wrong number gives one block half as much again as the mean, and a grid is as slow as its slowest block.
"""

from __future__ import annotations

import functools
import math

import numpy as np

_L2_BYTES = 32 * 2**20
"""K and V of heads that are computed at once: what stays in an L2 cache of 50 MB, beside Q and O that pass through."""
_STARTING = 1.5
"""About what a tile costs before and after its tiles of keys, in tiles of keys: masking, storing, starting anew."""
_MOST_TRIED = 64


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
    turn, place = np.divmod(tile, blocks)
    block = np.where(turn % 2 == 0, place, blocks - 1 - place)
    share = np.bincount(block, weights=of_row, minlength=blocks)
    return float(share.max() / share.mean())
