"""`doctor`: what this machine offers and lacks, and whether its clock can be trusted."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from harness import doctor_counters
from harness.child import Child
from harness.errors import HeadbenchError
from harness.following import follow, machine_job
from harness.probe import START_S, look
from reports import units
from results.clock_events import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LABEL_WIDTH = 12
Facts = dict[str, dict[str, Any]]
"""What the doctor's child found, by the event it came with."""


def show(device: str | None) -> int:
    """Print a line per part of the machine; 1 if the clock's check failed, else 0.

    Raises:
        UsageError: the device is not there.
        HeadbenchError: torch cannot be imported, or the device cannot be used.
    """
    environment, _ = look(device, ())
    found = _examine(environment)
    console = Console(highlight=False, soft_wrap=True)
    parts = (_machine(environment), _sensors(found), _clock(environment, found))
    for label, text in chain(*parts, doctor_counters.lines(environment, found)):
        console.print(Text(f"{label:<{LABEL_WIDTH}}", style="bold").append(text, "not bold"))
    for notice in environment["notices"]:
        console.print(Text(f"! {notice}", style="yellow"))
    return int(bool(_fault(found)))


def _examine(environment: dict[str, Any]) -> Facts:
    found: Facts = {}

    def keep(event: dict[str, Any]) -> None:
        found[event["event"]] = event

    with Child("harness.doctor", machine_job(environment), START_S) as child:
        fault = follow(child, START_S, None, keep)
    if fault:
        raise HeadbenchError(f"{environment['device']} cannot be used: {fault.reason}")
    return found


def _machine(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    torch, packages, cpu, gpu = (environment[name] for name in ("torch", "packages", "cpu", "gpu"))
    yield (
        "headbench",
        f"{environment['headbench']} · Python {environment['python']} · {environment['platform']}",
    )
    cuda = f"CUDA {torch['cuda']} · cuDNN {torch['cudnn']}" if torch["cuda"] else "a build without CUDA"
    yield "torch", f"{torch['version']} · {cuda} · {torch['threads']} threads"
    yield (
        "CuPy",
        packages["cupy"] or "not installed: isolated and graph times need it: pip install cupy-cuda13x",
    )
    yield "CPU", f"{cpu['name']} · {cpu['cores']} cores · {units.size(cpu['memory_bytes'])}"
    if gpu is None:
        yield "GPU", "none in use: eager times alone, no NVML, no kernels; --device cuda:N names one"
        return
    yield (
        "GPU",
        f"{gpu['name']} · {gpu['sm_count']} SMs of compute capability {gpu['capability'][0]}.{gpu['capability'][1]} · "
        f"{units.size(gpu['memory_bytes'])} · L2 {units.size(gpu['l2_bytes'])} · {gpu['uuid']}",
    )
    yield "peaks", _peaks(environment["peaks"])


def _peaks(peaks: Mapping[str, Any]) -> str:
    if not peaks:
        return "neither this GPU's datasheet nor its architecture is known here, so no share of peak is shown"
    rates = (
        f"{dtype} {units.rate(peak['flops_per_s'])} at {peak['clock_mhz']} MHz"
        for dtype, peak in peaks.items()
        if "flops_per_s" in peak
    )
    memory = (
        f"memory {units.rate(peaks['memory']['bytes_per_s'], 'B')}" if "memory" in peaks else "memory unknown"
    )
    sources = dict.fromkeys(peak["source"] for peak in peaks.values())
    return f"{', '.join(rates)}, {memory} ({'; '.join(sources)})"


def _sensors(found: Facts) -> Iterator[tuple[str, str]]:
    nvml = found["nvml"]
    if nvml["reason"]:
        yield "NVML", nvml["reason"]
        return
    reading = nvml["reading"]
    parts = [
        _known(reading["sm_clock_mhz"], "SM clock {:.0f} MHz", "SM clock not told"),
        _known(reading["power_w"], "{:.0f} W", "power not told"),
        _known(reading["temperature_c"], "{:.0f} °C", "temperature not told"),
    ]
    mask = reading["clock_event_reasons"]
    held_back = words(mask) if mask is not None else ("clock-event reasons not told",)
    yield "NVML", " · ".join([*parts, ", ".join(held_back) or "nothing holds the clock back"])


def _clock(environment: Mapping[str, Any], found: Facts) -> Iterator[tuple[str, str]]:
    if environment["gpu"] is None:
        return
    if reason := found["kernels"]["reason"]:
        yield "clock", f"isolated and graph times are unavailable: {reason}"
        return
    floor, cold = found["floor"], found["cold"]
    measured = _known(floor["sm_clock_mhz"], "; the SM clock measured with it is {:.0f} MHz", "")
    yield (
        "floor",
        f"an empty bracket reads {units.duration(floor['floor_s'])}, in steps of "
        f"{units.duration(floor['resolution_s'])}{measured}",
    )
    small, cold_rate, hot_rate, large_rate = (
        units.size(cold["small_bytes"]),
        *(units.rate(cold[f"{name}_bytes_per_s"], "B") for name in ("cold", "hot", "large")),
    )
    yield (
        "cold",
        f"a copy of L2/4 ({small}) moves {cold_rate} flushed and {hot_rate} hot, one of 8 × L2 {large_rate}",
    )
    yield "verdict", f"FAILED: {cold['fault']}" if cold["fault"] else "cold is cold, hot is hot"


def _fault(found: Facts) -> str | None:
    fault: str | None = found.get("cold", {}).get("fault")
    return fault


def _known(value: float | None, text: str, otherwise: str) -> str:
    return otherwise if value is None else text.format(value)
