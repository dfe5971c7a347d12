"""Every sample that a time is made of, by replicate, warm-ups left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.record import newest
from results.schema import MODES, Outcome

if TYPE_CHECKING:
    from reports.content import Report
    from results.run import Run
    from results.schema import Case


@dataclass(frozen=True, slots=True)
class Strip:
    """One case's samples in one mode and one replicate, seconds per call, in the order they were taken."""

    case: Case
    mode: str
    replicate: int
    samples_s: tuple[float, ...]


def strips(report: Report, run: Run) -> tuple[Strip, ...]:
    """Of every case that is ok, by case in the order of the report's tables, then by mode and replicate."""
    trials: dict[Case, list[Strip]] = {}
    for mode in MODES:
        for trial in newest(run.trials):
            timing = trial.timings.get(mode)
            if timing and timing.used_s:
                strip = Strip(trial.case, mode, trial.replicate, timing.used_s)
                trials.setdefault(trial.case, []).append(strip)
    shown = [row.record.case for row in report.rows if row.outcome is Outcome.OK]
    return tuple(strip for case in shown for strip in trials.get(case, ()))
