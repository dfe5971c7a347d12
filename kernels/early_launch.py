"""Launches that begin early: programmatic dependent launch, on GPUs of compute capability 9.0 and newer.

Blocks of a kernel launched in this way begin as soon as there is room for them and every block of the kernel before has
let them (`griddepcontrol.launch_dependents`) or is done: that hides up to a microsecond of its start (see NOTES.md).
Until it has executed `griddepcontrol.wait`, which waits for all that was queued before, it must neither read nor write
what another kernel might. In a CUDA graph the dependency is kept as such. After anything but a kernel (a copy, an
event) it begins like any other.
"""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref
from typing import TYPE_CHECKING

from kernels import cuda_driver
from kernels.compiler import KernelError

if TYPE_CHECKING:
    from ctypes import Array, c_char

CAPABILITY = (9, 0)
"""The first that can."""

_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class _Attribute(ctypes.Structure):
    """The driver's CUlaunchAttribute."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest_of_union", ctypes.c_char * 60),
    )


class _Config(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        *((f"grid_{axis}", ctypes.c_uint) for axis in "xyz"),
        *((f"block_{axis}", ctypes.c_uint) for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


_EARLY = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION, value=1)


def launch(
    name: str, function: int, grid: int, block: int, shared_bytes: int, stream: int, structure: Array[c_char]
) -> None:
    """Queue the kernel `name` whose one parameter is a structure; `function` and `stream` are the driver's handles.

    Raises:
        KernelError: the driver refuses.
    """
    cuda_driver.make_context_current()
    config = _Config(grid, 1, 1, block, 1, 1, shared_bytes, stream, addressof(_EARLY), 1)
    # The driver copies the structure before it returns.
    parameters = (ctypes.c_void_p * 1)(addressof(structure))
    if status := cuda_driver.library().cuLaunchKernelEx(
        byref(config), ctypes.c_void_p(function), parameters, None
    ):
        raise KernelError(
            f"kernel {name}: the driver launches no {grid:,} blocks of {block:,} threads with {shared_bytes:,} "
            f"bytes of shared memory: {cuda_driver.name_of(status)}"
        )
