"""Attention by `flash_hopper.cu`: which tile a shape gets, and one launch of as many blocks as there are SMs."""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernels import arguments, flash_portable, loader
from kernels.compiler import FOLDER, Build, KernelError
from kernels.tensor_map import heads_map

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTOR = "flash_hopper"
DTYPES = flash_portable.DTYPES
HEAD_DIMS = tuple(range(8, 129, 8))

_BOX_COLUMNS = 64
_BOX_ROW_BYTES = 128
_AFTER_MAPS = struct.Struct("5q6if60x")
"""`struct Problem` behind its three tensor maps, filled up to a multiple of their alignment, 64 bytes."""
_STAGES = 4
"""Of K and V together."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How the work is cut: a block has `warpgroups` consumers with 64 queries each, and takes `keys` keys at a time.

    `blocks` of them share an SM. With `turns`, a block's consumers ask for their products in turn. Of eight
    exponentials, `multiplied` are left to the multiply-adders: it pays where the special-function unit is the limit.
    """

    warpgroups: int = 2
    keys: int = 128
    blocks: int = 1
    turns: bool = True
    multiplied: int = 0

    @property
    def rows(self) -> int:
        """Queries of a block at once."""
        return 64 * self.warpgroups

    def shared_bytes(self, head_dim: int) -> int:
        """Boxes of Q, and of two stages of K and of V; barriers; what aligning the boxes may cost."""
        boxes = math.ceil(head_dim / _BOX_COLUMNS)
        rows = self.rows + _STAGES * self.keys
        return boxes * _BOX_ROW_BYTES * rows + 16 * (self.warpgroups + _STAGES) + 1024

    def build(self, head_dim: int, dtype: torch.dtype) -> Build:
        """The compilation for this tile."""
        macros = {"HEAD_DIM": head_dim, "FP16": int(dtype == torch.float16)}
        macros |= {"WARPGROUPS": self.warpgroups, "KEYS": self.keys}
        macros |= {"BLOCKS": self.blocks, "TURNS": int(self.turns), "MULTIPLIED": self.multiplied}
        defines = tuple(f"{name}={value}" for name, value in macros.items())
        return Build(FOLDER / "flash_hopper.cu", defines, ("sm_90a",))


def tile_for(head_dim: int, batch_heads: int, seq_len: int, sm_count: int) -> Tile:
    """The tile for a shape: 128 queries a block, or 64 where those would leave SMs idle."""
    if batch_heads * math.ceil(seq_len / 128) < sm_count:
        return Tile(warpgroups=1, keys=128 if head_dim <= _BOX_COLUMNS else 64, blocks=2, turns=False)
    return Tile()


def builds_for(batch_heads: int, seq_len: int, head_dim: int, dtype: torch.dtype) -> list[Build]:
    """What `forward` would launch for such tensors on an H200."""
    return [tile_for(head_dim, batch_heads, seq_len, 132).build(head_dim, dtype)]


def builds() -> Iterator[Build]:
    """What `inspect` compiles: the head_dims that are measured and the largest, for many heads and for few."""
    for head_dim in (32, 64, 72, 96, 128):
        for batch_heads in (384, 4) if head_dim <= 72 else (384,):
            yield tile_for(head_dim, batch_heads, 1024, 132).build(head_dim, torch.bfloat16)


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
    if out is None:
        out = flash_portable.new_output(q)
    key = (arguments.layouts(q, k, v, out, lse), causal, tile, torch.cuda.current_device())
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.put(key, _plan(q, k, v, out, lse, causal, tile))
    arguments.check_addresses(ACTOR, q, k, v, out)
    if plan.launch.grid:
        plan.launch.kernel.launch(plan.launch.grid, plan.launch.block, plan.problem(q, k, v, out, lse))
    return out


@dataclass(frozen=True, slots=True)
class _HopperPlan:
    """A launch, and how many keys a box of K and V holds."""

    launch: flash_portable.Plan
    keys: int

    def problem(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor | None
    ) -> bytes:
        """`struct Problem`."""
        rows = (64, self.keys, self.keys)
        strides = self.launch.strides
        maps = [
            heads_map(ACTOR, x.dtype, x.data_ptr(), x.shape, own, box_rows, _BOX_COLUMNS)
            for x, own, box_rows in zip((q, k, v), strides, rows, strict=False)
        ]
        lse_address = lse.data_ptr() if lse is not None else 0
        return b"".join(maps) + _AFTER_MAPS.pack(
            out.data_ptr(), *strides[3], lse_address, *self.launch.numbers
        )


_plans: arguments.Plans[_HopperPlan] = arguments.Plans()


def _plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    causal: bool,
    tile: Tile | None,
) -> _HopperPlan:
    flash_portable.check(ACTOR, q, k, v, out, lse)
    device = q.device.index
    if reason := _refuses_gpu(device):
        raise KernelError(f"{ACTOR}: {reason}")
    batch, n_head, seq_len, head_dim = q.shape
    sm_count = flash_portable.sm_count(device)
    tile = tile or tile_for(head_dim, batch * n_head, seq_len, sm_count)
    row_tiles = math.ceil(seq_len / tile.rows)
    launch = flash_portable.Plan(
        kernel=_kernel(tile, head_dim, q.dtype, device),
        grid=min(batch * n_head * row_tiles, tile.blocks * sm_count),
        block=128 * (tile.warpgroups + 1),
        strides=tuple(map(arguments.byte_strides, (q, k, v, out))),
        numbers=flash_portable.numbers(q, causal, row_tiles),
    )
    return _HopperPlan(launch, tile.keys)


def refuses(head_dim: int, device: torch.device) -> str | None:
    """Why the kernel does not take this head_dim, or this GPU, or None."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return flash_portable.refuses(head_dim) or _refuses_gpu(index)


def compile_for_shape(
    batch_heads: int, seq_len: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Compile what `forward` will launch for such tensors, so that its first call is as fast as the others.

    Raises:
        KernelError: the kernel cannot be compiled here.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    _kernel(tile_for(head_dim, batch_heads, seq_len, flash_portable.sm_count(index)), head_dim, dtype, index)


@functools.cache
def _refuses_gpu(device: int) -> str | None:
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) == (9, 0):
        return None
    return f"its instructions are Hopper's alone, and this GPU has compute capability {major}.{minor}: 9.0 would do"


@functools.cache
def _kernel(tile: Tile, head_dim: int, dtype: torch.dtype, device: int) -> loader.Kernel:
    build = tile.build(head_dim, dtype)
    with torch.cuda.device(device):
        return loader.kernel(build.file, ACTOR, *build.defines, shared_bytes=tile.shared_bytes(head_dim))
