"""The relayout between projection and attention by `relayout.cu`: heads as a stride become contiguous heads."""

from __future__ import annotations

import math
import struct
from ctypes import c_char
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kernels import arguments, fused
from kernels.compiler import FOLDER, Build, KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from kernels import loader

ACTOR = "relayout"
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
NAMES = ("q", "k", "v")
VECTORS = (16, 8, 4, 2)
"""Bytes that a thread may move at once."""

_THREADS, _TOKENS = 256, 4
_FORMAT = struct.Struct("12qq6I")
"""`struct Problem`: of three tensors the address and the strides in bytes; the output's address; counts."""
_Problem = c_char * _FORMAT.size
_MOST_ITEMS = 2**31 - _THREADS
_MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch but for its addresses; no blocks where there is nothing to move."""

    kernel: loader.Kernel
    blocks: int
    strides: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]


_launches: dict[Hashable, _Launch] = {}


def builds() -> Iterator[Build]:
    """What `inspect` compiles."""
    yield from map(_build, VECTORS)


def contiguous(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Contiguous copies of q, of q and k, or of q, k and v, each [batch, n_head, seq_len, head_dim], in one launch.

    They are alike in shape and dtype and may have any strides with a dense last axis; the copies are slices of one new
    tensor. Elements are moved 16 bytes at a time where head_dim, strides and addresses are multiples of it, else 8, 4
    or 2.

    Raises:
        KernelError: a tensor is not as described, or not bf16, fp16 or fp32 on the current GPU; there are more
            pieces than 32 bits count; or the kernel cannot be compiled.
    """
    addresses = [tensor.data_ptr() for tensor in tensors]
    vector = _vector(0, *addresses)
    device = torch.cuda.current_device() if tensors and tensors[0].is_cuda else None
    key = (*map(fused.layout, tensors), vector, device)
    launch = _launches.get(key)
    if launch is None:
        if len(_launches) >= fused.MOST_LAUNCHES:
            _launches.clear()
        launch = _launches[key] = _plan(tensors, vector)
    out = tensors[0].new_empty((len(tensors), *tensors[0].shape))
    if launch.blocks:
        places = [0] * (4 * len(NAMES))
        for i, (address, strides) in enumerate(zip(addresses, launch.strides, strict=True)):
            places[4 * i : 4 * i + 4] = address, *strides
        packed = _Problem()
        _FORMAT.pack_into(packed, 0, *places, out.data_ptr(), *launch.counts)
        launch.kernel.launch(launch.blocks, _THREADS, packed)
    return out.unbind(0)


def compile_for(row_bytes: int, device: torch.device) -> None:
    """Compile what `contiguous` will launch for rows of so many bytes in dense memory, so that no call waits for it.

    Raises:
        KernelError: the kernel cannot be compiled or used here.
    """
    fused.kernel(ACTOR, _build(_vector(row_bytes)), 0, fused.index_of(device))


def _plan(tensors: tuple[torch.Tensor, ...], address_vector: int) -> _Launch:
    if not 1 <= len(tensors) <= len(NAMES):
        raise KernelError(f"{ACTOR}: {len(tensors)} tensors: 1 to {len(NAMES)} at once would do")
    arguments.check_heads(ACTOR, dict(zip(NAMES, tensors, strict=False)), DTYPES)
    first = tensors[0]
    batch, n_head, seq_len, head_dim = first.shape
    row_bytes = head_dim * first.element_size()
    strides = tuple(map(arguments.byte_strides, tensors))
    vector = min(address_vector, _vector(row_bytes, *(one for of in strides for one in of)))
    chunks = row_bytes // vector
    items = math.ceil(seq_len / _TOKENS) * n_head * chunks
    blocks_per_sequence = math.ceil(items / _THREADS)
    blocks = len(tensors) * batch * blocks_per_sequence
    if items > _MOST_ITEMS or blocks > _MOST_BLOCKS:
        raise KernelError(
            f"{ACTOR}: {list(first.shape)} in pieces of {vector} bytes is more than 32 bits count: "
            "a smaller batch or seq_len at once would do"
        )
    kernel = fused.kernel(ACTOR, _build(vector), 0, first.device.index)
    return _Launch(
        kernel, blocks, strides, (batch, n_head, seq_len, chunks, blocks_per_sequence, len(tensors))
    )


def _vector(*sizes: int) -> int:
    """The most bytes to move at once that all of these are multiples of."""
    return next((vector for vector in VECTORS if not any(size % vector for size in sizes)), VECTORS[-1])


def _build(vector: int) -> Build:
    return Build(FOLDER / "relayout.cu", (f"VECTOR_BYTES={vector}",))
