"""The way from tensors to a launch, on a GPU that is not there: what is launched, and what a second call may take over."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import flash_hopper, flash_portable, fused, loader
from kernels.compiler import KernelError

KERNELS = (flash_portable, flash_hopper)
NO_GPU_NUMBER = torch.zeros(()).device.index
"""The tensors here lie on the CPU, whose device has no number."""


class FakeFunction:
    """A CuPy function that notes what it is launched with: grid, block, the structure's bytes, shared memory, stream."""

    ptr = 0

    def __init__(self, noted: list) -> None:
        self.noted = noted

    def __call__(self, grid, block, arguments, shared_bytes, stream):
        (structure,) = arguments
        self.noted.append((grid, block, bytes(structure), shared_bytes, stream.ptr))


class FakePointer:
    """CuPy's pointer to an argument, which reads what it points at."""

    def __new__(cls, address: int) -> bytes:
        return ctypes.string_at(address, cls.size)


@pytest.fixture
def launches(monkeypatch):
    """What is launched, on a Hopper GPU with 132 SMs whose driver makes tensor maps of what it is asked for."""
    noted = []
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: NO_GPU_NUMBER)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(fused, "sm_count", lambda device: 132)

    def kernel(actor, build, shared_bytes, device):
        module = SimpleNamespace(get_function=lambda name: FakeFunction(noted))
        made = loader.Kernel(module, actor)
        made.shared_bytes = (str(build), shared_bytes)
        size = {flash_portable: flash_portable._FORMAT.size, flash_hopper: flash_hopper._FORMAT.size}
        made._pointer = lambda address: ctypes.string_at(
            address, size[next(k for k in KERNELS if actor == k.ACTOR)]
        )
        return made

    monkeypatch.setattr(fused, "kernel", kernel)
    monkeypatch.setattr(
        flash_hopper, "heads_map", lambda *asked: repr(asked).encode().rjust(256)[-256:][::2]
    )
    for module in KERNELS:
        monkeypatch.setattr(module._fused, "_launches", {})
    yield noted
