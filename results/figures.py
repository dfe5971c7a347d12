"""The figures that sensors give of a case, as a run stores them: each with its source, its scope, and reasons.

Every field's name ends in its unit. `missing` maps a field to the reason that it is None, `reason` says why all of
them are; `scope` names what was watched (the whole GPU, one process, kernel by kernel).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory of one call above what was resident before it, in bytes, or the reason it is unknown."""

    peak_delta_bytes: int | None = None
    resident_bytes: int | None = None
    reserved_bytes: int | None = None
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Utilisation:
    """What NVML said of the GPU while the case ran back to back, untimed, for `window_s` seconds.

    `gpu_busy_percent` is the share of time in which any kernel ran, not how much of the GPU it used. `span_s` is
    the time per call that the window sustained, over `calls` calls at the clock and power it settled to.
    `energy_j` is what the GPU took in the `energy_window_s` seconds between two ticks of its energy counter.
    `fed_by` is `graph` where replays of a captured graph kept the queue full, else `eager`: then the GPU may have
    waited for launches. `other_processes` counts those that used the GPU beside this one. `missing` maps a field
    to the reason that it is None; `reason` says why all of them are.
    """

    gpu_busy_percent: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: float | None = None
    window_s: float | None = None
    calls: int | None = None
    span_s: float | None = None
    energy_j: float | None = None
    energy_window_s: float | None = None
    clock_event_reasons: int | None = None
    other_processes: int | None = None
    fed_by: str | None = None
    missing: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Gpm:
    """What NVML's performance monitor counted on the GPU in the window of `Utilisation`, in percent of its cycles.

    `sm_active_percent` is the share in which a multiprocessor had work, on average over them,
    `occupancy_percent` the share of warp slots taken, `tensor_active_percent` that of cycles in which a tensor pipe
    was busy, `dram_percent` that of the memory's peak bandwidth.
    """

    sm_active_percent: float | None = None
    occupancy_percent: float | None = None
    tensor_active_percent: float | None = None
    dram_percent: float | None = None
    window_s: float | None = None
    missing: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one call runs of one kernel (or copy, or fill): how often, and their durations added up."""

    name: str
    launches: float
    summed_s: float


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What one call puts on the GPU, as CUPTI recorded it: an average over `calls` calls, caches warm.

    `launches` counts kernels, copies and fills; `busy_s` is the union of their intervals, so that what runs side
    by side counts once. The harness's own kernels are not among them.
    """

    launches: float | None = None
    busy_s: float | None = None
    kernels: tuple[Kernel, ...] = ()
    calls: int | None = None
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CountedKernel:
    """What Nsight Compute counted in all launches of one kernel in one call: counts added up, percentages averaged
    with the launches' durations as weights.

    `duration_s` is the profiler's own, under its replay: a weight, never a time to show. `waves` are waves of
    thread blocks per multiprocessor, of the last launch.
    """

    name: str
    launches: int
    duration_s: float | None = None
    tensor_active_percent: float | None = None
    issued_flops: float | None = None
    sm_active_percent: float | None = None
    dram_percent: float | None = None
    registers: int | None = None
    waves: float | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """What Nsight Compute counted in one call, kernel by kernel: no gap between kernels is in it.

    `tensor_active_percent`, `sm_active_percent`, `occupancy_percent` (of warp slots, while an SM is active) and
    `dram_percent` are averages over the kernels weighted by their durations. `issued_flops` is what the tensor
    cores executed, padding and masked work included; 0 where no tensor instruction ran. `rate_while_active` is
    that over what they could have executed in the cycles they were busy.
    """

    tensor_active_percent: float | None = None
    issued_flops: float | None = None
    rate_while_active: float | None = None
    sm_active_percent: float | None = None
    occupancy_percent: float | None = None
    dram_percent: float | None = None
    kernels: tuple[CountedKernel, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    scope: str | None = None
    reason: str | None = None


Figures: TypeAlias = Memory | Utilisation | Gpm | Dispatch | Counters

FIGURES: dict[str, type[Figures]] = {
    "memory": Memory,
    "utilisation": Utilisation,
    "gpm": Gpm,
    "dispatch": Dispatch,
    "counters": Counters,
}
"""What a field of a trial or of an observation holds."""


@dataclass(frozen=True, slots=True)
class Matmul:
    """What a large square matmul of one dtype reached on this GPU: cold and rested, and back to back.

    Each with the SM clock measured with it, None where it is not known.
    """

    size: int
    burst_flops_per_s: float | None = None
    burst_clock_mhz: float | None = None
    sustained_flops_per_s: float | None = None
    sustained_clock_mhz: float | None = None
    reason: str | None = None
