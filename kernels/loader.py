"""Compile a `.cu` file of this folder for the GPU present, and launch its kernels on PyTorch's stream."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


class KernelError(RuntimeError):
    """Device code could not be compiled or launched; the message says what is missing."""


@functools.cache
def load(name: str) -> Any:
    """The CuPy module of `<name>.cu`, compiled once per process (CuPy caches the binary on disk).

    Raises:
        KernelError: CuPy is not there, or NVRTC refuses the source (its log is in the message).
    """
    source = FOLDER / f"{name}.cu"
    try:
        import cupy
    except ImportError as error:
        raise KernelError(f"CuPy cannot be imported ({error}): pip install cupy-cuda13x") from error
    try:
        module = cupy.RawModule(code=source.read_text(encoding="utf-8"), options=("-std=c++17",))
        module.compile()
    except Exception as error:  # CuPy raises its own types for NVRTC, the driver and a missing toolkit
        raise KernelError(f"{source.name} does not compile for this GPU: {error}") from error
    return module


def launch(module: Any, kernel: str, grid: int, block: int, arguments: tuple[Any, ...]) -> None:
    """Queue `kernel` on PyTorch's current stream; arguments are numpy scalars or device addresses."""
    import cupy
    import torch

    with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
        module.get_function(kernel)((grid,), (block,), arguments)
