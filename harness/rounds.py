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
"""A series' time is shared out over at least so many blocks."""
PRECISE_BLOCKS = 3
"""A median is called known only when so many blocks, other cases in between, agree on it."""
LONGEST_BLOCK_S = 2.0
"""Also a sign of life: the parent hears of every block."""
WARMUP_SAMPLES = 2
FEWEST_SAMPLES = 3
"""A case keeps at least so many samples however small the budget: samples shrink before cases do."""
SAMPLES_TO_JUDGE = 10
MOST_SAMPLES = 1000
PRECISE = 0.005
"""A mode ends when its own median is known to half a percent either way (95 %)."""
STOPS_WHEN_PRECISE = ("isolated", "graph")
FIXED_SAMPLES = 50
"""The share of a mode that does not stop when precise: `eager` is steady within a process and differs between
processes, so that more of it in one process says nothing more."""


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
        """One more sample; rounded to 0.1 ns, far below any clock's step, to keep stored runs small."""
        sample = self.bracket.sample()
        if sample.flag:
            self.flags.setdefault(sample.flag, []).append(len(self.spans_s))
        self.spans_s.append(round(sample.span_s, 10))

    def is_precise(self) -> bool:
        """Whether the median is known; only looked at every so many samples."""
        due = self.mode in STOPS_WHEN_PRECISE and len(self.used) % SAMPLES_TO_JUDGE == 0
        return due and relative_half_width(self.used) <= PRECISE

    def end_block(self, samples: int, sm_clock_mhz: float | None) -> None:
        """Note the block, and stop when the answer is known or the stored series would grow without bound."""
        self.block_samples.append(samples)
        self.sm_clock_mhz.append(sm_clock_mhz)
        if len(self.block_samples) >= PRECISE_BLOCKS and self.is_precise():
            self.stopped = "precise"
        elif self.mode not in STOPS_WHEN_PRECISE and len(self.used) >= FIXED_SAMPLES:
            self.stopped = "share spent"
        elif len(self.used) >= MOST_SAMPLES:
            self.stopped = "limit"

    @property
    def most_in_a_block(self) -> int:
        """So few that a series which ends by number comes from every round, and never more than are to come."""
        most = MOST_SAMPLES if self.mode in STOPS_WHEN_PRECISE else FIXED_SAMPLES
        return min(most // ROUNDS, most - len(self.used))

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

    `before_block` is told the series about to be sampled; at the end of each block `sm_clock_mhz` is read, then
    `after_block` may raise to give up the case in hand.
    """

    clock: Callable[[], float]
    before_block: Callable[[Series], None]
    after_block: Callable[[], None]
    sm_clock_mhz: Callable[[], float | None]


def measure(series: Sequence[Series], seconds: float, order: random.Random, around: Surroundings) -> None:
    """Fill the series within about `seconds`: a block of each in every round, the cases in a fresh order each time."""
    deadline = around.clock() + seconds
    rounds_done = 0
    while running := [one for one in series if one.stopped is None]:
        if rounds_done and around.clock() >= deadline:
            break
        rounds_left = max(ROUNDS - rounds_done, 1)
        for position, one in enumerate(_shuffled_by_case(running, order)):
            blocks_left = len(running) * rounds_left - position
            share = (deadline - around.clock()) / blocks_left
            if share > 0 or len(one.used) < FEWEST_SAMPLES:
                _sample_block(one, min(share, LONGEST_BLOCK_S), around)
        rounds_done += 1
    for one in series:
        one.stopped = one.stopped or "share spent"


def _sample_block(one: Series, seconds: float, around: Surroundings) -> None:
    around.before_block(one)
    taken_before = len(one.spans_s)
    if not one.spans_s:
        for _ in range(WARMUP_SAMPLES):
            one.take()
    end = around.clock() + seconds
    for _ in range(one.most_in_a_block):
        one.take()
        out_of_time = around.clock() >= end and len(one.used) >= FEWEST_SAMPLES
        if out_of_time or one.is_precise():
            break
    one.end_block(len(one.spans_s) - taken_before, around.sm_clock_mhz())
    around.after_block()


def _shuffled_by_case(series: list[Series], order: random.Random) -> list[Series]:
    """Cases in a random order, the modes of one case next to each other: all meet the same clocks and heat."""
    by_case: dict[str, list[Series]] = {}
    for one in series:
        by_case.setdefault(one.case_key, []).append(one)
    cases = list(by_case.values())
    order.shuffle(cases)
    return [one for case in cases for one in case]
