"""The rules that parts of claims are judged by: an interval against a margin, a count against what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Answer, Number, Part, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.claims.claim import Cases
    from results.claims.evidence import Evidence, Named


def above(found: Number | str, limit: float, about: str, holds: str, fails: str) -> Part:
    """A part that holds where the whole interval lies above the limit, and fails where it lies below."""
    rule = f"{about}: above {shown(limit, found)}"
    if isinstance(found, str):
        return Part(about, Answer.MISSING, rule, reason=found)
    low, high = _bounds(found)
    if low > limit:
        return Part(holds, Answer.HOLDS, rule, found)
    if high < limit:
        return Part(fails, Answer.FAILS, rule, found)
    unsure = f"the interval holds the margin of {shown(limit, found)}"
    return Part(f"{about}: {{}}", Answer.UNDECIDED, rule, found, unsure)


def within(found: Number | str, low: float, high: float, about: str, holds: str, fails: str) -> Part:
    """A part that holds where the whole interval lies between these, and fails where it lies outside."""
    rule = f"{about}: between {shown(low, found)} and {shown(high, found)}"
    if isinstance(found, str):
        return Part(about, Answer.MISSING, rule, reason=found)
    least, most = _bounds(found)
    if low <= least and most <= high:
        return Part(holds, Answer.HOLDS, rule, found)
    if most < low or high < least:
        return Part(fails, Answer.FAILS, rule, found)
    return Part(f"{about}: {{}}", Answer.UNDECIDED, rule, found, "the interval holds a margin")


def exactly(count: float | None, due: float, about: str, holds: str, fails: str, reason: str = "") -> Part:
    """A part that holds where the count is what is due."""
    rule = f"{about}: exactly {due:,g}"
    if count is None:
        return Part(about, Answer.MISSING, rule, reason=reason or "it was not counted")
    number = Number(count, Unit.COUNT)
    if count == due:
        return Part(holds, Answer.HOLDS, rule, number)
    return Part(fails, Answer.FAILS, rule, number)


def missing(about: str, reason: str) -> Part:
    """A part for which nothing was measured."""
    return Part(about, Answer.MISSING, about, reason=reason)


def not_in_run(
    evidence: Evidence, about: str, needs: Sequence[Named], cases: Cases, d_model: int | None = None,
    n_head: int | None = None,
) -> Part:  # fmt: skip
    """A part whose cases the run lacks, with how they ended, or the command that measures them."""
    heads = "" if n_head is None else f" with {n_head} head{'s' if n_head > 1 else ''}"
    at = "" if d_model is None else f" at d_model {d_model}{heads}"
    names = " and ".join("/".join(one) for one in needs)
    lacking = f"the run does not have {names}{at}; {cases.command()} measures it"
    return missing(about, evidence.why_left_out(needs, d_model, n_head) or lacking)


def shown(limit: float, like: Number | str) -> str:
    """The limit in the unit of the number it is held against."""
    unit = Unit.TIMES if isinstance(like, str) else like.unit
    return {
        Unit.TIMES: f"{limit:g} ×",
        Unit.SHARE: f"{100 * limit:g} %",
        Unit.COUNT: f"{limit:g}",
        Unit.NATS: f"{limit:g} nats",
    }[unit]


def _bounds(number: Number) -> tuple[float, float]:
    low = number.value if number.low is None else number.low
    return low, number.value if number.high is None else number.high
