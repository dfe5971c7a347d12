"""NVIDIA's driver library, for the calls of it that CuPy does not offer."""

from __future__ import annotations

import ctypes
import functools

from kernels.compiler import KernelError


@functools.cache
def library() -> ctypes.CDLL:
    """The library.

    Raises:
        KernelError: there is none.
    """
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError(f"NVIDIA's driver cannot be loaded: {error}") from error


def name_of(status: int) -> str:
    """What the driver calls a status, `CUDA_ERROR_INVALID_VALUE`."""
    name = ctypes.c_char_p()
    library().cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {status}"
