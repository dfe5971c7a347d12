"""Head's time over base's, a row for each case and mode that could be compared, with its interval and its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports.html.charts.chart import Chart, rows_chart, rule_at, spec_of, told
from reports.text import plain
from reports.verdicts import change, in_order, titles_of
from results.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.comparison import Comparison, Comparisons

MOST_ROWS = 80
"""More rows than this make a chart that nobody reads: what changed most is drawn, the table has the rest."""

ROW_PX = 20

SIGNS = {
    Verdict.SLOWER.value: ("#d55e00", "triangle-right"),
    Verdict.FASTER.value: ("#0072b2", "triangle-left"),
    Verdict.UNDECIDED.value: ("#7f7f7f", "circle"),
    Verdict.SAME.value: ("#009e73", "square"),
}


def forest_chart(of: Comparisons) -> Chart | None:
    """None where nothing could be compared."""
    compared = [row for row in in_order(of) if row.ratio is not None]
    if not compared:
        return None
    drawn = compared[:MOST_ROWS]
    rest = len(compared) - len(drawn)
    titles = titles_of(of)
    more = (
        f" The first {len(drawn)} of {len(compared)}, what changed most first; the table has all."
        if rest
        else ""
    )
    return Chart(
        title=f"{plain(of.head)} against {plain(of.base)}",
        caption=f"Head's time ÷ base's: right of 1 the head is slower. The line is the interval that decides.{more}",
        spoken=f"Ratios of {len(drawn)} comparisons with their intervals; the table of verdicts has the numbers.",
        spec=spec_of(
            _drawn([_label(row, titles) for row in drawn], bounded=any(row.low is not None for row in drawn))
        ),
        rows=[_row(row, titles) for row in drawn],
    )


def _drawn(order: Sequence[str], *, bounded: bool) -> alt.LayerChart | alt.FacetChart:
    names = list(SIGNS)
    colours, shapes = ([SIGNS[name][part] for name in names] for part in (0, 1))
    y = alt.Y(
        "row:N",
        sort=list(order),
        title=None,
        axis=alt.Axis(grid=True, gridOpacity=0.08, labelLimit=330, labelFontSize=11),
    )
    x = alt.X(
        "ratio:Q",
        scale=alt.Scale(type="log", nice=False, padding=14),
        title="head's time ÷ base's",
        axis=alt.Axis(format="~g"),
    )
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=names, range=colours), title=None)
    base = rows_chart().encode(y=y)
    lines = (
        base.transform_filter("datum.low != null")
        .mark_rule(strokeWidth=2)
        .encode(x="low:Q", x2="high:Q", color=colour)
    )
    signs = base.mark_point(filled=True, size=80).encode(
        x=x,
        color=colour,
        shape=alt.Shape("verdict:N", scale=alt.Scale(domain=names, range=shapes), title=None),
        tooltip=told(case="row", verdict="verdict", change="told", interval="interval", counted="count"),
    )
    layers = [rule_at(1, 0.6), *([lines] if bounded else []), signs]
    return alt.layer(*layers).properties(width="container", height=ROW_PX * len(order) + 10)


def _label(row: Comparison, titles: dict[str, str]) -> str:
    return f"{plain(row.case.variant)}, {titles[row.case.group]}, {row.mode}"


def _row(row: Comparison, titles: dict[str, str]) -> dict[str, Any]:
    bounded = row.low is not None and row.high is not None
    return {
        "row": _label(row, titles),
        "ratio": row.ratio,
        "low": row.low if bounded else None,
        "high": row.high if bounded else None,
        "verdict": row.verdict.value,
        "told": change(row.ratio),
        "interval": f"{change(row.low)} … {change(row.high)}" if bounded else "not known",
        "count": f"{row.base_count} / {row.head_count}",
    }
