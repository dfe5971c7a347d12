"""Attention by `flash_portable.cu`: which tile a shape gets, and one launch."""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernels import arguments, loader
from kernels.compiler import FOLDER, Build, KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTOR = "flash_portable"
DTYPES = (torch.bfloat16, torch.float16)
LARGEST_HEAD_DIM = 128

_GROUP_BYTES = 16 * 2**20
"""K and V of heads that are computed at once: small enough to stay in an L2 cache of 40 MB or more."""


_PROBLEM = struct.Struct("16qq6if4x")
"""`struct Problem`: four tensors' addresses and strides, that of the log-sum-exp, numbers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch of either fused kernel, all but the addresses; `strides` are q's, k's, v's and out's, in bytes."""

    kernel: loader.Kernel
    grid: int
    block: int
    strides: tuple[tuple[int, ...], ...]
    numbers: tuple[float, ...]


_plans: arguments.Plans[Plan] = arguments.Plans()


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


def tile_for(head_dim: int, batch_heads: int, seq_len: int, sm_count: int) -> Tile:
    """The tile for a shape: 128 queries a block, or 64 where those would leave SMs idle or O without registers."""
    small = batch_heads * math.ceil(seq_len / 128) < 2 * sm_count
    if small or head_dim > 72:
        return Tile(m_tiles=1, warps=4, keys=64, blocks_per_sm=3 if head_dim <= 72 else 2)
    return Tile(m_tiles=2, warps=4, keys=64, blocks_per_sm=2)


def builds() -> Iterator[Build]:
    """What `inspect` compiles: the head_dims that are measured and the largest, for many heads and for few."""
    for head_dim in (32, 64, 72, 96, 128):
        for batch_heads in (384, 12) if head_dim <= 72 else (384,):
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
    """softmax(q · kᵀ / √head_dim + mask) · v, all [batch, n_head, seq_len, head_dim].

    They may have any strides with a dense last axis. `out` gets the result; without it, a new tensor does, stored as
    [batch, seq_len, n_head, head_dim], which the output projection reads without a copy. `lse`, if given, gets the
    natural logarithm of each row's sum of exponentials: float32 [batch, n_head, seq_len], contiguous.

    Raises:
        KernelError: a tensor is not as described, starts off a 16-byte boundary, or has a head_dim that is not a
            multiple of 8 up to 128.
    """
    if out is None:
        out = new_output(q)
    key = (arguments.layouts(q, k, v, out, lse), causal, tile, torch.cuda.current_device())
    plan = _plans.get(key)
    if plan is None:
        plan = _plans.put(key, _plan(q, k, v, out, lse, causal, tile))
    arguments.check_addresses(ACTOR, q, k, v, out)
    if plan.grid:
        problem = _PROBLEM.pack(
            q.data_ptr(),
            *plan.strides[0],
            k.data_ptr(),
            *plan.strides[1],
            v.data_ptr(),
            *plan.strides[2],
            out.data_ptr(),
            *plan.strides[3],
            lse.data_ptr() if lse is not None else 0,
            *plan.numbers,
        )
        plan.kernel.launch(plan.grid, plan.block, problem)
    return out


def _plan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    causal: bool,
    tile: Tile | None,
) -> Plan:
    check(ACTOR, q, k, v, out, lse)
    batch, n_head, seq_len, head_dim = q.shape
    tile = tile or _tile_here(head_dim, batch * n_head, seq_len, q.device.index)
    row_tiles = math.ceil(seq_len / tile.rows)
    return Plan(
        kernel=_kernel(tile, head_dim, q.dtype, q.device.index),
        grid=batch * n_head * row_tiles,
        block=32 * tile.warps,
        strides=tuple(map(arguments.byte_strides, (q, k, v, out))),
        numbers=numbers(q, causal, row_tiles),
    )


def compile_for_shape(
    batch_heads: int, seq_len: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Compile what `forward` will launch for such tensors, so that its first call is as fast as the others.

    Raises:
        KernelError: the kernel cannot be compiled here.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    _kernel(_tile_here(head_dim, batch_heads, seq_len, index), head_dim, dtype, index)


def new_output(q: torch.Tensor) -> torch.Tensor:
    """A tensor like q, stored as [batch, seq_len, n_head, head_dim]; any tensor if q is not what `check` takes."""
    if q.ndim != 4:
        return q
    _, n_head, seq_len, head_dim = q.shape
    strides = (seq_len * n_head * head_dim, head_dim, n_head * head_dim, 1)
    return torch.empty_strided(q.shape, strides, dtype=q.dtype, device=q.device)


def check(
    actor: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
) -> None:
    """Whether the tensors are as `forward` says, but for their addresses.

    Raises:
        KernelError: one is not; the message names `actor`.
    """
    tensors = {"q": q, "k": k, "v": v, "out": out}
    arguments.check_heads(actor, tensors, DTYPES)
    if reason := refuses(q.shape[3]):
        raise KernelError(f"{actor}: {reason}")
    arguments.check_strides(actor, tensors)
    _check_lse(actor, lse, q)


def numbers(q: torch.Tensor, causal: bool, row_tiles: int) -> tuple[float, ...]:
    """What ends both kernels' `struct Problem`, from `heads` on."""
    batch, n_head, seq_len, head_dim = q.shape
    group, scale = heads_at_once(seq_len, head_dim), math.log2(math.e) / math.sqrt(head_dim)
    return (n_head, batch * n_head, seq_len, row_tiles, group, causal, scale)


def refuses(head_dim: int) -> str | None:
    """Why the kernel does not take this head_dim, or None."""
    if head_dim % 8 == 0 and 0 < head_dim <= LARGEST_HEAD_DIM:
        return None
    return f"head_dim {head_dim} is not supported: a multiple of 8 up to {LARGEST_HEAD_DIM} would do"


def heads_at_once(seq_len: int, head_dim: int) -> int:
    """Heads whose K and V fit in the part of L2 that is meant for them, at least one."""
    return max(1, _GROUP_BYTES // max(1, 4 * seq_len * head_dim))


def _tile_here(head_dim: int, batch_heads: int, seq_len: int, device: int) -> Tile:
    return tile_for(head_dim, batch_heads, seq_len, sm_count(device))


@functools.cache
def sm_count(device: int) -> int:
    """Streaming multiprocessors of a device."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@functools.cache
def _kernel(tile: Tile, head_dim: int, dtype: torch.dtype, device: int) -> loader.Kernel:
    build = tile.build(head_dim, dtype)
    with torch.cuda.device(device):
        return loader.kernel(
            build.file, "flash_portable", *build.defines, shared_bytes=tile.shared_bytes(head_dim)
        )


def _check_lse(actor: str, lse: torch.Tensor | None, q: torch.Tensor) -> None:
    if lse is None:
        return
    if (
        lse.shape != q.shape[:-1]
        or lse.dtype != torch.float32
        or not lse.is_contiguous()
        or lse.device != q.device
    ):
        raise KernelError(
            f"{actor}: lse is {list(lse.shape)} {lse.dtype} on {lse.device}: float32 {list(q.shape[:-1])} on "
            f"{q.device}, contiguous, would do"
        )
