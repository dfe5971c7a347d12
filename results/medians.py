"""What each replicate says of a case: one median per timing mode, the sample that comparisons are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from results.record import newest, relative_resolution

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.schema import Case, Trial


@dataclass(frozen=True, slots=True)
class Median:
    """A process's median time per call, and its timer's step as a share of what one sample timed."""

    value_s: float
    resolution: float

    @property
    def is_time(self) -> bool:
        """Whether it is positive and finite: a timer that steps backwards can read anything."""
        return math.isfinite(self.value_s) and self.value_s > 0


Medians: TypeAlias = dict[str, dict[int, Median]]
"""timing mode → replicate → median."""


def medians(trials: Iterable[Trial]) -> dict[Case, Medians]:
    """The medians of every case with a trial; a mode or a replicate without samples is not there."""
    found: dict[Case, Medians] = {}
    for trial in newest(trials):
        of_case = found.setdefault(trial.case, {})
        for mode, timing in trial.timings.items():
            if timing.used_s:
                value = Median(median(timing.used_s), relative_resolution(timing))
                of_case.setdefault(mode, {})[trial.replicate] = value
    return found


def why_no_time(side: str, times: Iterable[Median]) -> str | None:
    """What is wrong with the first of these that is no time; None where all are."""
    wrong = next((one for one in times if not one.is_time), None)
    return f"{side} has a median of {wrong.value_s} s, which is not a time" if wrong else None
