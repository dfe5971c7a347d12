"""The process-wide state every case is measured in: foreign code may change it, the next case must not notice."""

from __future__ import annotations

import gc
import os
import random
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness import persisting_l2
from variants.shape import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 0
"""Where random numbers start before every case: one that draws some draws the same in every process."""


def _blas_library() -> str:
    """`default`, `cublas` or `cublaslt`, as it is set: the enum's own name reads `_BlasBackend.Cublas`."""
    return str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2].lower()


# What a fresh process has: how each setting is read and how it is set.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "flash_sdp": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "mem_efficient_sdp": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "math_sdp": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "cudnn_sdp": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    "blas_library": (_blas_library, torch.backends.cuda.preferred_blas_library),
}
ATTRIBUTES: dict[str, tuple[Any, str]] = {
    "cudnn_benchmark": (torch.backends.cudnn, "benchmark"),
    "cudnn_deterministic": (torch.backends.cudnn, "deterministic"),
    "bf16_reduced_precision_reduction": (
        torch.backends.cuda.matmul,
        "allow_bf16_reduced_precision_reduction",
    ),
    "fp16_reduced_precision_reduction": (
        torch.backends.cuda.matmul,
        "allow_fp16_reduced_precision_reduction",
    ),
    "fp16_accumulation": (torch.backends.cuda.matmul, "allow_fp16_accumulation"),
    "mkldnn": (torch.backends.mkldnn, "enabled"),
}


def float32_matmul_precision(dtype: str) -> str:
    """PyTorch's word for how float32 matmuls may round: `tf32` alone lets them."""
    return "high" if dtype == "tf32" else "highest"


def describe() -> dict[str, Any]:
    """The state that `PinnedState` would keep here, as plain values, and what `restore` fixes whatever it was.

    Of gradients it says what holds in the forward direction; the others record them, by what they are.
    """
    settings = {name: read() for name, (read, _) in SETTINGS.items()}
    attributes = {name: getattr(owner, attribute) for name, (owner, attribute) in ATTRIBUTES.items()}
    return {
        **settings,
        **attributes,
        "default_dtype": str(settings["default_dtype"]),
        "float32_matmul_precision": {dtype: float32_matmul_precision(dtype) for dtype in DTYPES},
        "grad": False,
        "inference_mode": True,
        "autocast": False,
    }


class PinnedState:
    """Remembers the state at its making; `restore` brings it back."""

    def __init__(self, device: torch.device) -> None:
        self._settings = [(read, write, read()) for read, write in SETTINGS.values()]
        self._attributes = [(owner, name, getattr(owner, name)) for owner, name in ATTRIBUTES.values()]
        self._affinity = os.sched_getaffinity(0)
        self._generators = [torch.default_generator]
        self._inference = ExitStack()
        self._stream = None
        if device.type == "cuda":
            self._stream = torch.cuda.current_stream()
            self._generators.append(torch.cuda.default_generators[self._stream.device_index])
            self._set_aside_bytes = persisting_l2.set_aside_bytes()

    def restore(self, dtype: str, *, gradients: bool = False) -> None:
        """Set everything back, for a case of this dtype; the garbage collector, too, is on as in a fresh process.

        With `gradients` PyTorch records them until `infer` or the next restore, else it is in inference mode.
        """
        self._enter(inference=not gradients)
        torch.set_float32_matmul_precision(float32_matmul_precision(dtype))
        torch.set_grad_enabled(gradients)
        torch.set_default_device(None)
        for kind in ("cpu", "cuda"):
            torch.set_autocast_enabled(kind, False)
        torch.set_flush_denormal(False)
        sys.setprofile(None)
        sys.settrace(None)
        gc.enable()
        if os.sched_getaffinity(0) != self._affinity:
            os.sched_setaffinity(0, self._affinity)
        for read, write, value in self._settings:
            if read() != value:  # setting the number of threads anew takes milliseconds
                write(value)
        for owner, name, value in self._attributes:
            setattr(owner, name, value)
        self._reseed()
        if self._stream is not None:
            torch.cuda.set_stream(self._stream)
            persisting_l2.give_back(self._set_aside_bytes)

    def _reseed(self) -> None:
        """Not by `torch.manual_seed`, which looks for accelerators of every make and takes 0.4 ms."""
        random.seed(SEED)
        np.random.seed(SEED)
        for generator in self._generators:
            generator.manual_seed(SEED)

    def infer(self) -> None:
        """Back into inference mode, where a worker began."""
        self._enter(inference=True)
        torch.set_grad_enabled(False)

    def _enter(self, *, inference: bool) -> None:
        """Into the mode in which the inputs were made, and in which alone they may be used."""
        if torch.is_inference_mode_enabled() == inference:
            return
        self._inference.close()  # the end of an earlier return sets the mode, too, and so must come first
        if torch.is_inference_mode_enabled() != inference:
            self._inference.enter_context(torch.inference_mode(inference))
