"""What a worker has for every group it measures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from harness.series import PRECISE

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.clocks import Cooling
    from harness.sensors.nvml import Nvml
    from harness.state import PinnedState
    from harness.timers import Timer
    from results.schema import Trial
    from variants.registry import Registry


class ContextLost(Exception):
    """The CUDA context is gone; the case that lost it has been reported."""


@dataclass(slots=True)
class Tools:
    """The device and everything that is opened once per process.

    `begin(group, case, step)` tells the parent what is in hand before each step, so that a crash or a hang can
    be laid at the right door; case None means the whole group. `missing_modes` maps a timing mode that this
    process does not have to its reason. `note_need(group, fixed_s, wanted_s)` tells the parent what a group
    took beside its sampling, and what its sampling would take if let. A mode ends when its median is known to
    `target_precision` either way.
    """

    device: torch.device
    state: PinnedState
    registry: Registry
    timers: list[Timer]
    missing_modes: dict[str, str]
    nvml: Nvml | None
    begin: Callable[[str, str | None, str], None]
    report: Callable[[Trial], None]
    note_need: Callable[[str, float, float], None]
    replicate: int
    seed: int
    cooling: Cooling
    target_precision: float = PRECISE
    clock_s: Callable[[], float] = time.monotonic

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def free_memory(self) -> None:
        """Give cached blocks back, so that the next group starts from an empty allocator."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
