"""The doctor's child: opens the device as a worker does, and checks the clock there."""

from __future__ import annotations

from dataclasses import asdict

import torch

from harness.channel import Channel
from harness.device import open_device, open_nvml
from kernels.loader import KernelError


def main() -> None:
    """Answer with events: what NVML reads, then what the clock's check found, or why there is none."""
    channel = Channel()
    with torch.inference_mode():
        open_device(channel.job)
        nvml, reason = open_nvml(channel.job)
        channel.send("nvml", reading=asdict(nvml.reading()) if nvml else None, reason=reason)
        if channel.job["gpu_uuid"] is not None:
            _check_clock(channel)
    channel.send("done")


def _check_clock(channel: Channel) -> None:
    from harness import clock_check
    from harness.cuda_gpu import gpu_timers

    try:
        timers = gpu_timers()
    except KernelError as error:
        channel.send("kernels", reason=str(error))
        return
    channel.send("kernels", reason=None)
    channel.send("floor", **asdict(clock_check.read_floor(timers)))
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    cold = clock_check.check_cold(timers, l2_bytes)
    channel.send("cold", fault=cold.fault, **asdict(cold))


if __name__ == "__main__":
    main()
