"""One case's samples in one timing mode, as they are taken, and the rule that ends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING

from harness.clocks import LOWERED, Cooling
from results.schema import THROTTLED, Stopped, Timing
from results.statistics import mean_half_width, relative_half_width

if TYPE_CHECKING:
    from harness.sensors.nvml import Reading
    from harness.timers import Bracket

PRECISE_BLOCKS = 3
"""A median is called known only when so many blocks, other cases in between, agree on it."""
FEWEST_WARMUPS, MOST_WARMUPS = 2, 10
WARMING = 0.02
"""The warm-up goes on while each sample is faster than the one before by more than this share."""
FEWEST_SAMPLES = 3
"""A case keeps at least so many samples however small the budget: samples shrink before cases do."""
SAMPLES_TO_JUDGE = 10
MOST_SAMPLES = 1000
PRECISE = 0.005
"""A mode ends when its own median is known to half a percent either way (95 %)."""
STOPS_WHEN_PRECISE = ("isolated", "graph")
FIXED_SAMPLES = 25
"""The share of a mode that does not stop when precise: `eager` is steady within a process and differs between
processes, so that more of it in one process says nothing more."""


@dataclass(slots=True)
class Series:
    """One case's samples in one mode, until its median is known to `target_precision` either way.

    `cooling` hears of its clocks; `spent_s` is what its blocks took.
    """

    case_key: str
    mode: str
    bracket: Bracket
    cooling: Cooling
    target_precision: float = PRECISE
    spans_s: list[float] = field(default_factory=list)
    warmups: int = 0
    flags: dict[str, list[int]] = field(default_factory=dict)
    block_samples: list[int] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    stopped: Stopped | None = None
    spent_s: float = 0.0
    block_clocks_mhz: list[float | None] = field(default_factory=list)
    _clocks_mhz: list[float] = field(default_factory=list)

    @property
    def used(self) -> list[float]:
        """The samples after the warm-up."""
        return self.spans_s[self.warmups :]

    def warm_up(self) -> None:
        """Take samples until one is no longer clearly faster than the one before it, or it is enough."""
        while not self._is_warm():
            self.take()
            self.warmups += 1

    def take(self) -> None:
        """One more sample; rounded to 0.1 ns, far below any clock's step, to keep stored runs small."""
        sample = self.bracket.sample()
        if sample.flag:
            self.flags.setdefault(sample.flag, []).append(len(self.spans_s))
        if sample.sm_clock_mhz is not None:
            self._clocks_mhz.append(sample.sm_clock_mhz)
        self.spans_s.append(round(sample.span_s, 10))

    def is_precise(self) -> bool:
        """Whether the median is known; only looked at every so many samples."""
        due = self.mode in STOPS_WHEN_PRECISE and len(self.used) % SAMPLES_TO_JUDGE == 0
        return due and relative_half_width(self.used) <= self.target_precision

    def end_block(self, reading: Reading, took_s: float) -> None:
        """Note the block, and stop when the answer is known or the stored series would grow without bound."""
        self.spent_s += took_s
        self.block_samples.append(len(self.spans_s) - sum(self.block_samples))
        self.readings.append(reading)
        self.block_clocks_mhz.append(round(median(self._clocks_mhz), 1) if self._clocks_mhz else None)
        self._clocks_mhz.clear()
        self.cooling.note(reading, self.block_clocks_mhz, took_s)
        if (
            len(self.block_samples) >= PRECISE_BLOCKS
            and self.is_precise()
            and self.precision() <= self.target_precision
        ):
            self.stopped = Stopped.PRECISE
        elif self.mode not in STOPS_WHEN_PRECISE and len(self.used) >= FIXED_SAMPLES:
            self.stopped = Stopped.FIXED_NUMBER
        elif len(self.used) >= MOST_SAMPLES:
            self.stopped = Stopped.LIMIT

    def precision(self) -> float:
        """The median's relative half-width: the larger of what the samples' ranks and what the blocks say.

        Of three blocks that drift apart, the ranks would see the middle one alone.
        """
        start = self.warmups
        ends = [end for end in accumulate(self.block_samples) if end > start]
        medians = [median(self.spans_s[a:b]) for a, b in pairwise([start, *ends])]
        return max(relative_half_width(self.used), mean_half_width(medians))

    @property
    def most_samples(self) -> int:
        """So many samples end the series by their number."""
        return MOST_SAMPLES if self.mode in STOPS_WHEN_PRECISE else FIXED_SAMPLES

    def wanted_s(self) -> float:
        """About how long it would have run had it been let: until precise, at the scatter seen, or at its most.

        The median's interval narrows with the root of the number of samples.
        """
        if not self.used or self.stopped in (Stopped.PRECISE, Stopped.FIXED_NUMBER, Stopped.LIMIT):
            return self.spent_s
        samples = float(self.most_samples)
        if self.mode in STOPS_WHEN_PRECISE:
            samples = min(samples, len(self.used) * (self.precision() / self.target_precision) ** 2)
            samples = max(samples, PRECISE_BLOCKS * SAMPLES_TO_JUDGE)
        return self.spent_s * max(1.0, samples / len(self.used))

    def timing(self) -> Timing:
        """What is stored."""
        throttled = self._throttled()
        return Timing(
            span_s=tuple(self.spans_s),
            warmup_samples=self.warmups,
            calls_per_sample=self.bracket.calls_per_sample,
            resolution_s=self.bracket.resolution_s,
            floor_s=self.bracket.floor_s,
            precision=self.precision(),
            stopped=self.stopped,
            flags=self.flags | ({THROTTLED: throttled} if throttled else {}),
            block_samples=tuple(self.block_samples),
            sm_clock_mhz=tuple(self._clocks()),
            power_w=tuple(reading.power_w for reading in self.readings),
            temperature_c=tuple(reading.temperature_c for reading in self.readings),
            clock_event_reasons=tuple(reading.clock_event_reasons for reading in self.readings),
        )

    def _is_warm(self) -> bool:
        if len(self.spans_s) < FEWEST_WARMUPS:
            return False
        before, last = self.spans_s[-2:]
        return last >= (1 - WARMING) * before or len(self.spans_s) >= MOST_WARMUPS

    def _clocks(self) -> list[float | None]:
        """Each block's clock: what was measured during its samples, or, where nothing ever was, the driver's.

        Never a mixture: the driver's figure may be 100 ms old, and does not see what slows an SM down.
        """
        measured = any(mhz is not None for mhz in self.block_clocks_mhz)
        return self.block_clocks_mhz if measured else [reading.sm_clock_mhz for reading in self.readings]

    def _throttled(self) -> list[int]:
        """The samples of blocks that ran clearly below this series' highest clock."""
        clocks = self._clocks()
        highest = max((mhz for mhz in clocks if mhz is not None), default=0.0)
        ends = accumulate(self.block_samples)
        return [
            index
            for end, count, mhz in zip(ends, self.block_samples, clocks, strict=True)
            if mhz is not None and mhz < LOWERED * highest
            for index in range(end - count, end)
        ]
