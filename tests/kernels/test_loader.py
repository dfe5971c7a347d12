"""Launching: what CuPy is handed, on a GPU that is not there."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kernels.compiler import KernelError
from kernels.loader import Kernel, kernel


def test_a_launch_hands_over_its_arguments_shared_memory_and_pytorchs_current_stream(monkeypatch):
    function = pytest.importorskip("cupy.cuda.function")
    monkeypatch.setattr(function, "CPointer", lambda address: ctypes.string_at(address, 5))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=streams.pop()))
    streams, launched = [11, 7], []

    def launch(grid, block, arguments, shared_bytes, stream):
        launched.append((grid, block, list(arguments), shared_bytes, stream.ptr))

    mine = Kernel(SimpleNamespace(get_function={"mine": launch}.get), "mine", 1024)
    mine.launch(3, 128, 4096, np.int32(5), ctypes.create_string_buffer(b"12345", 5))
    mine.launch(1, 32)
    assert launched == [((3,), (128,), [4096, 5, b"12345"], 1024, 7), ((1,), (32,), [], 1024, 11)]


def test_a_kernel_without_a_gpu_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(KernelError, match=r"^kernel timing needs a CUDA GPU, and PyTorch .* finds none$"):
        kernel("timing", "timing")
