"""The rule of a verdict: from the log ratios of paired times to same, faster, slower or undecided.

A *pair* is one fresh process of each side, run one after the other on one GPU; its log ratio is
ln(head's median ÷ base's median), so above 0 the head is slower. Processes, not calls, are the samples: calls of
one process share its memory layout, its clocks and its luck, and a rule that counts them as independent calls
identical code different in 19 to 85 % of comparisons.

The statistic is Student's t interval of the mean log ratio. Pairing removes what both processes share (heat,
clocks, neighbours); logs make a change and its inverse the same size. The rule, fixed before anything is measured:

- Looks are taken at 5 and at 10 pairs and nowhere else, each with a 99.5 % interval. Looking twice at 0.5 % errs
  in at most 1 % (Bonferroni); looking after every pair would err ever more often.
- `same`: the interval lies inside ± 1 %. This is a finding (an equivalence test, Schuirmann's two one-sided
  tests), not the mere absence of a difference.
- `faster`, `slower`: the interval excludes "no change" and the estimate exceeds 0.5 %.
- `undecided`: anything else. Noise keeps a case undecided; it cannot make it different.

A suite of 200 cases at 1 % would still raise an alarm in 87 % of runs, so a `slower` counts only once ten fresh
pairs, at one look, are `slower` by themselves.

All functions take arrays whose last axis is the pairs; the axes before it are judged independently.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from results.statistics import t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

LOOKS = (5, 10)
"""The numbers of pairs at which a verdict may fall."""

CONFIRMING = 10
"""How many fresh pairs a `slower` is measured again in."""

CONFIDENCE = 0.995
"""Of each look's interval, and of the confirmation's."""

SAME_WITHIN = math.log1p(0.01)
"""± 1 %, as a log ratio: from 1/1.01 to 1.01, so that swapping the sides mirrors the verdict."""

LEAST_DIFFERENCE = math.log1p(0.005)
"""0.5 %, as a log ratio: a smaller difference is nobody's regression, however sure it is."""

MOST_NEEDED = 1000
"""Beyond so many runs, measuring on is no answer."""


class Verdict(StrEnum):
    """What a comparison found of the head, relative to the base."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    UNDECIDED = "undecided"
    INCOMPARABLE = "incomparable"


_WIDTH = f"<U{max(map(len, Verdict))}"
"""numpy's type of an array of verdicts."""


def log_ratios(base_s: ArrayLike, head_s: ArrayLike) -> NDArray[np.float64]:
    """ln(head ÷ base), elementwise, of times in seconds; NaN where one is not positive and finite."""
    base, head = np.asarray(base_s, dtype=np.float64), np.asarray(head_s, dtype=np.float64)
    with np.errstate(all="ignore"):
        ratios = np.log(head) - np.log(base)
    return np.where(_is_time(base) & _is_time(head), ratios, np.nan)


def interval(
    ratios: ArrayLike, resolution: ArrayLike = 0.0, confidence: float = CONFIDENCE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(centre, margin) of the mean log ratio: its t interval is centre ± margin.

    `resolution` is the timer's step ÷ the timed span, the larger of the two sides', one value or one for each
    comparison; the margin is widened by it once. One pair has an infinite margin, none has a NaN centre.
    """
    logs = np.asarray(ratios, dtype=np.float64)
    count = logs.shape[-1]
    if count == 0:
        return np.full(logs.shape[:-1], np.nan), np.full(logs.shape[:-1], np.inf)
    centre = logs.mean(axis=-1)
    if count == 1:
        return centre, np.full(centre.shape, np.inf)
    standard_error = logs.std(axis=-1, ddof=1) / math.sqrt(count)
    return centre, t_quantile(confidence, count - 1) * standard_error + widening(resolution)


def widening(resolution: ArrayLike) -> NDArray[np.float64]:
    """What a timer's step ÷ timed span adds to a margin in logs: −ln(1 − it), the most that one step can change.

    Two sides that a timer reads one step apart may be equal: −ln(1 − r) ≥ ln(1 + r) covers either direction. A step
    as long as the span itself leaves nothing known, and so does one that is NaN.
    """
    share = np.clip(np.nan_to_num(np.asarray(resolution, dtype=np.float64), nan=1.0), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log1p(-share))


def decide(centre: ArrayLike, margin: ArrayLike) -> NDArray[np.str_]:
    """The verdict of each interval centre ± margin, in logs; `undecided` where one of the two is not finite."""
    middle, half = np.asarray(centre, dtype=np.float64), np.asarray(margin, dtype=np.float64)
    middle = np.where(np.isfinite(middle) & np.isfinite(half), middle, np.nan)
    same = np.abs(middle) + half < SAME_WITHIN
    different = (np.abs(middle) > half) & (np.abs(middle) > LEAST_DIFFERENCE)
    # A difference of 0.5 to 1 % that is surely there is within ± 1 % too: below 1 % the answer is `same`.
    conditions = [same, different & (middle > 0), different]
    return np.select(conditions, [Verdict.SAME, Verdict.SLOWER, Verdict.FASTER], Verdict.UNDECIDED)


def judge(ratios: ArrayLike, resolution: ArrayLike = 0.0) -> NDArray[np.str_]:
    """The verdict after the looks that so many pairs allow, in the order they were measured.

    With fewer than five pairs nothing is judged; pairs between the looks, and beyond the last, are not looked at.
    A verdict of the first look stands.
    """
    logs = np.asarray(ratios, dtype=np.float64)
    verdicts = np.full(logs.shape[:-1], str(Verdict.UNDECIDED), dtype=_WIDTH)
    for pairs in LOOKS:
        if logs.shape[-1] >= pairs:
            found = decide(*interval(logs[..., :pairs], resolution))
            verdicts = np.where(verdicts == str(Verdict.UNDECIDED), found, verdicts)
    return verdicts


def confirmed(ratios: ArrayLike, resolution: ArrayLike = 0.0) -> NDArray[np.bool_]:
    """Whether the fresh pairs, none of which was judged before, are `slower` by themselves.

    Fewer than ten confirm nothing; beyond ten they are not looked at.
    """
    logs = np.asarray(ratios, dtype=np.float64)
    if logs.shape[-1] < CONFIRMING:
        return np.zeros(logs.shape[:-1], dtype=np.bool_)
    return np.asarray(decide(*interval(logs[..., :CONFIRMING], resolution)) == str(Verdict.SLOWER))


def needed(centre: float, margin_of: Callable[[int], float], fewest: int) -> int | None:
    """The smallest count of at least `fewest` whose margin would decide, if centre and spread stay as they are.

    `margin_of(count)` falls as the count grows. None: no count up to `MOST_NEEDED` would do.
    """
    limit = _deciding_margin(centre)
    if not margin_of(MOST_NEEDED) < limit:
        return None
    low, high = fewest, MOST_NEEDED
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if margin_of(middle) < limit else (middle + 1, high)
    return high


def _deciding_margin(centre: float) -> float:
    """Any margin below this one decides (`decide`) at this centre; 0 where none does, and where it is NaN."""
    size = abs(centre)
    return max(SAME_WITHIN - size, size if size > LEAST_DIFFERENCE else 0.0, 0.0) if size < math.inf else 0.0


def _is_time(times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(times_s) & (times_s > 0)
