"""Does the clock of this GPU do what it claims? Cold is cold, launches are hidden, the floor is known.

A copy of a quarter of the L2 cache reads from DRAM when the cache was flushed and from the cache when it was
not: cold, it moves no more bytes a second than a copy of eight times the L2, which fits no cache; hot, it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.timers import Call, Timer

SAMPLES = 30
TOLERANCE = 1.05
"""A cold copy may seem this much faster than DRAM: its last lines are still in the cache when it ends."""
TELLING = 1.2
"""A hot copy must be faster than a cold one by this factor, or the comparison shows nothing."""


@dataclass(frozen=True, slots=True)
class ColdCheck:
    """Bytes moved a second, read and written, by a small copy cold and hot and by a large one."""

    small_bytes: int
    cold_bytes_per_s: float
    hot_bytes_per_s: float
    large_bytes_per_s: float

    @property
    def fault(self) -> str | None:
        """Why the cold time cannot be believed; None if it can."""
        if self.cold_bytes_per_s > TOLERANCE * self.large_bytes_per_s:
            return "a small copy after a flush is faster than DRAM: the flush leaves data in the cache"
        if self.hot_bytes_per_s < TELLING * self.cold_bytes_per_s:
            return "a hot copy is no faster than a cold one: this cannot tell whether the flush works"
        return None


@dataclass(frozen=True, slots=True)
class Floor:
    """What an empty bracket reads, the smallest step its times have, and the clock measured with them."""

    floor_s: float | None
    resolution_s: float
    sm_clock_mhz: float | None


def check_cold(timers: Sequence[Timer], l2_bytes: int) -> ColdCheck:
    """Time both copies on the current CUDA device."""
    isolated, graph = (
        next(timer for timer in timers if timer.mode == mode) for mode in ("isolated", "graph")
    )
    small, large = l2_bytes // 4, 8 * l2_bytes
    return ColdCheck(
        small,
        copy_bytes_per_s(isolated, small),
        copy_bytes_per_s(graph, small),
        copy_bytes_per_s(isolated, large),
    )


def copy_bytes_per_s(timer: Timer, size: int) -> float:
    """Bytes read and written a second by a copy of `size` bytes on the current CUDA device."""
    import torch

    source = torch.randint(0, 255, (size,), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * size / span_s(timer, lambda: target.copy_(source))


def read_floor(timers: Sequence[Timer]) -> Floor:
    """What the isolated timer published when it was made, and the clock of a few empty brackets of now."""
    isolated = next(timer for timer in timers if timer.mode == "isolated")
    bracket = isolated.bracket(lambda: None)
    clocks = [sample.sm_clock_mhz for sample in (bracket.sample() for _ in repeat(None, SAMPLES))]
    known = [mhz for mhz in clocks if mhz is not None]
    return Floor(bracket.floor_s, bracket.resolution_s, median(known) if known else None)


def span_s(timer: Timer, call: Call) -> float:
    """The median of a few samples."""
    for _ in range(3):
        call()
    bracket = timer.bracket(call)
    return median(bracket.sample().span_s for _ in repeat(None, SAMPLES))
