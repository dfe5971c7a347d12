"""Attention by `flash_portable.cu`: which tile a shape gets, and one launch."""

from __future__ import annotations

import math
import struct
from ctypes import c_char
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernels import fused
from kernels.compiler import FOLDER, Build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ctypes import Array

ACTOR = "flash_portable"

_FORMAT = struct.Struct("q24sq24sq24sq24sq28s4x")
"""`struct Problem`: the addresses of q, k, v and out, each with its strides; that of lse; numbers."""
_Problem = c_char * _FORMAT.size
_L2_BYTES = 16 * 2**20
"""K and V of heads whose blocks are neighbours: small enough to stay in an L2 cache of 40 MB or more."""
_SMALL_ROUND = 0.85
"""How long a round of small tiles takes, in rounds of large ones: .75 to .87 on an H200 at head_dim 64 and 72, at 32
as long."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How the work is cut: a block is `warps` warps with 16 · `m_tiles` queries each, `keys` keys at a time.

    `blocks_per_sm` caps the registers so that so many blocks fit on an SM.
    """

    m_tiles: int
    warps: int
    keys: int
    blocks_per_sm: int

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return 16 * self.m_tiles * self.warps

    def shared_bytes(self, head_dim: int) -> int:
        """Two stages of K and of V, or one of K and the block's Q, whichever is more."""
        chunks = head_dim // 8
        return 16 * (chunks | 1) * max(4 * self.keys, self.keys + self.rows)

    def build(self, head_dim: int, dtype: torch.dtype) -> Build:
        """The compilation for this tile."""
        fp16 = int(dtype == torch.float16)
        macros = {"HEAD_DIM": head_dim, "FP16": fp16, "M_TILES": self.m_tiles, "WARPS": self.warps}
        macros |= {"KEYS": self.keys, "BLOCKS_PER_SM": self.blocks_per_sm}
        return Build(FOLDER / "flash_portable.cu", tuple(f"{name}={value}" for name, value in macros.items()))


def tile_for(head_dim: int, batch_heads: int, seq_len: int, causal: bool, sm_count: int) -> Tile:
    """The tile for a shape: 128 queries a block, or 64 where those leave SMs idle or O without registers.

    Under a full mask all tiles take as long, and so the last round counts as much as the others, however few are in it.
    """
    small = Tile(m_tiles=1, warps=4, keys=64, blocks_per_sm=3 if head_dim <= 72 else 2)
    if head_dim > 72:
        return small
    large = Tile(m_tiles=2, warps=4, keys=64, blocks_per_sm=2)

    def rounds(tile: Tile) -> float:
        return batch_heads * math.ceil(seq_len / tile.rows) / (tile.blocks_per_sm * sm_count)

    if rounds(large) < 1:
        return small
    sooner = _SMALL_ROUND * math.ceil(rounds(small)) < math.ceil(rounds(large))
    return small if sooner and not causal and head_dim > 32 else large


def builds() -> Iterator[Build]:
    """What `inspect` compiles: the head_dims that are measured and the largest, for many heads and for few."""
    for head_dim in (32, 64, 72, 96, 128):
        for batch_heads in (384, 12) if head_dim <= 72 else (384,):
            yield tile_for(head_dim, batch_heads, 1024, True, 132).build(head_dim, torch.bfloat16)


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    tile: Tile | None = None,
) -> torch.Tensor:
    """softmax(q · kᵀ / √head_dim + mask) · v, all [batch, n_head, seq_len, head_dim].

    They may have any strides with a dense last axis. `out`, which shares no memory with them, gets the result; without
    it, a new tensor does, stored as [batch, seq_len, n_head, head_dim], which the output projection reads without a
    copy. `lse`, if given, gets the natural logarithm of each row's sum of exponentials: float32
    [batch, n_head, seq_len], contiguous.

    Raises:
        KernelError: a tensor is not as described, starts off a 16-byte boundary, or has a head_dim that is not a
            multiple of 8 up to 128; there are more than `fused.MOST_ROWS` rows; or the kernel cannot be compiled.
    """
    return _fused.forward(q, k, v, causal=causal, out=out, lse=lse, tile=tile)


def refuses(head_dim: int) -> str | None:
    """Why the kernel does not take this head_dim, or None."""
    return fused.refuses(head_dim)


def _plan(layout: fused.Layout, tile: Tile | None) -> fused.Launch:
    batch_heads, seq_len, head_dim = layout.batch_heads, layout.seq_len, layout.head_dim
    tile = tile or tile_for(head_dim, batch_heads, seq_len, layout.causal, fused.sm_count(layout.device))
    row_tiles = math.ceil(seq_len / tile.rows)
    group = max(1, _L2_BYTES // max(1, 4 * seq_len * head_dim))
    numbers = layout.numbers(row_tiles, group)
    of_q, of_k, of_v, of_out = layout.packed_strides()

    def problem(q: int, k: int, v: int, out: int, lse: int) -> Array[c_char]:
        packed = _Problem()
        _FORMAT.pack_into(packed, 0, q, of_q, k, of_k, v, of_v, out, of_out, lse, numbers)
        return packed

    build = tile.build(head_dim, layout.dtype)
    kernel = fused.kernel(ACTOR, build, tile.shared_bytes(head_dim), layout.device)
    return fused.Launch(kernel, batch_heads * row_tiles, 32 * tile.warps, problem)


_fused = fused.Fused(ACTOR, _plan)
compile_for_shape = _fused.compile_for_shape
