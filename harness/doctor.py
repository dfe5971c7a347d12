"""The doctor's child: opens the device as a worker does, checks the clock there, and measures what the GPU reaches."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import torch

from harness import ceilings, clock_check
from harness.channel import Channel
from harness.device import open_device, open_nvml
from harness.faults import why_survived
from harness.sensors.feed import CudaFeed
from harness.sensors.gpm import GpmMeter
from harness.sensors.nvml import NvmlUnavailable
from harness.sensors.window import DeviceWindow
from kernels.loader import KernelError
from results.figures import Figures, Gpm
from results.schema import Ceilings
from variants.shape import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.sensors.nvml import Nvml
    from harness.timers import Timer


def main() -> None:
    """Answer with events: what NVML reads, what the clock's check found, ceilings and GPM, or why there is none."""
    channel = Channel()
    with torch.inference_mode():
        open_device(channel.job)
        nvml, reason = open_nvml(channel.job)
        others, others_reason = _other_processes(nvml)
        channel.send(
            "nvml",
            reading=asdict(nvml.reading()) if nvml else None,
            reason=reason,
            others=others,
            others_reason=others_reason or reason,
        )
        if channel.job["gpu_uuid"] is not None:
            channel.send("ceilings", ceilings=_timed(channel).to_json())
            channel.send("gpm", gpm=asdict(_gpm(nvml, reason)))
    channel.send("done")


def _other_processes(nvml: Nvml | None) -> tuple[int | None, str | None]:
    """How many use the GPU beside this one, which has a context there by now; or why that is not known."""
    try:
        return (len(nvml.other_processes()) if nvml else None), None
    except NvmlUnavailable as error:
        return None, str(error)


def _timed(channel: Channel) -> Ceilings:
    """Check the clock; if there is one, what the GPU reaches by it."""
    from harness.cuda_gpu import gpu_timers

    try:
        timers = gpu_timers()
    except KernelError as error:
        channel.send("kernels", reason=str(error))
        return Ceilings(reason=f"isolated times are unavailable: {error}")
    channel.send("kernels", reason=None)
    _check_clock(channel, timers)
    try:
        return ceilings.measure(tuple(DTYPES), timers)
    except RuntimeError as error:
        return Ceilings(reason=why_survived(error))


def _check_clock(channel: Channel, timers: Sequence[Timer]) -> None:
    channel.send("floor", **asdict(clock_check.read_floor(timers)))
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    cold = clock_check.check_cold(timers, l2_bytes)
    channel.send("cold", fault=cold.fault, **asdict(cold))


def _gpm(nvml: Nvml | None, reason: str | None) -> Figures:
    """What NVML's performance monitor says of a large matmul that runs back to back."""
    if nvml is None:
        return Gpm(reason=reason)
    try:
        meter = GpmMeter.open(nvml)
    except NvmlUnavailable as error:
        return Gpm(reason=str(error))
    window = DeviceWindow(nvml, meter, None, CudaFeed)
    try:
        call = ceilings.square_matmul(ceilings.SIZE, torch.bfloat16, "cuda")
        call()
        return window.sample(call)["gpm"]
    except RuntimeError as error:
        return Gpm(reason=why_survived(error))
    finally:
        window.close()


if __name__ == "__main__":
    main()
