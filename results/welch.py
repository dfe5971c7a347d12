"""Welch's t interval of a difference of two means whose samples are not paired and scatter differently.

B. L. Welch, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34 (1947). The degrees of freedom are rounded down, as printed tables have it: the interval is then a
little wider than it need be, never narrower.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from results.statistics import t_quantile
from results.verdict import needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def interval(
    base: Sequence[float], head: Sequence[float], confidence: float, wider: float = 0.0
) -> tuple[float, float]:
    """(centre, margin) of mean(head) − mean(base), both in logs; the margin is widened by `wider`.

    The margin is infinite where a side has a single sample, and only `wider` where neither side scatters. Samples
    that are not finite, or whose sums overflow, have a centre of NaN or an infinite margin: nothing is known then.

    Raises:
        ValueError: a side has no sample.
    """
    if not base or not head:
        raise ValueError("no samples: a difference needs at least one on each side")
    centre = _mean(head) - _mean(base)
    if min(len(base), len(head)) < 2:
        return centre, math.inf
    return centre, _margin(_variance(base), len(base), _variance(head), len(head), confidence) + wider


def samples_needed(
    base: Sequence[float], head: Sequence[float], confidence: float, wider: float, fewest: int
) -> int | None:
    """How many samples a side would decide (`results.verdict.decide`), if means and variances stay; None: unknown.

    With one sample on a side its variance is unknown, and so is the answer; so it is beyond a thousand.
    """
    if min(len(base), len(head)) < 2:
        return None
    spreads = _variance(base), _variance(head)
    return needed(
        _mean(head) - _mean(base),
        lambda count: _margin(spreads[0], count, spreads[1], count, confidence) + wider,
        fewest,
    )


def _margin(base: float, base_count: int, head: float, head_count: int, confidence: float) -> float:
    of_base, of_head = base / base_count, head / head_count
    squared_error = of_base + of_head
    if not math.isfinite(squared_error):
        return math.inf
    # Shares of the larger of the two: a variance of 1e-200 squared would be 0.
    largest = max(of_base, of_head)
    if largest == 0:
        return 0.0
    one, other = of_base / largest, of_head / largest
    degrees = (one + other) ** 2 / (one**2 / (base_count - 1) + other**2 / (head_count - 1))
    whole = max(1, math.floor(degrees * (1 + 1e-9)))  # 4 degrees may come out as 3.9999999999999996
    return t_quantile(confidence, whole) * math.sqrt(squared_error)


def _variance(samples: Sequence[float]) -> float:
    """Of at least two samples. The standard library's is exact to the last digit, and a hundred times slower."""
    centre = _mean(samples)
    if min(samples) == max(samples):
        return 0.0  # equal samples can have a mean that is off by a rounding
    return _sum((one - centre) * (one - centre) for one in samples) / (len(samples) - 1)


def _mean(samples: Sequence[float]) -> float:
    return _sum(samples) / len(samples)


def _sum(numbers: Iterable[float]) -> float:
    """NaN where the sum overflows, or holds both infinities."""
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return math.nan
