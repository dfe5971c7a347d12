"""A child's device, opened: warm or bounded, in the state it was found in, with NVML watching it."""

from __future__ import annotations

import math
import resource
import time
from typing import Any

import torch

from harness.sensors.nvml import Nvml, NvmlUnavailable
from harness.state import PinnedState

LONGEST_WARM_UP_S = 2.0
STILL_WARMING = 0.01
"""The GPU is warm when ten matmuls are no longer faster than the ten before by this share."""


def open_device(job: dict[str, Any]) -> tuple[torch.device, PinnedState]:
    """The job's device, warmed or bounded, and the state it was found in: before plugins, which may change it."""
    device = torch.device(job["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        _warm()
    else:
        _bound_memory(job["memory_bytes"])
    return device, PinnedState(device)


def open_nvml(job: dict[str, Any]) -> tuple[Nvml | None, str | None]:
    """The job's GPU as NVML sees it, or why not."""
    if job["gpu_uuid"] is None:
        return None, "NVML watches GPUs; this run is on the CPU"
    try:
        return Nvml.open(job["gpu_uuid"]), None
    except NvmlUnavailable as error:
        return None, str(error)


def _warm() -> None:
    """Lift the GPU from its idle clocks before anything is sampled: until a matmul no longer gets faster."""
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    end = time.monotonic() + LONGEST_WARM_UP_S
    before_s = math.inf
    while time.monotonic() < end:
        start = time.perf_counter()
        for _ in range(10):
            square @ square
        torch.cuda.synchronize()
        taken_s = time.perf_counter() - start
        if taken_s > (1 - STILL_WARMING) * before_s:
            return
        before_s = taken_s


def _bound_memory(limit_bytes: int) -> None:
    """Let an allocation beyond the machine's memory fail as one, instead of the system ending some process."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
