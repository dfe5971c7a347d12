"""What identical sides tell of a machine, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from results.verdict import CONFIDENCE, LOOKS
from results.words import exact_percent, percent

if TYPE_CHECKING:
    from results.self_check import Rate, SelfCheck

PROMISED = len(LOOKS) * (1 - CONFIDENCE)
"""The share of false alarms that the rule allows itself (Bonferroni)."""


def sentences(of: SelfCheck) -> list[str]:
    """A line each for what was called different, what that would have failed, and what each mode can find."""
    alarms = of.false_alarms
    if not alarms.total:
        return [f"self-check: no comparison has the {LOOKS[0]} pairs that a verdict takes"]
    told = [
        f"self-check: identical code called different in {_rate(alarms)}; the rule promises at most "
        f"{exact_percent(PROMISED)}",
        f"self-check: called slower and confirmed, as would fail a CI, in {_rate(of.confirmed)}",
    ]
    for mode in of.sensitivity:
        guarded = "" if mode.guarded else " (not guarded)"
        told.append(
            f"self-check: {mode.mode}{guarded}: {LOOKS[-1]} pairs find a slowdown of {_size(mode.median)} "
            f"in half of the cases, of {_size(mode.worst)} in the noisiest"
        )
    return told


def _rate(of: Rate) -> str:
    return (
        f"{of.count:,} of {of.total:,} comparisons, {percent(of.count / of.total)} "
        f"(95 % interval {100 * of.low:.1f} to {percent(of.high)})"
    )


def _size(change: float) -> str:
    return percent(change) if math.isfinite(change) else "no finite size"
