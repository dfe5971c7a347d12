"""The observer: a fresh process after the replicates that watches every case untimed, one sensor after the other.

First the windows, which heat the GPU and would lower the clock of what is timed next; then what CUPTI records,
which slows the launches of its process for good.
"""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harness import ceilings
from harness.channel import Channel
from harness.cuda_gpu import gpu_timers
from harness.device import open_device, open_nvml
from harness.faults import why_survived
from harness.observations import CEILINGS_STEP
from harness.plan import group_cases
from harness.plugins import refusal
from harness.sensors.dispatch import DispatchSensor
from harness.sensors.feed import CudaFeed
from harness.sensors.gpm import GpmMeter
from harness.sensors.nvml import NvmlUnavailable
from harness.sensors.sensor import Missing, unseen
from harness.sensors.window import DeviceWindow
from harness.warm_call import warm_call
from kernels.loader import KernelError
from results.schema import Case, Ceilings, Observation
from variants.direction import FORWARD
from variants.inputs import Inputs, make_inputs
from variants.registry import discover

if TYPE_CHECKING:
    from harness.plan import Group
    from harness.sensors.nvml import Nvml
    from harness.sensors.sensor import Sensor
    from harness.state import PinnedState
    from results.figures import Figures
    from variants.registry import Registry
    from variants.shape import Shape


def main() -> None:
    """The child: observe the cases of the job on stdin, an event for every step and every observation."""
    channel = Channel()
    if why := refusal(channel.job["plugins"]):
        channel.send("refused", message=why)
        return
    with torch.inference_mode():
        device, state = open_device(channel.job)
        registry = discover([Path(plugin["path"]) for plugin in channel.job["plugins"]])
        observer = Observer(channel, device, state, registry)
        nvml, nvml_reason = open_nvml(channel.job)
        gc.freeze()  # what was imported stays: the collection after each case need not go through it
        channel.send("ready")
        if channel.job["ceilings"]:
            channel.send("begin", group="this GPU", case=None, step=CEILINGS_STEP)
            channel.send("ceilings", ceilings=_ceilings(channel.job["ceilings"]).to_json())
        for name, cases in channel.job["cases"].items():
            for group in group_cases([Case(**case) for case in cases]):
                sensor = _sensor(name, nvml, nvml_reason, wants_gpm=channel.job["gpm"])
                observer.observe(group, sensor)
                sensor.close()
        channel.send("done")


def _ceilings(dtypes: list[str]) -> Ceilings:
    """What the machine reaches at most; first of all, for a rested GPU is part of the question."""
    try:
        return ceilings.measure(dtypes, gpu_timers())
    except (KernelError, RuntimeError) as error:
        return Ceilings(reason=why_survived(error))


def _sensor(name: str, nvml: Nvml | None, nvml_reason: str | None, *, wants_gpm: bool) -> Sensor:
    if name == "dispatch":
        return DispatchSensor()
    if nvml is None:
        return Missing(DeviceWindow.step, DeviceWindow.fields, nvml_reason or "NVML is not there")
    gpm: GpmMeter | None = None
    gpm_reason: str | None = "not asked for: --counters none"
    if wants_gpm:
        try:
            gpm, gpm_reason = GpmMeter.open(nvml), None
        except NvmlUnavailable as error:
            gpm_reason = str(error)
    return DeviceWindow(nvml, gpm, gpm_reason, CudaFeed)


class Observer:
    """Prepares each variant of a group anew and hands its call to a sensor. What fails is said, and costs no other."""

    def __init__(
        self, channel: Channel, device: torch.device, state: PinnedState, registry: Registry
    ) -> None:
        self._channel, self._device, self._state, self._registry = channel, device, state, registry

    def observe(self, group: Group, sensor: Sensor) -> None:
        """Every case of the group, with one sensor; an observation is sent for each.

        Raises:
            Exception: the GPU's context is lost; the parent blames the case in hand and observes the rest anew.
        """
        self._channel.send("begin", group=group.cases[0].group, case=None, step=sensor.step)
        self._state.restore(group.shape.dtype, gradients=group.direction != FORWARD)
        try:
            seed = self._channel.job["seed"]
            inputs = make_inputs(group.stage, group.shape, seed, self._device, group.direction)
        except (RuntimeError, MemoryError) as error:
            for case in group.cases:
                self._send(case, self._unseen(sensor, error))
            return
        for case in group.cases:
            self._channel.send("begin", group=case.group, case=case.key, step=sensor.step)
            self._send(case, self._sample(case, group.shape, inputs, sensor))
            gc.collect()
        del inputs
        self._state.infer()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _sample(self, case: Case, shape: Shape, inputs: Inputs, sensor: Sensor) -> dict[str, Figures]:
        if sensor.reason:
            return {field: unseen(field, sensor.reason) for field in sensor.fields}
        try:
            return sensor.sample(warm_call(case, shape, inputs, self._registry, self._state))
        except BaseException as error:
            return self._unseen(sensor, error)

    def _unseen(self, sensor: Sensor, error: BaseException) -> dict[str, Figures]:
        reason = why_survived(error)
        return {field: unseen(field, reason) for field in sensor.fields}

    def _send(self, case: Case, seen: dict[str, Figures]) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        observation = Observation(case, now, **seen)  # type: ignore[arg-type]
        self._channel.send("observation", observation=observation.to_json())


if __name__ == "__main__":
    main()
