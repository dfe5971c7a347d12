"""Two cases of one run against each other: paired by replicate, for a replicate is one process that measured both.

What both owe to that process (heat, clocks, neighbours) falls out of their ratio, so its interval is narrower than
what the two times' own intervals allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.medians import why_no_time
from results.verdict import interval, log_ratios
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from results.medians import Median

CONFIDENCE = 0.95
"""Of a ratio's interval, as of every time that is shown."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A geometric mean of the replicates' ratios and the interval it lies in; from one replicate there is none."""

    value: float
    low: float | None
    high: float | None
    replicates: int


def ratio(over: Mapping[int, Median], under: Mapping[int, Median]) -> Ratio | str:
    """Time ÷ time, by the replicates that have both; or in words why there is none."""
    shared = sorted(set(over) & set(under))
    if not shared:
        return "no replicate has measured both"
    every = [of[replicate] for of in (over, under) for replicate in shared]
    if wrong := why_no_time(counted(len(shared), "replicate"), every):
        return wrong
    above, below = ([of[replicate].value_s for replicate in shared] for of in (over, under))
    resolution = max(one.resolution for one in every)
    centre, margin = (float(one) for one in interval(log_ratios(below, above), resolution, CONFIDENCE))
    if not math.isfinite(margin):
        return Ratio(_exp(centre), None, None, len(shared))
    return Ratio(_exp(centre), _exp(centre - margin), _exp(centre + margin), len(shared))


def _exp(log: float) -> float:
    """e to this power; beyond what a float holds it is as good as unbounded."""
    return math.exp(min(log, 700.0))
