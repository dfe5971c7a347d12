"""What fused attention kernels share on the host: one way from tensors to a launch, worked out once for each layout.

Checking tensors, choosing a tile and finding its machine code takes longer than most launches, and a model has few
layouts. So a launch is kept by all that it depends on but the addresses, and a layout seen again costs a look-up.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

from kernels import arguments, loader
from kernels.compiler import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from ctypes import Array, c_char

    from kernels.compiler import Build

DTYPES = (torch.bfloat16, torch.float16)
HEAD_DIMS = range(8, 129, 8)
MOST_ROWS = 2**31 - 2**20
"""Of all heads: the kernels count rows and tiles in 32 bits, and look a little beyond the last."""
MOST_LAUNCHES = 256
"""Kept of one kernel. Who has more layouts (a new seq_len at each call) pays for the checks again now and then."""

Tile = TypeVar("Tile")


@dataclass(frozen=True, slots=True)
class Layout:
    """A call but for its addresses; `strides` are those of q, k, v and out, in bytes, of batch, n_head and seq_len."""

    batch: int
    n_head: int
    seq_len: int
    head_dim: int
    dtype: torch.dtype
    device: int
    causal: bool
    strides: tuple[tuple[int, ...], ...]

    @property
    def batch_heads(self) -> int:
        """Heads in all."""
        return self.batch * self.n_head

    def numbers(self, row_tiles: int, group: int) -> bytes:
        """What ends the kernels' `struct Problem`, from `heads` on; `group` heads' tiles are neighbours."""
        scale = math.log2(math.e) / math.sqrt(self.head_dim)
        counts = (self.n_head, self.batch_heads, self.seq_len, row_tiles, group)
        return struct.pack("6if", *counts, self.causal, scale)

    def packed_strides(self) -> list[bytes]:
        """The strides as the kernels' `struct Problem` has them."""
        return [struct.pack("3q", *strides) for strides in self.strides]


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch but for its addresses: `problem` makes a `struct Problem` of those of q, k, v, out, lse (0: none)."""

    kernel: loader.Kernel
    grid: int
    block: int
    problem: Callable[[int, int, int, int, int], Array[c_char]]


class Fused(Generic[Tile]):
    """A kernel named `actor`; `plan` works out the launch for a layout, and for a tile if the caller insists on one.

    `plan` compiles the kernel, and depends on no stride in what it compiles.
    """

    def __init__(self, actor: str, plan: Callable[[Layout, Tile | None], Launch]) -> None:
        self.actor = actor
        self._plan = plan
        self._launches: dict[Hashable, Launch] = {}

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *,
        causal: bool,
        out: torch.Tensor | None,
        lse: torch.Tensor | None,
        tile: Tile | None,
    ) -> torch.Tensor:
        """See `flash_portable.forward`."""
        device = torch.cuda.current_device() if q.is_cuda else None
        key = (layout(q), layout(k), layout(v), layout(out), layout(lse), causal, tile, device)
        launch = self._launches.get(key)
        if launch is None:
            if len(self._launches) >= MOST_LAUNCHES:
                self._launches.clear()
            described = describe(self.actor, q, k, v, causal, out, lse)
            launch = self._launches[key] = self._plan(described, tile)
        if out is None:
            out = new_output(q)
        elif launch.grid:
            arguments.check_apart(self.actor, out, {"q": q, "k": k, "v": v})
        at_q, at_k, at_v, at_out = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()
        if (at_q | at_k | at_v | at_out) % arguments.ALIGNMENT:
            arguments.check_addresses(self.actor, {"q": q, "k": k, "v": v, "out": out})
        if launch.grid:
            at_lse = lse.data_ptr() if lse is not None else 0
            launch.kernel.launch(launch.grid, launch.block, launch.problem(at_q, at_k, at_v, at_out, at_lse))
        return out

    def compile_for_shape(
        self,
        batch_heads: int,
        seq_len: int,
        head_dim: int,
        causal: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Compile what `forward` will launch for such tensors, so that its first call is as fast as the others.

        Raises:
            KernelError: the kernel cannot be compiled or used here.
        """
        any_strides = ((0, 0, 0),) * 4
        index = index_of(device)
        self._plan(Layout(1, batch_heads, seq_len, head_dim, dtype, index, causal, any_strides), None)


def layout(tensor: torch.Tensor | None) -> Hashable:
    """All that a launch depends on but the address; None if the call has no such tensor."""
    return None if tensor is None else (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def describe(
    actor: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
) -> Layout:
    """The call's layout, after a check of all but the addresses.

    Raises:
        KernelError: the tensors are not as `flash_portable.forward` says; the message names `actor`.
    """
    tensors = {"q": q, "k": k, "v": v}
    arguments.check_heads(actor, tensors, DTYPES)
    batch, n_head, seq_len, head_dim = q.shape
    if reason := refuses(head_dim):
        raise KernelError(f"{actor}: {reason}")
    if (rows := batch * n_head * seq_len) > MOST_ROWS:
        raise KernelError(
            f"{actor}: batch {batch} · n_head {n_head} · seq_len {seq_len} are {rows:,} rows: up to {MOST_ROWS:,} "
            "at once would do"
        )
    tensors["out"] = new_output(q) if out is None else out
    arguments.check_heads(actor, tensors, DTYPES)
    arguments.check_strides(actor, tensors)
    _check_lse(actor, lse, q)
    strides = tuple(map(arguments.byte_strides, tensors.values()))
    return Layout(batch, n_head, seq_len, head_dim, q.dtype, q.device.index, causal, strides)


def new_output(q: torch.Tensor) -> torch.Tensor:
    """A tensor like q, stored as [batch, seq_len, n_head, head_dim]: the output projection reads it without a copy."""
    _, n_head, seq_len, head_dim = shape = q.shape
    row = n_head * head_dim
    return q.new_empty_strided(shape, (seq_len * row, head_dim, row, 1))


def refuses(head_dim: int) -> str | None:
    """Why the kernels do not take this head_dim, or None."""
    if head_dim in HEAD_DIMS:
        return None
    return f"head_dim {head_dim} is not supported: a multiple of 8 up to {HEAD_DIMS[-1]} would do"


@functools.cache
def sm_count(device: int) -> int:
    """Streaming multiprocessors of a device."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def index_of(device: torch.device) -> int:
    """The number of a CUDA device, the current one's if it names none."""
    return torch.cuda.current_device() if device.index is None else device.index


def kernel(actor: str, build: Build, shared_bytes: int, device: int) -> loader.Kernel:
    """The build's kernel `actor` on a device; it awaits the kernels before it itself.

    Raises:
        KernelError: it cannot be compiled or used here.
    """
    with torch.cuda.device(device):
        return loader.kernel(build.file, actor, *build.defines, shared_bytes=shared_bytes, early=True)


def _check_lse(actor: str, lse: torch.Tensor | None, q: torch.Tensor) -> None:
    if lse is None:
        return
    right = lse.shape == q.shape[:-1] and lse.dtype == torch.float32 and lse.device == q.device
    if not (right and lse.is_contiguous()):
        raise KernelError(
            f"{actor}: lse is {list(lse.shape)} {lse.dtype} on {lse.device}: float32 {list(q.shape[:-1])} on "
            f"{q.device}, contiguous, would do"
        )
