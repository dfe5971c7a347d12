"""One case of `compare`: what the runs of both sides say of it, and the row that they support.

The statistic is Welch's t interval of the difference of mean logs, at 99 %: there is a single look. It decides as an
`ab`'s interval does (`results.verdict.decide`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from results import welch
from results.comparison import Comparison, bounds, timer_limits
from results.medians import why_no_time
from results.schema import MODES, Outcome
from results.verdict import Verdict, decide, widening
from results.words import counted, ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.medians import Median, Medians
    from results.record import Record
    from results.schema import Case

CONFIDENCE = 0.99

LEAST_RUNS = 3
"""Of each side; fewer say nothing of how much runs differ."""


@dataclass(frozen=True)
class InRun:
    """One case in one run: its record and its medians."""

    record: Record
    times: Medians

    @property
    def case(self) -> Case:
        """The case itself."""
        return self.record.case


@dataclass(frozen=True)
class UnpairedCase:
    """One case on both sides, at least one run each. `unit` is what a sample is: "runs" or "processes"."""

    base: tuple[InRun, ...]
    head: tuple[InRun, ...]
    unit: str

    @property
    def case(self) -> Case:
        """The case, as base has it."""
        return self.base[0].case

    @property
    def untried(self) -> bool:
        """Whether neither side could run it at all."""
        outcomes = (one.record.outcome for one in (*self.base, *self.head))
        return all(outcome is not None and outcome.never_tried for outcome in outcomes)

    @property
    def failed(self) -> bool:
        """Whether it was incorrect, crashed or timed out in any run of the head."""
        outcomes = (one.record.outcome for one in self.head)
        return any(outcome is not None and outcome.failed for outcome in outcomes)

    def rows(self, differing: str) -> list[Comparison]:
        """A row for each mode that a side was timed in; incomparable ones where `differing` says why."""
        why = differing or self._not_ok()
        modes = [mode for mode in MODES if any(mode in one.times for one in (*self.base, *self.head))]
        case = self.case
        if why:
            return [
                Comparison(case, mode, False, Verdict.INCOMPARABLE, reason=why) for mode in modes or MODES[:1]
            ]
        return [self._row(case, mode) for mode in modes]

    def _not_ok(self) -> str | None:
        for side, seen in (("base", self.base), ("head", self.head)):
            bad = [one.record for one in seen if one.record.outcome not in (Outcome.OK, None)]
            if bad:
                return f"{side} is {ended(bad[0])}"
            if not any(one.times for one in seen):
                return f"{side} is not measured"
        return None

    def _row(self, case: Case, mode: str) -> Comparison:
        base, head = (_samples(seen, mode, self.unit) for seen in (self.base, self.head))
        for side, found, seen in (("base", base, self.base), ("head", head, self.head)):
            why = _why_no_samples(side, found, seen, mode)
            if why:
                return Comparison(case, mode, False, Verdict.INCOMPARABLE, reason=why)
        logs = [[fmean(math.log(one.value_s) for one in sample) for sample in side] for side in (base, head)]
        resolution = max(one.resolution for side in (base, head) for sample in side for one in sample)
        wider = float(widening(resolution))
        centre, margin = welch.interval(logs[0], logs[1], CONFIDENCE, wider)
        verdict, why = self._judged(centre, margin, resolution, len(base), len(head))
        return Comparison(
            case,
            mode,
            False,
            verdict,
            *bounds(centre, margin, CONFIDENCE),
            base_s=math.exp(fmean(logs[0])),
            head_s=math.exp(fmean(logs[1])),
            base_count=len(base),
            head_count=len(head),
            reason=why,
            needed=welch.samples_needed(logs[0], logs[1], CONFIDENCE, wider, LEAST_RUNS)
            if verdict is Verdict.UNDECIDED and self.unit == "runs"
            else None,
        )

    def _judged(
        self, centre: float, margin: float, resolution: float, base: int, head: int
    ) -> tuple[Verdict, str | None]:
        """The verdict, and why there is none."""
        if self.unit != "runs" or min(base, head) < LEAST_RUNS:
            runs = [sum(bool(one.times) for one in side) for side in (self.base, self.head)]
            told = f"{counted(runs[0], 'run')} against {runs[1]}"
            return Verdict.UNDECIDED, f"{told}: {LEAST_RUNS} a side would be judged"
        verdict = Verdict(str(decide(centre, margin)))
        if verdict is not Verdict.UNDECIDED:
            return verdict, None
        told = f"too noisy for {base} runs against {head}"
        return verdict, timer_limits(centre, margin, resolution) or told


def _samples(seen: Sequence[InRun], mode: str, unit: str) -> list[list[Median]]:
    """The medians behind each sample: all of a run's processes together, or each process by itself."""
    of_runs = [list(one.times[mode].values()) for one in seen if one.times.get(mode)]
    return of_runs if unit == "runs" else [[one] for of_run in of_runs for one in of_run]


def _why_no_samples(
    side: str, samples: Sequence[Sequence[Median]], seen: Sequence[InRun], mode: str
) -> str | None:
    if samples:
        return why_no_time(side, (one for sample in samples for one in sample))
    said = (one.record.mode_reasons[mode] for one in seen if mode in one.record.mode_reasons)
    return f"{side} has no {mode} time: {next(said, 'it was not measured')}"
