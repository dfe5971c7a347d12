"""NVIDIA's driver library, for the calls of it that CuPy does not offer."""

from __future__ import annotations

import ctypes
import functools
import threading

import torch

from kernels.compiler import KernelError

_of_thread = threading.local()


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


def make_context_current() -> None:
    """Give this thread a context, for which the driver works: one that has not used the GPU yet has none."""
    if not getattr(_of_thread, "has_context", False):
        from cupy.cuda import runtime

        runtime.setDevice(torch.cuda.current_device())
        _of_thread.has_context = True
