"""What a session of the same code on both sides tells of the machine: false alarms, and what it could have found.

- The **false-alarm rate** is the share of comparisons whose looks called identical code different. The rule promises
  at most 1 % each. Its interval is Clopper's and Pearson's (Biometrika 26, 1934), which is exact for independent
  comparisons; those of one session share its processes, so the true one is somewhat wider.
- The **smallest change found** is the true slowdown that a look at ten pairs, as noisy as these, calls `slower` in
  95 % of sessions: found by trying the rule itself on simulated pairs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from results.schema import MODES
from results.verdict import LOOKS, SAME_WITHIN, Verdict, decide, interval, widening

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from results.paired import PairedRuns
    from results.paired_case import PairedCase, Pairs

POWER = 0.95
"""How often a change must be found to count as one that could be found."""

SESSIONS = 4000
"""Simulated ones: a power of 95 % is then known to ± 0.7 %."""

STEPS = 20
"""Halvings of the range that holds the answer: far finer than the simulation."""

LARGEST = 10.0
"""ln of a change of 2,200,000 %: who could find nothing smaller can find nothing."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `total`, and the interval in which the true share lies with 95 %."""

    count: int
    total: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The smallest changes that ten pairs would have found in one mode, as shares: 0.01 is 1 %.

    `median` and `worst` are over its cases; infinite where nothing could have been found.
    """

    mode: str
    guarded: bool
    cases: int
    median: float
    worst: float


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """A machine's own false alarms over the guarded modes, and what it can find in each mode.

    `confirmed` are the alarms left after confirmation: each of them would have failed a CI.
    """

    false_alarms: Rate
    confirmed: Rate
    sensitivity: tuple[Sensitivity, ...]


def self_check(session: PairedRuns) -> SelfCheck:
    """What this session, whose sides are the same code, says of the machine it was measured on."""
    cases = session.cases()
    verdicts = [
        pair.verdict(mode)
        for pair in cases
        for mode in session.guarded
        if len(pair.looked_at(mode)) >= LOOKS[0]
    ]
    alarms = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    return SelfCheck(
        false_alarms=rate(alarms, len(verdicts)),
        confirmed=rate(len(session.comparisons().regressions), len(verdicts)),
        sensitivity=tuple(_sensitivity(cases, session.guarded)),
    )


def rate(count: int, total: int, confidence: float = 0.95) -> Rate:
    """`count` of `total` with its Clopper–Pearson interval: every share that does not make it improbable.

    Raises:
        ValueError: `count` is not between 0 and `total`.
    """
    if not 0 <= count <= total:
        raise ValueError(f"{count} of {total} is no share")
    from scipy.special import betaincinv  # takes most of a second to import

    tail = (1 - confidence) / 2
    low = float(betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0
    return Rate(count, total, low, high)


def smallest_found(spread: float, wider: float = 0.0) -> float:
    """The share by which a head must be slower for ten pairs to find it in 95 % of sessions; maybe infinite.

    `spread` is the standard deviation of a pair's log ratio, `wider` what the timer's step adds to the interval.
    """
    low, high = 0.0, SAME_WITHIN
    while _found(high, spread, wider) < POWER:
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _found(middle, spread, wider) >= POWER else (middle, high)
    return math.expm1(high)


def _found(change: float, spread: float, wider: float) -> float:
    """How often a look at ten pairs calls a true `change` (in logs) slower."""
    centres, margins = _standard_looks()
    found = decide(change + spread * centres, spread * margins + wider)
    return float((found == str(Verdict.SLOWER)).mean())


@cache
def _standard_looks() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The intervals of simulated looks at ten standard normal pairs; any other spread scales them."""
    return interval(np.random.default_rng(0).standard_normal((SESSIONS, LOOKS[-1])))


def _sensitivity(cases: list[PairedCase], guarded: tuple[str, ...]) -> list[Sensitivity]:
    found: dict[str, list[float]] = defaultdict(list)
    for pair in cases:
        for mode in MODES:
            pairs = pair.looked_at(mode)
            if len(pairs) >= LOOKS[0] and not pairs.nonsense:
                found[mode].append(_of_pairs(pairs))
    return [
        Sensitivity(mode, mode in guarded, len(known), median(known), max(known))
        for mode, known in found.items()
    ]


def _of_pairs(pairs: Pairs) -> float:
    return smallest_found(float(pairs.ratios.std(ddof=1)), float(widening(pairs.resolution)))
