"""What a worker has for every group it measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.nvml import Nvml
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
    process does not have to its reason. `watch` says whether NVML windows are wanted in this replicate.
    """

    device: torch.device
    state: PinnedState
    registry: Registry
    timers: list[Timer]
    missing_modes: dict[str, str]
    nvml: Nvml | None
    nvml_reason: str | None
    begin: Callable[[str, str | None, str], None]
    report: Callable[[Trial], None]
    replicate: int
    seed: int
    watch: bool

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def free_memory(self) -> None:
        """Give cached blocks back, so that the next group starts from an empty allocator."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
