"""Tensor maps: how TMA, Hopper's copy unit, is told where a tensor lies and which box of it a copy takes."""

from __future__ import annotations

import ctypes

import torch

from kernels import cuda_driver
from kernels.compiler import KernelError

BYTES = 128
_ALIGNMENT = 64
_DATA_TYPES = {torch.bfloat16: 9, torch.float16: 6}
_SWIZZLE_128_BYTES = 3
_PROMOTE_TO_128_BYTES = 2


def heads_map(
    actor: str,
    dtype: torch.dtype,
    address: int,
    shape: tuple[int, ...],
    byte_strides: tuple[int, ...],
    box_rows: int,
    box_columns: int,
) -> bytes:
    """The map of a tensor [batch, n_head, seq_len, head_dim], 128-byte swizzled; a box is of one head.

    `byte_strides` are those of batch, n_head and seq_len; one of a dimension of one element does not matter.

    Raises:
        KernelError: the driver refuses it, as it does an expanded dimension's stride of 0, or there is no driver.
    """
    cuda_driver.make_context_current()
    sizes, strides, box = shape[::-1], byte_strides[::-1], (box_columns, box_rows, 1, 1)
    storage = ctypes.create_string_buffer(BYTES + _ALIGNMENT)
    start = -ctypes.addressof(storage) % _ALIGNMENT
    # The driver takes no stride of 0; where there is but one element, any other will do.
    steps = [
        stride if size > 1 else sizes[0] * dtype.itemsize
        for size, stride in zip(sizes[1:], strides, strict=True)
    ]
    status = cuda_driver.library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + start),
        _DATA_TYPES[dtype],
        len(sizes),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * len(sizes))(*sizes),
        (ctypes.c_uint64 * len(steps))(*steps),
        (ctypes.c_uint32 * len(box))(*box),
        (ctypes.c_uint32 * len(box))(*(1 for _ in box)),
        0,  # not interleaved
        _SWIZZLE_128_BYTES,
        _PROMOTE_TO_128_BYTES,
        0,  # what lies outside the tensor is zeros
    )
    if status:
        raise KernelError(
            f"{actor}: the driver makes no tensor map ({cuda_driver.name_of(status)}) of sizes {list(sizes)}, "
            f"byte strides {list(strides)} and boxes {list(box)}: a contiguous copy would do"
        )
    return storage.raw[start : start + BYTES]
