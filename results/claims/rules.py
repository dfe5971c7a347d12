"""The rules that parts of claims are judged by: an interval against a margin, a count against what is due."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.claims.claim import Answer, Number, Part, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.evidence import Evidence, Named


@dataclass(frozen=True, slots=True)
class Statement:
    """What is asked: `about` what, and what is said where it `holds` or `fails`, `{}` in it the number's place.

    What `holds` says is true of the number whatever it is, so that it is said where nothing is decided, too.

    `at` is the shape it is asked of, in words, `of` the variant where several are asked. Statements of one kind share
    what they are about.
    """

    about: str
    holds: str
    fails: str
    at: str = ""
    of: str = ""


def above(found: Number | str, limit: float, asked: Statement) -> Part:
    """A part that holds where the whole interval lies above the limit, and fails where it lies below."""
    return _judged(found, limit, math.inf, asked, f"above {_limit(limit, found)}")


def below(found: Number | str, limit: float, asked: Statement) -> Part:
    """A part that holds where the whole interval lies below the limit, and fails where it lies above."""
    return _judged(found, -math.inf, limit, asked, f"below {_limit(limit, found)}")


def within(found: Number | str, low: float, high: float, asked: Statement) -> Part:
    """A part that holds where the whole interval lies between these, and fails where it lies outside."""
    return _judged(found, low, high, asked, f"{_limit(low, found)} to {_limit(high, found)}")


def at_least(found: int, due: int, asked: Statement) -> Part:
    """A part that holds where a whole count is what is due or more; it has no interval."""
    return _judged(Number(found, Unit.COUNT), due - 1, math.inf, asked, f"at least {due:,}")


def exactly(found: float | str, due: int, asked: Statement) -> Part:
    """A part that holds where a count, or a derivative, is what is due; it has no interval."""
    margin = f"exactly {due:,}"
    if isinstance(found, str):
        return missing(asked, found, margin)
    answer = Answer.HOLDS if found == due else Answer.FAILS
    says = asked.holds if found == due else asked.fails
    return Part(asked.about, asked.at, says, answer, margin, Number(found, Unit.COUNT))


def missing(asked: Statement, reason: str, margin: str = "") -> Part:
    """A part for which nothing was measured."""
    says = f"{asked.about}, of {asked.of}" if asked.of else asked.about
    return Part(asked.about, asked.at, says, Answer.MISSING, margin, reason=reason)


def unasked(about: str, reason: str) -> Part:
    """A part for which nothing was measured at any shape."""
    return missing(Statement(about, about, about), reason)


def not_in_run(
    evidence: Evidence,
    about: str,
    needs: Sequence[Named],
    d_model: int | None = None,
    n_head: int | None = None,
) -> Part:
    """A part whose cases the run lacks, or with how they ended."""
    heads = "" if n_head is None else f" with {n_head} head{'s' if n_head > 1 else ''}"
    at = "" if d_model is None else f" at d_model {d_model}{heads}"
    lacking = f"the run does not have {' and '.join('/'.join(one) for one in needs)}{at}"
    why = evidence.why_left_out(needs, d_model, n_head) or evidence.why_not_forward(needs, d_model, n_head)
    return unasked(about, why or lacking)


def _judged(found: Number | str, low: float, high: float, asked: Statement, margin: str) -> Part:
    if isinstance(found, str):
        return missing(asked, found, margin)
    exact = found.low is None or found.high is None
    least = found.value if found.low is None else found.low
    most = found.value if found.high is None else found.high
    if low < least and most < high:
        return Part(asked.about, asked.at, asked.holds, Answer.HOLDS, margin, found)
    if exact or most < low or high < least:
        return Part(asked.about, asked.at, asked.fails, Answer.FAILS, margin, found)
    unsure = "its interval straddles the margin"
    return Part(asked.about, asked.at, asked.holds, Answer.UNDECIDED, margin, found, unsure)


def _limit(limit: float, like: Number | str) -> str:
    """The limit in the unit of the number it is held against."""
    unit = Unit.TIMES if isinstance(like, str) else like.unit
    return {
        Unit.TIMES: f"{limit:.3g} ×",
        Unit.SHARE: f"{100 * limit:g} %",
        Unit.COUNT: f"{limit:g}",
    }[unit]
