"""A worker: a fresh process that is one replicate. It measures every group it is handed, in a shuffled order."""

from __future__ import annotations

import gc
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness.channel import Channel
from harness.needs import Need, shares
from harness.plugins import refusal
from results.schema import Case, Trial

if TYPE_CHECKING:
    from harness.plan import Group
    from harness.timers import Timer
    from harness.tools import Tools


def main() -> None:
    """The child: measure the job on stdin, an event for every step and every trial."""
    channel = Channel()
    if why := refusal(channel.job["plugins"]):
        channel.send("refused", message=why)
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
        gc.freeze()  # what was imported stays: the collections between groups need not go through it
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
    from harness.device import open_device, open_nvml
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
        target_precision=job["target_precision"],
    )


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


if __name__ == "__main__":
    main()
