"""Load a `.cu` file's kernels for the GPU present, and launch them on PyTorch's current stream.

A plugin can use it, too:

    kernel = loader.kernel(Path(__file__).with_name("mine.cu"), "my_kernel", "HEAD_DIM=64")
    kernel.launch(blocks, 128, x.data_ptr(), np.int32(len(x)))
"""

from __future__ import annotations

import functools
from ctypes import Array, addressof
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernels import early_launch
from kernels.compiler import Build, KernelError, architecture, compile_for, find

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Kernel", "KernelError", "kernel"]

_WITHOUT_ASKING = 48 * 1024
"""Bytes of dynamic shared memory that every kernel may use."""


class _Stream(NamedTuple):
    """What CuPy asks of a stream: making its own of PyTorch's would cost more than a launch."""

    ptr: int


_stream_at = functools.lru_cache(_Stream)


class Kernel:
    """One kernel on one GPU, with the dynamic shared memory that each of its blocks gets, in bytes.

    One that begins `early` takes a structure and nothing else, and awaits the kernels before it itself: see
    `early_launch`.

    Raises:
        KernelError: the module has no such kernel, or the GPU has not so much shared memory for a block.
    """

    def __init__(self, module: Any, name: str, shared_bytes: int = 0, early: bool = False) -> None:
        from cupy.cuda import driver, function

        self.shared_bytes = shared_bytes
        self._name, self._early = name, early
        self._pointer = function.CPointer
        try:
            self._function = module.get_function(name)
            if shared_bytes > _WITHOUT_ASKING:
                attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                driver.funcSetAttribute(self._function.ptr, attribute, shared_bytes)
        except driver.CUDADriverError as error:
            needs = f" with {shared_bytes:,} bytes of shared memory a block" if shared_bytes else ""
            raise KernelError(f"kernel {name}{needs} cannot be used on this GPU: {error}") from error

    def launch(self, grid: int, block: int, *arguments: Any) -> None:
        """Queue `grid` blocks of `block` threads on PyTorch's current stream.

        An argument is a device address as an int, a numpy scalar of the parameter's type, or a structure passed by
        value as a ctypes array of its bytes. Nothing checks their number or types.
        """
        stream = torch.cuda.current_stream().cuda_stream
        if self._early:
            early_launch.launch(
                self._name, self._function.ptr, grid, block, self.shared_bytes, stream, *arguments
            )
            return
        # The driver copies structures before it returns; until then, `arguments` keeps them.
        values = [self._pointer(addressof(x)) if isinstance(x, Array) else x for x in arguments]
        self._function((grid,), (block,), values, self.shared_bytes, _stream_at(stream))


def kernel(
    source: str | Path, name: str, *defines: str, shared_bytes: int = 0, early: bool = False
) -> Kernel:
    """`name` from a `.cu` file (a path, or the name of one of this folder), compiled once for this GPU.

    `defines` are macros, `HEAD_DIM=64`. The machine code is cached on disk by source, options and architecture;
    in a process, the file is read once. Launches begin `early` where the GPU can (see `early_launch`).

    Raises:
        KernelError: no such file or kernel, no NVRTC, no GPU, or NVRTC refuses the source (its log is in the message).
    """
    if not torch.cuda.is_available():
        raise KernelError(f"kernel {name} needs a CUDA GPU, and PyTorch {torch.__version__} finds none")
    device = torch.cuda.current_device()
    early = early and torch.cuda.get_device_capability(device) >= early_launch.CAPABILITY
    return _kernel(find(source), name, defines, shared_bytes, early, device)


@functools.cache
def _kernel(
    file: Path, name: str, defines: tuple[str, ...], shared_bytes: int, early: bool, device: int
) -> Kernel:
    return Kernel(_module(file, defines, device), name, shared_bytes, early)


@functools.cache
def _module(file: Path, defines: tuple[str, ...], device: int) -> Any:
    arch = architecture(torch.cuda.get_device_capability(device))
    binary = compile_for(Build(file, defines), arch)
    from cupy.cuda import driver, function

    torch.zeros(1, device="cuda")  # makes the device's context current, which loading needs
    module = function.Module()
    try:
        module.load(binary.cubin)
    except driver.CUDADriverError as error:
        raise KernelError(f"{file.name}, compiled for {arch}, does not load on this GPU: {error}") from error
    return module
