"""What a comparison says, as content: one sentence, counts, a table with what changed first, reasons gathered.

Renderers turn it into text for a terminal or Markdown and add nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.columns import Column, Grid, Line, short_title
from reports.text import MISSING, listing, plain, shorten
from results.schema import MODES
from results.unpaired_case import CONFIDENCE as UNPAIRED_CONFIDENCE
from results.verdict import CONFIDENCE, CONFIRMING, LEAST_DIFFERENCE, LOOKS, SAME_WITHIN, Verdict
from results.words import counted, exact_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.comparison import Comparison, Comparisons
    from results.schema import Case

ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNDECIDED, Verdict.SAME)
"""What a table begins with: what changed, then what may have. Incomparable rows are told in words."""

WIDEST = 100
"""An interval's bounds are told up to so many times as slow or as fast: beyond, it says next to nothing."""

NAMED = 5
"""A reason that holds for more cases than this names so many of them, and counts the rest."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All that is shown of a comparison.

    `alarm` is the sentence's emphasis: "regression", "failed", "undecided" or "fine". `counts` holds a mode with
    the number of its rows of each verdict. `table` has the comparable rows, what changed first, `changed` those
    that are slower, faster or undecided. `reasons` and `listed` are sentences.
    """

    title: str
    method: str
    sentence: str
    alarm: str
    notes: tuple[str, ...]
    counts: tuple[tuple[str, str], ...]
    table: Grid[Comparison]
    changed: Grid[Comparison]
    reasons: tuple[str, ...]
    listed: tuple[str, ...]


def from_comparisons(of: Comparisons) -> Verdicts:
    """The content of an `ab` or a `compare`, complete or not."""
    compared = in_order(of)
    grid = _grid_of(of, [row.case for row in compared])
    sentence, alarm = _sentence(of)
    return Verdicts(
        title=f"{shorten(of.base, 80)} → {shorten(of.head, 80)}",
        method=_method(of),
        sentence=sentence,
        alarm=alarm,
        notes=tuple(map(shorten, of.notes)),
        counts=tuple(_counts(of)),
        table=grid(compared),
        changed=grid([row for row in compared if row.verdict is not Verdict.SAME]),
        reasons=tuple(_reasons(of)),
        listed=tuple(_listed(of)),
    )


def in_order(of: Comparisons) -> list[Comparison]:
    """The rows that could be compared, what changed first."""
    return sorted((row for row in of.rows if row.verdict in ORDER), key=_order)


def titles_of(of: Comparisons) -> dict[str, str]:
    """The title of each group that could be compared: its stage, and of its shape what differs."""
    return _titles([row.case for row in in_order(of)])


def change(ratio: float | None) -> str:
    """`+3.02 %`, `-12.4 %`; from twice or half the time on the ratio itself, `2.31 ×`."""
    if ratio is None:
        return MISSING
    if not 0.5 < ratio < 2:
        return units.ratio(ratio)
    percent = 100 * (ratio - 1)
    if abs(percent) < 0.005:
        return "0.00 %"
    return f"{percent:+.2f} %" if abs(percent) < 9.995 else f"{percent:+.1f} %"


def _order(row: Comparison) -> tuple[int, bool, float]:
    """By verdict, guarded modes first, then by how large the change is."""
    ratio = row.ratio or 1.0
    return ORDER.index(row.verdict), not row.guarded, -max(ratio, 1 / ratio)


def _sentence(of: Comparisons) -> tuple[str, str]:
    """The answer in one sentence, and its emphasis; no answer hides another."""
    told = []
    if of.regressions:
        told.append(_regression(of))
    if of.failed:
        told.append(f"FAILED: {counted(len(of.failed), 'case')} of the head")
    if not of.regressions:
        told.append(_found(of))
    settled = "fine" if of.decided else "undecided"
    return "; ".join(told), "regression" if of.regressions else "failed" if of.failed else settled


def _regression(of: Comparisons) -> str:
    slower = len(of.regressions)
    confirmed = f", confirmed in {CONFIRMING} fresh pairs" if of.unit == "pairs" else ""
    among = f"{counted(len(of.judged), 'guarded comparison')} {'is' if slower == 1 else 'are'}"
    return f"REGRESSION: {slower} of {among} slower{confirmed}"


def _found(of: Comparisons) -> str:
    """What there is where nothing is slower."""
    guarded = any(row.guarded for row in of.rows)
    if not of.comparable:
        others = any(row.verdict is not Verdict.INCOMPARABLE for row in of.rows)
        return f"nothing {'guarded ' if others else ''}could be compared"
    found = Counter(row.verdict for row in of.judged)
    told = [
        f"{found[verdict]:,} {verdict.value}" for verdict in (*ORDER, Verdict.INCOMPARABLE) if found[verdict]
    ]
    answer = "no regression: " if of.decided else "not everything is decided: "
    noun = "guarded comparison" if guarded else "comparison"
    lost = sum(row.lost for row in of.judged)
    alone = f"; head alone has no time for {lost:,} of them" if lost else ""
    return f"{answer if guarded else ''}of {counted(len(of.judged), noun)} {', '.join(told)}{alone}"


def _method(of: Comparisons) -> str:
    """How a verdict came about, in one line."""
    if of.unit == "pairs":
        same, least = (exact_percent(math.expm1(limit)) for limit in (SAME_WITHIN, LEAST_DIFFERENCE))
        return (
            f"pairs of fresh processes, interleaved; {exact_percent(CONFIDENCE)} interval of the mean log ratio, "
            f"looked at after {' and '.join(map(str, LOOKS))}; same: within ± {same}; slower, faster: excludes 0 and "
            f"exceeds {least}"
        )
    sample = "a run is one sample" if of.unit == "runs" else "a process is one sample, which judges nothing"
    sure = exact_percent(UNPAIRED_CONFIDENCE)
    return f"Welch's {sure} interval of the difference of mean logs; {sample}"


def _counts(of: Comparisons) -> Iterable[tuple[str, str]]:
    for mode in MODES:
        rows = [row for row in of.rows if row.mode == mode]
        found = Counter(row.verdict for row in rows)
        told = [f"{found[one]:,} {one.value}" for one in (*ORDER, Verdict.INCOMPARABLE) if found[one]]
        if rows:
            free = "" if any(row.guarded for row in rows) or of.unit != "pairs" else " (not guarded)"
            yield mode, " · ".join(told) + free


def _grid_of(of: Comparisons, cases: Sequence[Case]) -> Callable[[Sequence[Comparison]], Grid[Comparison]]:
    """A builder of tables that all have the same columns, those that this comparison has values for."""
    titles = _titles(cases)
    counts: list[Column[Comparison]] = [Column(of.unit, count, expendable=3)]
    needs: list[Column[Comparison]] = [Column("needs", _needed, expendable=2)]
    undecided = any(row.needed for row in of.rows)
    columns: tuple[Column[Comparison], ...] = (
        Column("verdict", lambda row: row.verdict.value, left=True),
        Column("case", lambda row: titles[row.case.group], left=True, least=12),
        Column("variant", lambda row: plain(row.case.variant), left=True, least=12),
        Column("mode", lambda row: row.mode, left=True),
        Column("base", lambda row: units.duration(row.base_s), expendable=4),
        Column("head", lambda row: units.duration(row.head_s), expendable=5),
        Column("change", lambda row: change(row.ratio)),
        Column("interval", interval, expendable=1),
        *counts,
        *(needs if undecided else []),
    )

    def grid(rows: Sequence[Comparison]) -> Grid[Comparison]:
        lines = (Line(tuple(column.cell(row) for column in columns), emphasis=_emphasis(row)) for row in rows)
        return Grid(columns, tuple(lines))

    return grid


def interval(row: Comparison) -> str:
    """`+1.20 % … +3.40 %`: what a change lies in."""
    if row.low is None or row.high is None:
        return MISSING
    low, high = max(row.low, 1 / WIDEST), min(row.high, WIDEST)
    below, above = "<" if row.low < low else "", ">" if row.high > high else ""
    return f"{below}{change(low)} … {above}{change(high)}"


def count(row: Comparison) -> str:
    """`10`, or `5 / 6` where the two sides have different numbers of samples."""
    same = row.base_count == row.head_count
    return str(row.base_count) if same else f"{row.base_count} / {row.head_count}"


def _needed(row: Comparison) -> str:
    return f"{row.needed:,}" if row.needed else MISSING


def _emphasis(row: Comparison) -> str:
    """The verdict, where it counts."""
    return row.verdict.value if row.guarded or row.verdict is not Verdict.SLOWER else "unguarded"


def _reasons(of: Comparisons) -> Iterable[str]:
    """Why rows have no verdict, each reason once, with whom it holds for."""
    titles = _titles([row.case for row in of.rows])
    about: dict[tuple[str, str], list[Comparison]] = {}
    for row in sorted(of.rows, key=lambda row: row.verdict is not Verdict.INCOMPARABLE):
        if row.reason:
            about.setdefault((row.verdict.value, row.reason), []).append(row)
    for (verdict, reason), rows in about.items():
        modes = " and ".join(mode for mode in MODES if any(row.mode == mode for row in rows))
        cases = tuple(dict.fromkeys(f"{titles[row.case.group]} {row.case.variant}" for row in rows))
        yield f"{verdict} in {modes}: {shorten(reason)}: {_named(cases)}"


def _titles(cases: Iterable[Case]) -> dict[str, str]:
    """The title of each group: its stage, and of its shape what differs among these cases."""
    groups = {case.group: case for case in cases}
    return {group: short_title(case, list(groups.values())) for group, case in groups.items()}


def _named(names: tuple[str, ...]) -> str:
    shown, rest = names[:NAMED], len(names) - NAMED
    return f"{listing(shown)} and {rest:,} more" if rest > 0 else listing(shown)


def _listed(of: Comparisons) -> Iterable[str]:
    for side, cases in (("base", of.only_base), ("head", of.only_head)):
        if cases:
            keys = _named(tuple(case.key for case in cases))
            yield f"only in {side}, not compared: {counted(len(cases), 'case')}: {keys}"
