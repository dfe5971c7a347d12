"""The observer: a fresh process after the replicates that watches every case untimed, one sensor after the other.

First NVML windows, which heat the GPU and would lower the clock of what is timed next; then what CUPTI records,
which slows the launches of its process for good.
"""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harness import dispatch, utilisation
from harness.channel import Channel
from harness.device import open_device, open_nvml
from harness.faults import classify, is_fatal
from harness.observations import STEPS, unseen
from harness.plan import group_cases
from harness.plugins import refusal
from results.schema import Case, Dispatch, Observation, Utilisation
from variants.inputs import Inputs, make_inputs
from variants.registry import discover

if TYPE_CHECKING:
    from harness.nvml import Nvml
    from harness.plan import Group
    from harness.state import PinnedState
    from harness.timers import Call
    from variants.registry import Registry
    from variants.shape import Shape

WARM_UP_CALLS = 3


def main() -> None:
    """The child: observe the cases of the job on stdin, an event for every step and every observation."""
    channel = Channel()
    if why := refusal(channel.job["plugins"]):
        channel.send("refused", message=why)
        return
    with torch.inference_mode():
        device, state = open_device(channel.job)
        registry = discover([Path(plugin["path"]) for plugin in channel.job["plugins"]])
        observer = Observer(channel, device, state, registry, *open_nvml(channel.job))
        channel.send("ready")
        for sensor, cases in channel.job["cases"].items():
            for group in group_cases([Case(**case) for case in cases]):
                observer.observe(group, sensor)
        channel.send("done")


class Observer:
    """Prepares each variant of a group anew and hands its call to a sensor. What fails is said, and costs no other."""

    def __init__(
        self,
        channel: Channel,
        device: torch.device,
        state: PinnedState,
        registry: Registry,
        nvml: Nvml | None,
        nvml_reason: str | None,
    ) -> None:
        self._channel, self._device, self._state, self._registry = channel, device, state, registry
        self._nvml, self._nvml_reason = nvml, nvml_reason

    def observe(self, group: Group, sensor: str) -> None:
        """Every case of the group, with one sensor; an observation is sent for each.

        Raises:
            Exception: the GPU's context is lost; the parent blames the case in hand and observes the rest anew.
        """
        self._channel.send("begin", group=group.cases[0].group, case=None, step=STEPS[sensor])
        try:
            inputs = make_inputs(group.stage, group.shape, self._channel.job["seed"], self._device)
        except (RuntimeError, MemoryError) as error:
            for case in group.cases:
                self._send(case, sensor, self._unseen(sensor, error))
            return
        for case in group.cases:
            self._channel.send("begin", group=case.group, case=case.key, step=STEPS[sensor])
            try:
                seen = self._watch(sensor, self._ready(case, group.shape, inputs))
            except BaseException as error:
                seen = self._unseen(sensor, error)
            self._send(case, sensor, seen)
            gc.collect()
        del inputs
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _ready(self, case: Case, shape: Shape, inputs: Inputs) -> Call:
        """The case's call, warm: what it prepares and loads has happened."""
        self._state.restore(shape.dtype)
        variant = self._registry.variants[case.stage, case.variant](shape)
        variant.prepare(inputs.weights)
        call = partial(variant.call, *inputs.activations)
        for _ in range(WARM_UP_CALLS):
            call()
        self._state.restore(shape.dtype)
        return call

    def _watch(self, sensor: str, call: Call) -> Utilisation | Dispatch:
        if sensor == "dispatch":
            return dispatch.observe(call)
        if self._nvml is None:
            return Utilisation(reason=self._nvml_reason)
        return utilisation.watch(call, _once_s(call), self._nvml)

    def _unseen(self, sensor: str, error: BaseException) -> Utilisation | Dispatch:
        if is_fatal(error):
            raise error
        return unseen(sensor, classify(error)[1])

    def _send(self, case: Case, sensor: str, seen: Utilisation | Dispatch) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        observation = Observation(case, now, **{sensor: seen})  # type: ignore[arg-type]
        self._channel.send("observation", observation=observation.to_json())


def _once_s(call: Call) -> float:
    """About how long one call takes, so that a window can queue a fair number at once."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(WARM_UP_CALLS):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / WARM_UP_CALLS


if __name__ == "__main__":
    main()
