"""The process-wide state every case is measured in: foreign code may change it, the next case must not notice."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# What a fresh process has, as (how it is read, how it is set).
SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
)
ATTRIBUTES: tuple[tuple[Any, str], ...] = (
    (torch.backends.cudnn, "benchmark"),
    (torch.backends.cudnn, "deterministic"),
    (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
)


class PinnedState:
    """Remembers the state at its making; `restore` brings it back."""

    def __init__(self, device: torch.device) -> None:
        self._settings = [(read, write, read()) for read, write in SETTINGS]
        self._attributes = [(owner, name, getattr(owner, name)) for owner, name in ATTRIBUTES]
        self._stream = torch.cuda.current_stream() if device.type == "cuda" else None

    def restore(self, dtype: str) -> None:
        """Set everything back; `tf32` alone lets float32 matmuls round their inputs."""
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        torch.set_grad_enabled(False)
        torch.set_default_device(None)
        for kind in ("cpu", "cuda"):
            torch.set_autocast_enabled(kind, False)
        sys.setprofile(None)
        sys.settrace(None)
        for read, write, value in self._settings:
            if read() != value:  # setting the number of threads anew takes milliseconds
                write(value)
        for owner, name, value in self._attributes:
            setattr(owner, name, value)
        if self._stream is not None:
            torch.cuda.set_stream(self._stream)
