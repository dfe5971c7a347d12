"""Tensor maps: how TMA, Hopper's copy unit, is told where a tensor lies and which box of it a copy takes."""

from __future__ import annotations

import ctypes

import torch

from kernels import cuda_driver
from kernels.compiler import KernelError

BYTES = 128
_ALIGNMENT = 64
_DATA_TYPES = {torch.bfloat16: 9, torch.float16: 6}
_SWIZZLES = {16: 1, 32: 2, 64: 3}
_PROMOTIONS = {16: 0, 32: 1, 64: 2}
"""By the columns of a box, whose rows then are 32, 64 or 128 bytes: by as many they are swizzled, and read from L2."""


def heads_map(
    actor: str,
    dtype: torch.dtype,
    address: int,
    shape: tuple[int, ...],
    byte_strides: tuple[int, ...],
    box_rows: int,
    box_columns: int,
) -> bytes:
    """The map of a tensor [batch, n_head, seq_len, head_dim], swizzled; a box is of one head.

    A box has 16, 32 or 64 columns, and is swizzled by as many bytes as its rows have.
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
        _SWIZZLES[box_columns],
        _PROMOTIONS[box_columns],
        0,  # what lies outside the tensor is zeros
    )
    if status:
        raise KernelError(
            f"{actor}: the driver makes no tensor map ({cuda_driver.name_of(status)}) of sizes {list(sizes)}, "
            f"byte strides {list(strides)} and boxes {list(box)}: a contiguous copy would do"
        )
    return storage.raw[start : start + BYTES]
