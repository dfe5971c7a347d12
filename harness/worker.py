"""A worker: a fresh process that is one replicate. It measures every group it is handed, in a shuffled order."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.channel import Channel
from harness.plugins import changed_plugin
from results.schema import Case, Trial

if TYPE_CHECKING:
    from harness.timers import Timer
    from harness.tools import Tools

WARM_UP_S = 0.5


def main() -> None:
    """The child: measure the job on stdin, an event for every step and every trial."""
    channel = Channel()
    if changed := changed_plugin(channel.job["plugins"]):
        channel.send("refused", message=f"plugin {changed} has changed since the run began: start a new run")
        return
    import torch

    from harness.group import GroupMeasurement
    from harness.plan import group_cases
    from harness.tools import ContextLost

    with torch.inference_mode():
        tools = make_tools(channel)
        groups = list(group_cases([Case(**case) for case in channel.job["cases"]]))
        random.Random(channel.job["seed"] + channel.job["replicate"]).shuffle(groups)
        channel.send("ready")
        deadline = time.monotonic() + channel.job["seconds"]
        cases_left = sum(len(group.cases) for group in groups)
        for group in groups:
            share = (deadline - time.monotonic()) * len(group.cases) / cases_left
            cases_left -= len(group.cases)
            try:
                GroupMeasurement(group, tools).run(max(share, 0.0))
            except ContextLost:
                break  # the parent starts another worker for what is left
        channel.send("done")


def make_tools(channel: Channel) -> Tools:
    """Everything the groups share, the GPU warmed."""
    import torch

    from harness.state import PinnedState
    from harness.tools import Tools
    from variants.registry import discover

    job = channel.job
    device = torch.device(job["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        _warm(torch)
    else:
        _bound_memory(job["memory_bytes"])
    state = PinnedState(device)  # before plugins are imported: they may change it
    nvml, nvml_reason = _open_nvml(job)
    timers, missing_modes = _timers(device.type)

    def begin(group: str, case: str | None, step: str) -> None:
        channel.send("begin", group=group, case=case, step=step)

    def report(trial: Trial) -> None:
        channel.send("trial", trial=trial.to_json())

    return Tools(
        device=device,
        state=state,
        registry=discover([Path(plugin["path"]) for plugin in job["plugins"]]),
        timers=timers,
        missing_modes=missing_modes,
        nvml=nvml,
        nvml_reason=nvml_reason,
        begin=begin,
        report=report,
        replicate=job["replicate"],
        seed=job["seed"],
        watch=job["watch"],
    )


def _timers(device: str) -> tuple[list[Timer], dict[str, str]]:
    """The device's timers, and why a mode is missing."""
    import torch

    from harness.timers import EagerTimer
    from kernels.loader import KernelError

    if device == "cpu":
        return [EagerTimer(synchronize=lambda: None)], {}
    from harness.cuda_timers import gpu_timers

    try:
        return gpu_timers(), {}
    except KernelError as error:
        eager: list[Timer] = [EagerTimer(synchronize=torch.cuda.synchronize)]
        return eager, dict.fromkeys(("isolated", "graph"), str(error))


def _open_nvml(job: dict[str, Any]) -> tuple[Any, str | None]:
    from harness.nvml import Nvml, NvmlUnavailable

    if job["gpu_uuid"] is None:
        return None, "NVML watches GPUs; this run is on the CPU"
    try:
        return Nvml.open(job["gpu_uuid"]), None
    except NvmlUnavailable as error:
        return None, str(error)


def _warm(torch: Any) -> None:
    """Lift the GPU from its idle clocks before anything is sampled."""
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        for _ in range(10):
            square @ square
        torch.cuda.synchronize()


def _bound_memory(limit_bytes: int) -> None:
    """Let an allocation beyond the machine's memory fail as one, instead of the system ending some process."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main()
