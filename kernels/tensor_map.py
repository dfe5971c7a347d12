"""Tensor maps: how TMA, Hopper's copy unit, is told where a tensor lies and which box of it a copy takes."""

from __future__ import annotations

import ctypes
import functools

import torch

from kernels.arguments import byte_strides
from kernels.compiler import KernelError

BYTES = 128
_ALIGNMENT = 64
_DATA_TYPES = {torch.bfloat16: 9, torch.float16: 6}
_SWIZZLE_128_BYTES = 3
_PROMOTE_TO_256_BYTES = 3


def heads_map(actor: str, tensor: torch.Tensor, box_rows: int, box_columns: int) -> bytes:
    """The map of a tensor [batch, n_head, seq_len, head_dim], 128-byte swizzled; a box is of one head.

    Raises:
        KernelError: the driver refuses it, or there is no driver.
    """
    batch, n_head, seq_len, head_dim = tensor.shape
    of_batch, of_head, of_row = byte_strides(tensor)
    return _encoded(
        actor,
        tensor.dtype,
        tensor.data_ptr(),
        (head_dim, seq_len, n_head, batch),
        (of_row, of_head, of_batch),
        (box_columns, box_rows, 1, 1),
    )


@functools.lru_cache(maxsize=512)
def _encoded(
    actor: str,
    dtype: torch.dtype,
    address: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
) -> bytes:
    """Encoding takes microseconds, and a model's tensors come back: by all that a map depends on, the map."""
    storage = ctypes.create_string_buffer(BYTES + _ALIGNMENT)
    start = -ctypes.addressof(storage) % _ALIGNMENT
    # A dimension of one element has no stride, and the driver takes none of 0.
    steps = [stride or sizes[0] * dtype.itemsize for stride in strides]
    status = _driver().cuTensorMapEncodeTiled(
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
        _PROMOTE_TO_256_BYTES,
        0,  # what lies outside the tensor is zeros
    )
    if status:
        raise KernelError(
            f"{actor}: the driver makes no tensor map (error {status}) of sizes {list(sizes)}, byte strides "
            f"{list(strides)} and boxes {list(box)}: a contiguous copy would do"
        )
    return storage.raw[start : start + BYTES]


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError(f"tensor maps need NVIDIA's driver, which cannot be loaded: {error}") from error
