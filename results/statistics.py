"""What samples say: a process's median, the estimate over fresh processes, and how well each is known.

Pure functions of times in seconds. Samples of one process only bound that process's own median; the
unit of an estimate is the process, because medians of the same code move between processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, fmean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY_DEGREES = 300
"""Beyond so many degrees of freedom the expansion is exact to ten digits, and much faster than the sums."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A time over replicates: their geometric mean and the interval it lies in (None from one replicate).

    `samples` counts the samples behind it; `within_spread` is the replicates' median of IQR ÷ median, what a
    single process scatters by.
    """

    value_s: float
    low_s: float | None
    high_s: float | None
    replicates: int
    samples: int = 0
    within_spread: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the interval as a share of the value; None where there is no interval."""
        if self.low_s is None or self.high_s is None or self.value_s <= 0:
            return None
        return (self.high_s - self.low_s) / 2 / self.value_s


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Two samples that enclose the true median with at least this confidence, whatever the distribution.

    Fewer samples than the confidence needs (6 for 95 %) give their minimum and maximum, which enclose it
    with less: 1 − 2 / 2ⁿ, 75 % for three samples, 94 % for five.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError("no samples: a median needs at least one")
    ordered = sorted(samples)
    rank = _lower_rank(len(ordered), confidence)
    return ordered[rank], ordered[-1 - rank]


def relative_half_width(samples: Sequence[float]) -> float:
    """Half the median's 95 % interval, relative to the median; below six samples half their range.

    With so few it covers less than 95 %, as `median_interval` says: a stopping rule waits for more.

    Infinite where nothing is known yet: below two samples, or at a median of zero.
    """
    if len(samples) < 2:
        return math.inf
    ordered = sorted(samples)  # sorting again what is sorted is cheap, and this runs inside the sampling loop
    middle = median(ordered)
    low, high = median_interval(ordered)
    return (high - low) / 2 / middle if middle > 0 else math.inf


def mean_half_width(values: Sequence[float], confidence: float = 0.95) -> float:
    """Half the t interval of the mean, relative to the mean; 0 below two values, which tell no scatter.

    Infinite at a mean that is not above zero.
    """
    if len(values) < 2:
        return 0.0
    centre = fmean(values)
    margin = t_quantile(confidence, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return margin / centre if centre > 0 else math.inf


def estimate(
    medians: Sequence[float], relative_resolution: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """The geometric mean of the replicates' medians, with a t interval on their logs.

    The timer can be wrong by `relative_resolution` (its step ÷ the timed span) on either side, so the
    interval is widened by that. One replicate has no interval.

    Raises:
        ValueError: there is no median, or one is not a positive finite time.
    """
    if not medians:
        raise ValueError("no medians: an estimate needs at least one replicate")
    logs = [math.log(_positive(one)) for one in medians]
    centre, count = fmean(logs), len(logs)
    value_s = math.exp(centre)
    if count == 1:
        return Estimate(value_s, None, None, replicates=1)
    margin = t_quantile(confidence, count - 1) * stdev(logs) / math.sqrt(count)
    # Two medians orders of magnitude apart give a margin that overflows exp: e^700 s is as good as unbounded.
    low_s = value_s * math.exp(-margin) * (1 - min(relative_resolution, 1.0))
    high_s = value_s * math.exp(min(margin, 700.0)) * (1 + relative_resolution)
    return Estimate(value_s, min(low_s, value_s), max(high_s, value_s), replicates=count)


def pooled(replicates: Sequence[Sequence[float]], relative_resolution: float = 0.0) -> Estimate:
    """The estimate from each replicate's own samples, with their number and their spread within a process.

    Raises:
        ValueError: a replicate has no samples, or its median is not a positive finite time.
    """
    known = estimate([median(samples) for samples in replicates], relative_resolution)
    return replace(
        known,
        samples=sum(map(len, replicates)),
        within_spread=median(relative_iqr(samples) for samples in replicates),
    )


def relative_iqr(samples: Sequence[float]) -> float:
    """The distance between the quartiles (linear between samples), relative to the median."""
    ordered = sorted(samples)
    return (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / _quantile(ordered, 0.5)


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _positive(time_s: float) -> float:
    if not (math.isfinite(time_s) and time_s > 0):
        raise ValueError(f"{time_s} s is not a time: a median is positive and finite")
    return time_s


@lru_cache(maxsize=4096)
def _lower_rank(count: int, confidence: float) -> int:
    """The largest 0-based rank r with P(Binomial(count, ½) ≤ r) ≤ (1 − confidence) / 2, or 0.

    Exact, yet cheap enough for a loop that asks after every sample: terms further than ten standard
    deviations from the mean (below 1e-22) are left out.
    """
    allowed = (1 - confidence) / 2
    start = max(0, math.floor(count / 2 - 5 * math.sqrt(count)))
    below = 0.0
    for successes in range(start, count // 2 + 1):
        below += math.exp(_log_binomial(count, successes) - count * math.log(2))
        if below > allowed:
            return max(successes - 1, 0)
    return max(count // 2 - 1, 0)


def _log_binomial(count: int, successes: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: int) -> float:
    """The t for which a Student variable of so many degrees of freedom, a whole number, lies within ±t.

    Solved by bisection of the angle atan(t / √degrees). SciPy has it too, but its import alone would take most of
    the time in which a report should be on the screen.
    """
    if degrees > MANY_DEGREES:
        return _t_expansion(NormalDist().inv_cdf((1 + confidence) / 2), degrees)
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """P(|T| ≤ √degrees · tan(angle)): the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = (cosine if degrees > 1 else 0.0) if odd else 1.0
    for power in range(2 + odd, degrees - 1, 2):
        term *= cosine**2 * (power - 1) / power
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _t_expansion(z: float, degrees: int) -> float:
    """Student's quantile from the normal one: four terms of Abramowitz and Stegun, 26.7.5."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))
