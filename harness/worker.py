"""A worker: a fresh process that is one replicate. It measures every group it is handed, in a shuffled order."""

from __future__ import annotations

import math
import random
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.channel import Channel
from harness.needs import Need, shares
from harness.plugins import changed_plugin
from results.schema import Case, Trial

if TYPE_CHECKING:
    import torch

    from harness.nvml import Nvml
    from harness.plan import Group
    from harness.state import PinnedState
    from harness.timers import Timer
    from harness.tools import Tools

LONGEST_WARM_UP_S = 2.0
WARMING = 0.01
"""The GPU is warm when ten matmuls are no longer faster than the ten before by this share."""


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
        needs = [_need(group, channel.job["needs"]) for group in groups]
        channel.send("ready")
        deadline = time.monotonic() + channel.job["seconds"]
        for place, group in enumerate(groups):
            share = shares(deadline - time.monotonic(), needs[place:])[0]
            try:
                GroupMeasurement(group, tools).run(share)
            except ContextLost:
                break  # the parent starts another worker for what is left
        channel.send("done")


def _need(group: Group, known: dict[str, list[float]]) -> Need:
    """What the replicate before told of this group; nothing is known in the first."""
    return Need(len(group.cases), *known.get(group.cases[0].group, ()))


def make_tools(channel: Channel) -> Tools:
    """Everything the groups share, the GPU warmed."""
    from harness.clocks import Cooling
    from harness.tools import Tools
    from variants.registry import discover

    job = channel.job
    device, state = open_device(job)
    nvml, _ = open_nvml(job)
    timers, missing_modes = _timers(device.type)

    def begin(group: str, case: str | None, step: str) -> None:
        channel.send("begin", group=group, case=case, step=step)

    def report(trial: Trial) -> None:
        channel.send("trial", trial=trial.to_json())

    def note_need(group: str, fixed_s: float, wanted_s: float) -> None:
        channel.send("need", group=group, fixed_s=fixed_s, wanted_s=wanted_s)

    return Tools(
        device=device,
        state=state,
        registry=discover([Path(plugin["path"]) for plugin in job["plugins"]]),
        timers=timers,
        missing_modes=missing_modes,
        nvml=nvml,
        begin=begin,
        report=report,
        note_need=note_need,
        replicate=job["replicate"],
        seed=job["seed"],
        cooling=Cooling(nvml.power_limit_w() if nvml else None),
        precise=job["precise"],
    )


def open_device(job: dict[str, Any]) -> tuple[torch.device, PinnedState]:
    """The job's device, warmed or bounded, and the state it was found in: before plugins, which may change it."""
    import torch

    from harness.state import PinnedState

    device = torch.device(job["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        _warm(torch)
    else:
        _bound_memory(job["memory_bytes"])
    return device, PinnedState(device)


def open_nvml(job: dict[str, Any]) -> tuple[Nvml | None, str | None]:
    """The job's GPU as NVML sees it, or why not."""
    from harness.nvml import Nvml, NvmlUnavailable

    if job["gpu_uuid"] is None:
        return None, "NVML watches GPUs; this run is on the CPU"
    try:
        return Nvml.open(job["gpu_uuid"]), None
    except NvmlUnavailable as error:
        return None, str(error)


def _timers(device: str) -> tuple[list[Timer], dict[str, str]]:
    """The device's timers, and why a mode is missing."""
    import torch

    from harness.timers import EagerTimer
    from kernels.loader import KernelError

    if device == "cpu":
        return [EagerTimer(synchronize=lambda: None)], {}
    from harness.cuda_gpu import gpu_timers

    try:
        return gpu_timers(), {}
    except KernelError as error:
        eager: list[Timer] = [EagerTimer(synchronize=torch.cuda.synchronize)]
        return eager, dict.fromkeys(("isolated", "graph"), str(error))


def _warm(torch: Any) -> None:
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
        if taken_s > (1 - WARMING) * before_s:
            return
        before_s = taken_s


def _bound_memory(limit_bytes: int) -> None:
    """Let an allocation beyond the machine's memory fail as one, instead of the system ending some process."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    main()
