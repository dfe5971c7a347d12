"""Balanced rounds: the variants of a group take turns, so that heat, clocks and neighbours fall on all alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from results.schema import Timing
from results.statistics import relative_half_width

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from harness.timers import Bracket

ROUNDS = 5
WARMUP_SAMPLES = 2
FEWEST_SAMPLES = 3
"""A case keeps at least so many samples however small the budget: samples shrink before cases do."""
SAMPLES_TO_JUDGE = 10
MOST_SAMPLES = 1000
PRECISE = 0.005
"""A mode ends when its own median is known to half a percent either way (95 %)."""
STOPS_WHEN_PRECISE = ("isolated", "graph")
"""`eager` takes its share of time: its samples are steady within a process and differ between processes."""


@dataclass(slots=True)
class Series:
    """One case's samples in one mode, as they are taken."""

    case_key: str
    mode: str
    bracket: Bracket
    spans_s: list[float] = field(default_factory=list)
    flags: dict[str, list[int]] = field(default_factory=dict)
    block_samples: list[int] = field(default_factory=list)
    sm_clock_mhz: list[float | None] = field(default_factory=list)
    stopped: str | None = None

    @property
    def used(self) -> list[float]:
        """The samples after the warm-up."""
        return self.spans_s[WARMUP_SAMPLES:]

    def take(self) -> None:
        """One more sample."""
        sample = self.bracket.sample()
        if sample.flag:
            self.flags.setdefault(sample.flag, []).append(len(self.spans_s))
        self.spans_s.append(round(sample.span_s, 10))

    def judge(self) -> None:
        """Stop when the answer is known, or when a stored series would grow without bound."""
        used = self.used
        judged_by_precision = self.mode in STOPS_WHEN_PRECISE and len(used) >= SAMPLES_TO_JUDGE
        if judged_by_precision and relative_half_width(used) <= PRECISE:
            self.stopped = "precise"
        elif len(used) >= MOST_SAMPLES:
            self.stopped = "limit"

    def timing(self) -> Timing:
        """What is stored."""
        return Timing(
            span_s=tuple(self.spans_s),
            warmup_samples=WARMUP_SAMPLES,
            calls_per_sample=self.bracket.calls_per_sample,
            resolution_s=self.bracket.resolution_s,
            floor_s=self.bracket.floor_s,
            precision=relative_half_width(self.used),
            stopped=self.stopped,
            flags=self.flags,
            block_samples=tuple(self.block_samples),
            sm_clock_mhz=tuple(self.sm_clock_mhz),
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rounds need from outside, so that a test can script all of it.

    `before_block` is told the series about to be sampled; `sm_clock_mhz` reads the clock between blocks.
    """

    clock: Callable[[], float]
    before_block: Callable[[Series], None]
    sm_clock_mhz: Callable[[], float | None]


def measure(series: Sequence[Series], seconds: float, order: random.Random, around: Surroundings) -> None:
    """Fill the series within about `seconds`: a block of each in every round, the cases in a fresh order each time."""
    deadline = around.clock() + seconds
    for round_index in range(ROUNDS):
        running = [s for s in series if s.stopped is None]
        for position, one in enumerate(_shuffled_by_case(running, order)):
            blocks_left = (len(running) - position) + len(running) * (ROUNDS - 1 - round_index)
            share = (deadline - around.clock()) / blocks_left
            if share > 0 or len(one.used) < FEWEST_SAMPLES:
                _sample_block(one, share, around)
    for one in series:
        one.stopped = one.stopped or "share spent"


def _sample_block(one: Series, seconds: float, around: Surroundings) -> None:
    around.before_block(one)
    clock_mhz = around.sm_clock_mhz()
    taken_before = len(one.spans_s)
    if not one.spans_s:
        for _ in range(WARMUP_SAMPLES):
            one.take()
    end = around.clock() + seconds
    while one.stopped is None:
        one.take()
        one.judge()
        if around.clock() >= end and len(one.used) >= FEWEST_SAMPLES:
            break
    one.block_samples.append(len(one.spans_s) - taken_before)
    one.sm_clock_mhz.append(clock_mhz)


def _shuffled_by_case(series: list[Series], order: random.Random) -> list[Series]:
    """Cases in a random order, the modes of one case next to each other: all meet the same clocks and heat."""
    by_case: dict[str, list[Series]] = {}
    for one in series:
        by_case.setdefault(one.case_key, []).append(one)
    cases = list(by_case.values())
    order.shuffle(cases)
    return [one for case in cases for one in case]
