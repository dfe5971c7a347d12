"""Peak memory of one call above what was resident before it, as the device's allocator counts it."""

from __future__ import annotations

import gc
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from results.figures import Memory

if TYPE_CHECKING:
    from harness.timers import Call
    from results.figures import Figures

CUDA_SOURCE = "PyTorch's CUDA allocator"
CUDA_SCOPE = "this process's tensors: no CUDA context, nothing allocated past PyTorch"
MEMORY_EVENT = "[memory]"
"""The profiler's own name for an allocation, positive bytes, or a release, negative."""
CPU_SOURCE = "PyTorch's profiler: tensors allocated and freed during one call"


class MemorySensor:
    """PyTorch's own count; on `device`, which the call runs on."""

    step = "memory"
    fields = ("memory",)
    reason: str | None = None

    def __init__(self, device: torch.device) -> None:
        self._peak_of = _cuda_peak if device.type == "cuda" else _cpu_peak

    def sample(self, call: Call) -> dict[str, Figures]:
        """Run `call` once, and say how much memory it needed at its peak, its output included."""
        return {"memory": self._peak_of(call)}

    def close(self) -> None:
        """Nothing is held between samples."""


def _cuda_peak(call: Call) -> Memory:
    torch.cuda.synchronize()
    gc.disable()  # garbage freed in the middle would hide as much of the peak
    try:
        torch.cuda.reset_peak_memory_stats()
        resident = torch.cuda.memory_allocated()
        output = call()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        del output
    finally:
        gc.enable()
    return Memory(peak - resident, resident, torch.cuda.memory_reserved(), CUDA_SOURCE, CUDA_SCOPE)


def _cpu_peak(call: Call) -> Memory:
    """A CPU has no such counter: the profiler's record of every allocation is added up instead."""
    with torch.autograd.profiler.profile(use_device=None, profile_memory=True) as record:
        output = call()
        del output
    events: Any = record.kineto_results.events() if record.kineto_results else ()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == MEMORY_EVENT]
    if not changes:
        return Memory(source=CPU_SOURCE, reason="PyTorch's profiler recorded no allocation")
    in_use = accumulate(change for _, change in sorted(changes, key=lambda change: change[0]))
    return Memory(max(0, *in_use), source=CPU_SOURCE)
