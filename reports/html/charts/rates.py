"""Useful rates against tokens or seq_len: a panel for each width, a line and its interval for each variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.columns import case_title
from reports.html.charts.chart import (
    Chart,
    colour_of,
    dash_of,
    decades,
    followed,
    highlight,
    named,
    one_by_one,
    rows_chart,
    shape_of,
    spec_of,
    told,
)
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.series.rates import RateChart, RatePoint

MOST_TICKS = 8
"""So many values of x are each a tick."""


def rates_chart(charts: Sequence[RateChart], variants: Sequence[str]) -> Chart | None:
    """One stage's, `variants` in the order of its colours; None where it has no useful rate, or but one x."""
    titles = {chart.title: _panel(chart, charts) for chart in charts}
    what = charts[0].what if charts else ""
    scale = units.rate_scale((point.per_s for chart in charts for point in chart.points), what)
    rows = [_row(point, titles[chart.title], what, scale) for chart in charts for point in chart.points]
    if len({row["x"] for row in rows}) < 2:
        return None
    choices = one_by_one(rows, list(dict.fromkeys(titles.values())))
    x = "tokens a call (batch × seq_len)" if charts[0].x == "tokens" else "seq_len, tokens"
    return Chart(
        title=f"{'' if what == 'B' else 'Useful '}{scale.unit} against {charts[0].x}",
        caption="Both axes are logarithmic. Bands and whiskers are 95 % intervals over replicates.",
        spoken=f"Useful rate of {len(variants)} variants against {x}, {len(charts)} panels. "
        "The table of all times has the numbers.",
        spec=spec_of(_drawn(variants, x, list(dict.fromkeys(titles.values())), rows, scale.unit)),
        rows=[] if choices else rows,
        panels=1 if choices else len(charts),
        choices=choices,
        panel_px=230,
        labels_px=56,
    )


def _drawn(
    variants: Sequence[str], x: str, panels: Sequence[str], rows: Sequence[dict[str, Any]], unit: str
) -> alt.FacetChart:
    counts = sorted({row["x"] for row in rows})
    few = len(counts) <= MOST_TICKS
    ticks = (
        alt.Axis(format=",", values=counts, labelOverlap=True) if few else alt.Axis(format="~s", tickCount=4)
    )
    base = rows_chart().encode(
        x=alt.X("x:Q", scale=alt.Scale(type="log", nice=False, padding=22), title=x, axis=ticks),
        color=colour_of(variants),
        opacity=followed(),
    )
    y = alt.Y(
        "rate:Q",
        scale=alt.Scale(type="log", nice=False, padding=10),
        title=unit,
        axis=alt.Axis(format="~g", values=decades(row["rate"] for row in rows)),
    )
    band = base.mark_area().encode(y=alt.Y("low:Q", title=unit), y2="high:Q", opacity=followed(0.2))
    whisker = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=unit), y2="high:Q")
    line = base.mark_line().encode(y=y, strokeDash=dash_of(variants))
    sign = base.mark_point(filled=True, size=60).encode(
        y=y,
        shape=shape_of(variants),
        tooltip=told(variant="variant", shape="shape", rate="told", time="time", interval="interval"),
    )
    intervals = [band, whisker] if any(row["low"] is not None for row in rows) else []
    return (
        alt.layer(*intervals, line, sign)
        .properties(height=230)
        .facet(facet=alt.Facet("panel:N", sort=list(panels), title=None), columns=4)
        .add_params(highlight())
    )


def _panel(chart: RateChart, among: Sequence[RateChart]) -> str:
    """What of its title tells a panel from the others."""
    common = set.intersection(*(set(one.title) for one in among))
    return ", ".join(part for part in chart.title if part not in common) or ", ".join(chart.title[1:])


def _row(point: RatePoint, panel: str, what: str, scale: units.Scale) -> dict[str, Any]:
    case, time = point.row.record.case, point.row.time
    low, high = point.low_per_s, point.high_per_s
    return {
        "variant": named(point.row.variant),
        "panel": panel,
        "x": point.x,
        "rate": point.per_s / scale.divisor,
        "low": low / scale.divisor if low else None,
        "high": high / scale.divisor if high else None,
        "shape": ", ".join(case_title(case)[1:]),
        "told": units.rate(point.per_s, what),
        "time": f"{units.duration(time.value_s if time else None)} {plain(point.row.mode)}",
        "interval": f"± {units.interval(time.half_width if time else None)}",
    }
