"""Attention by `flash_hopper.cu`: which tile a shape gets, and one launch of a persistent grid."""

from __future__ import annotations

import functools
import math
import struct
from ctypes import c_char
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernels import fused
from kernels.compiler import FOLDER, Build, KernelError
from kernels.dealing import BOX_COLUMNS, ROUNDS, Deal, deal
from kernels.tensor_map import BYTES, heads_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ctypes import Array

ACTOR = "flash_hopper"

_MAPS = 7
_SHIFTS = struct.Struct(f"{ROUNDS}i")
_FORMAT = struct.Struct(f"{_MAPS * BYTES}sq24sq28s{_SHIFTS.size}s28x")
"""`struct Problem`: seven maps; address and strides of out; address of lse; numbers; shifts; 64-byte aligned."""
_Problem = c_char * _FORMAT.size
_MOST_MAPS = 256
"""Kept of one layout, by its four addresses."""
_QUERY_STAGES = 2
_KEY_STAGES = 2
_THREE_UP_TO = 72
"""The largest head_dim for whose O and P three consumers have registers."""
_THREE_COST = 1.25
"""What a tile of keys costs three consumers, in multiples of what it costs two: 1.27 to 1.41 on an H200."""
_WORK_BYTES = 32
"""Of what is posted with a stage of Q."""
_NOTE_BYTES, _ANY_NOTED_BYTES = 1024, 4
"""Of the notes: a bit for each tile of a block, and a word that says whether any is set."""
_SM_BYTES, _RESERVED_BYTES = 228 * 1024, 1024
"""Of shared memory: what a Hopper SM has, and what the driver takes of it for each block."""
_MOST_ROUNDS = 8 * _NOTE_BYTES
"""Tiles of one block: each has a bit, to note that it must be done again."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How the work is cut: a block has `warpgroups` consumers with 64 queries each, and takes `keys` keys at a time.

    `blocks` of them share an SM. Its consumers ask for their products in turn. With two `copies` of P, one is
    filled while the other is multiplied. Of eight exponentials, `multiplied` are left to the multiply-adders. With one
    copy, the exponentials of `ahead` columns of eight keys come before P · V is awaited; 0 leaves it to the compiler.
    """

    warpgroups: int = 2
    keys: int = 128
    blocks: int = 1
    copies: int = 2
    multiplied: int = 0
    ahead: int = 0

    @property
    def rows(self) -> int:
        """Queries of a block at once."""
        return 64 * self.warpgroups

    @property
    def threads(self) -> int:
        """Of a block: the producer's warpgroup and the consumers'."""
        return 128 * (self.warpgroups + 1)

    def shared_bytes(self, head_dim: int) -> int:
        """Boxes of the stages of Q, K and V; work posted for each of Q; barriers; notes; what aligning may cost."""
        return self._with_value_stages(head_dim, self.value_stages(head_dim))

    def value_stages(self, head_dim: int) -> int:
        """Tiles of V at once: one more than copies of P, and three beyond a box if they find room."""
        least = self.copies + 1
        fit = self.blocks * (self._with_value_stages(head_dim, 3) + _RESERVED_BYTES) <= _SM_BYTES
        return 3 if head_dim > BOX_COLUMNS and fit else least

    def _with_value_stages(self, head_dim: int, value_stages: int) -> int:
        value = math.ceil(head_dim / BOX_COLUMNS) * BOX_COLUMNS
        tiles = sum(row_columns(head_dim)) * (_QUERY_STAGES * self.rows + _KEY_STAGES * self.keys)
        tiles += value * value_stages * self.keys
        barriers = 2 * (_QUERY_STAGES * self.warpgroups + _KEY_STAGES + value_stages) + 1
        return 2 * tiles + _WORK_BYTES * _QUERY_STAGES + 8 * barriers + _NOTE_BYTES + _ANY_NOTED_BYTES + 1024

    def build(self, head_dim: int, dtype: torch.dtype) -> Build:
        """The compilation for this tile."""
        macros = {"HEAD_DIM": head_dim, "FP16": int(dtype == torch.float16)}
        macros |= {"WARPGROUPS": self.warpgroups, "KEYS": self.keys, "BLOCKS": self.blocks}
        macros |= {"P_COPIES": self.copies, "MULTIPLIED": self.multiplied, "AHEAD": self.ahead}
        macros |= {"TAIL": row_columns(head_dim)[1], "V_STAGES": self.value_stages(head_dim)}
        defines = tuple(f"{name}={value}" for name, value in macros.items())
        return Build(FOLDER / "flash_hopper.cu", defines, ("sm_90a",))


def row_columns(head_dim: int) -> tuple[int, int]:
    """Columns that Q, K and O have room for in boxes of 64, and in a narrower box beyond them; 0 if there is none."""
    whole = (head_dim + 31) // BOX_COLUMNS * BOX_COLUMNS
    return whole, 16 * math.ceil(max(0, head_dim - whole) / 16)


def tile_for(head_dim: int, batch_heads: int, seq_len: int, causal: bool, sm_count: int) -> Tile:
    """The tile for a shape, as measured on an H200 (see NOTES.md).

    A block with more queries reads K and V less often, if they divide the work as well. Blocks of one consumer, two or
    three on an SM, are for grids that would leave SMs idle, and for short rows, where they hide what comes between two
    tiles of rows from each other; so do two of two consumers where narrow heads have room for them.
    """
    tiles = batch_heads * math.ceil(seq_len / 128)
    one_box, very_few = head_dim <= BOX_COLUMNS, 2 * tiles <= sm_count
    if one_box and (very_few or (causal and tiles < sm_count)):
        return Tile(warpgroups=1, blocks=2, copies=1, ahead=4)
    if head_dim <= _THREE_UP_TO and very_few:
        return Tile(warpgroups=1, keys=64, blocks=2, copies=1)
    if head_dim <= 32 and seq_len <= (2048 if causal else 512) and tiles >= 2 * sm_count:
        return Tile(keys=64, blocks=2, copies=1, multiplied=1)
    if one_box and seq_len <= (512 if causal or tiles < 2 * sm_count else 256):
        return Tile(warpgroups=1, keys=64, blocks=3, copies=1)
    two = Tile(copies=1, ahead=4)
    if one_box:
        two = Tile(copies=1 if head_dim <= 32 and not causal else 2)
    three = Tile(warpgroups=3, copies=1, multiplied=1 if head_dim <= 32 else 0, ahead=2)
    if head_dim > _THREE_UP_TO or seq_len <= two.rows:
        return two
    sizes = batch_heads, seq_len, head_dim, causal, sm_count
    return three if _THREE_COST * _dealt(three, *sizes)[1].slowest < _dealt(two, *sizes)[1].slowest else two


def builds() -> Iterator[Build]:
    """What `inspect` compiles: the head_dims that are measured and the largest, for many heads and for few."""
    for head_dim in (32, 64, 72, 96, 128):
        tiles = {
            tile_for(head_dim, heads, seq_len, causal, 132)
            for heads in (384, 48, 12)
            for seq_len in (256, 1024)
            for causal in (True, False)
        }
        for tile in sorted(tiles, key=repr):
            yield tile.build(head_dim, torch.bfloat16)


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
    """softmax(q · kᵀ / √head_dim + mask) · v, all [batch, n_head, seq_len, head_dim]; see `flash_portable.forward`.

    Raises:
        KernelError: as there, or the GPU is not of compute capability 9.0.
    """
    return _fused.forward(q, k, v, causal=causal, out=out, lse=lse, tile=tile)


def refuses(head_dim: int, device: torch.device) -> str | None:
    """Why the kernel does not take this head_dim, or this GPU, or None."""
    return fused.refuses(head_dim) or _refuses_gpu(fused.index_of(device))


def _plan(layout: fused.Layout, tile: Tile | None) -> fused.Launch:
    if reason := _refuses_gpu(layout.device):
        raise KernelError(f"{ACTOR}: {reason}")
    batch_heads, seq_len, head_dim = layout.batch_heads, layout.seq_len, layout.head_dim
    sm_count = fused.sm_count(layout.device)
    tile = tile or tile_for(head_dim, batch_heads, seq_len, layout.causal, sm_count)
    grid, dealt = _dealt(tile, batch_heads, seq_len, head_dim, layout.causal, sm_count)
    numbers = layout.numbers(math.ceil(seq_len / tile.rows), dealt.heads)
    shifts, of_out = _SHIFTS.pack(*dealt.shifts), layout.packed_strides()[3]
    # Encoding takes longer than the rest of a launch, and a model's tensors come back to the same addresses.
    maps = functools.lru_cache(_MOST_MAPS)(functools.partial(_maps, layout, tile.keys))

    def problem(q: int, k: int, v: int, out: int, lse: int) -> Array[c_char]:
        packed = _Problem()
        _FORMAT.pack_into(packed, 0, maps(q, k, v, out), out, of_out, lse, numbers, shifts)
        return packed

    build = tile.build(head_dim, layout.dtype)
    kernel = fused.kernel(ACTOR, build, tile.shared_bytes(head_dim), layout.device)
    return fused.Launch(kernel, grid, tile.threads, problem)


def _dealt(
    tile: Tile, batch_heads: int, seq_len: int, head_dim: int, causal: bool, sm_count: int
) -> tuple[int, Deal]:
    """How many blocks are launched, and how they share the work."""
    tiles = batch_heads * math.ceil(seq_len / tile.rows)
    grid = min(tiles, max(tile.blocks * sm_count, math.ceil(tiles / _MOST_ROUNDS)))
    return grid, deal(batch_heads, seq_len, head_dim, causal, tile.rows, tile.keys, max(1, grid))


def _maps(layout: fused.Layout, keys: int, *addresses: int) -> bytes:
    """The tensor maps of q, k, v and out, in boxes of 64 queries, of `keys` keys, of the 16 rows of a warp.

    Then q, k and out once more, for their narrower boxes; zeros if they have none.
    """
    shape = (layout.batch, layout.n_head, layout.seq_len, layout.head_dim)
    q, k, v, out = zip(addresses, layout.strides, (64, keys, keys, 16), strict=True)
    boxes = [(tensor, BOX_COLUMNS) for tensor in (q, k, v, out)]
    if tail := row_columns(layout.head_dim)[1]:
        boxes += [(tensor, tail) for tensor in (q, k, out)]
    maps = (
        heads_map(ACTOR, layout.dtype, address, shape, strides, rows, width)
        for (address, strides, rows), width in boxes
    )
    return b"".join(maps).ljust(_MAPS * BYTES, b"\0")


@functools.cache
def _refuses_gpu(device: int) -> str | None:
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) == (9, 0):
        return None
    return f"its instructions are Hopper's alone, and this GPU has compute capability {major}.{minor}: 9.0 would do"


_fused = fused.Fused(ACTOR, _plan)
compile_for_shape = _fused.compile_for_shape
