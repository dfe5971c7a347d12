"""What the doctor says of counters and ceilings: other processes, GPM, Nsight Compute, and whether both agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.counting import try_matmul
from harness.observations import ON_CPU
from harness.sensors.ncu import Ncu, NcuUnavailable, forbidden
from reports import units
from reports.machine import reached, share_of_peak
from results.figures import Gpm
from results.schema import Ceilings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AGREE_POINTS = 3.0
MATMUL = "an 8192³ bf16 matmul"
Line = tuple[str, str]


def lines(environment: dict[str, Any], found: Mapping[str, Any]) -> Iterator[Line]:
    """A line each; Nsight Compute is tried, for some ten seconds, when its lines are asked for."""
    if environment["gpu"] is None:
        yield "GPM", ON_CPU["gpm"]
        yield "ncu", ON_CPU["counters"]
        yield "ceilings", "they are a GPU's; this run is on the CPU"
        return
    yield "processes", _processes(found["nvml"])
    yield from _ceilings(Ceilings.from_json(found["ceilings"]["ceilings"]), environment["peaks"])
    gpm = Gpm(**found["gpm"]["gpm"])
    yield "GPM", _gpm(gpm)
    yield from _ncu(environment, gpm)


def _processes(nvml: Mapping[str, Any]) -> str:
    if nvml["others"] is None:
        return f"not known whether others use this GPU: {nvml['others_reason']}"
    if not nvml["others"]:
        return "no other process uses this GPU"
    return f"{nvml['others']} beside this one: times will be less certain, percentages of the whole GPU include them"


def _ceilings(measured: Ceilings, peaks: Mapping[str, Any]) -> Iterator[Line]:
    if measured.reason:
        yield "ceilings", measured.reason
        return
    for dtype, matmul in measured.matmuls.items():
        peak = peaks.get(dtype, {}).get("flops_per_s")
        yield "ceilings", f"{dtype} matmul {matmul.size}³: {', '.join(reached(matmul, peak))}"
    memory = peaks.get("memory", {}).get("bytes_per_s")
    rate = measured.copy_bytes_per_s
    yield (
        "ceilings",
        f"copy of 8 × L2, read and written: {units.rate(rate, 'B')}{share_of_peak(rate, memory)}",
    )


def _gpm(gpm: Gpm) -> str:
    if gpm.reason:
        return gpm.reason
    figures = (
        ("tensor cores active", "tensor_active_percent"),
        ("SMs active", "sm_active_percent"),
        ("occupancy", "occupancy_percent"),
        ("DRAM", "dram_percent"),
    )
    said = [f"{name} {_known(getattr(gpm, field), gpm.missing.get(field))}" for name, field in figures]
    return f"supported; of {MATMUL} back to back, {gpm.scope}: {', '.join(said)}"


def _ncu(environment: dict[str, Any], gpm: Gpm) -> Iterator[Line]:
    try:
        ncu = Ncu.find()
    except NcuUnavailable as error:
        yield "ncu", str(error)
        return
    yield "ncu", f"{ncu.source} ({ncu.path})"
    foretold = forbidden()
    yield "permission", foretold or "the driver's settings let this process have hardware counters"
    counters = try_matmul(environment)
    if counters.reason:
        again = foretold is not None and foretold in counters.reason
        yield "counters", "tried, and refused" if again else counters.reason
        return
    active = _known(counters.tensor_active_percent, counters.missing.get("tensor_active_percent"))
    yield "counters", f"counted {MATMUL}: tensor cores active {active}"
    if gpm.tensor_active_percent is not None and counters.tensor_active_percent is not None:
        yield "agreement", _agreement(gpm.tensor_active_percent, counters.tensor_active_percent)


def _agreement(by_gpm: float, by_ncu: float) -> str:
    apart = abs(by_gpm - by_ncu)
    both = f"GPM says {_percent(by_gpm)} and Nsight Compute {_percent(by_ncu)} of the same matmul"
    if apart <= AGREE_POINTS:
        return f"{both}: they agree"
    return f"{both}: {apart:.1f} points apart, so a queue ran empty or another process used the GPU"


def _known(percent: float | None, why_not: str | None) -> str:
    return f"not known ({why_not or 'no reason given'})" if percent is None else _percent(percent)


def _percent(value: float) -> str:
    return f"{value:.1f} %"
