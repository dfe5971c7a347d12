"""A stage's variants, each with a point per shape: how many times as fast as its baseline it is."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.columns import case_title, telling
from reports.html.charts.chart import (
    INK,
    Chart,
    colour_of,
    followed,
    highlight,
    named,
    rows_chart,
    shape_of,
    spec_of,
    told,
)
from reports.text import listing
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.series.speedups import GroupSpeedups, Speedup
    from results.schema import Case

ROW_PX, MOST_PX = 6, 110
"""What a shape takes of a variant's row, and what all shapes take at most."""


def speedups_chart(groups: Sequence[GroupSpeedups]) -> Chart | None:
    """One stage's; None where no group has two times.

    Where only some shapes have their baseline, those are drawn, and the caption counts the others.
    """
    if not groups:
        return None
    without = sum(not group.over_baseline for group in groups)
    groups = [group for group in groups if group.over_baseline] or groups
    without = without if groups[0].over_baseline else 0
    left_out = f" Left out: {counted(without, 'shape')} without a time of the baseline." if without else ""
    cases = [group.case for group in groups]
    sign = _sign(cases)
    points = [_row(point, place, sign) for place, group in enumerate(groups) for point in group.points]
    order = _order(points)
    baselines = listing(tuple(dict.fromkeys(group.points[0].against.variant for group in groups)))
    against = baselines if groups[0].over_baseline else "the fastest"
    return Chart(
        title=f"Speed, as a multiple of {against}'s",
        caption="A point per shape; its line is the ratio's 95 % interval, paired by replicate. Right of 1 is faster."
        + left_out,
        spoken=f"{len(order)} variants by their speed against {against} in {len(groups)} shapes; "
        f"on average {order[0]} is the fastest. The table of all times has the numbers.",
        spec=spec_of(_drawn(order, len(groups), against, list(dict.fromkeys(one["sign"] for one in points)))),
        rows=points,
    )


def _drawn(
    order: Sequence[str], shapes: int, against: str, signs: Sequence[str]
) -> alt.LayerChart | alt.FacetChart:
    x = alt.X(
        "value:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        title=f"times as fast as {against}",
        axis=alt.Axis(format="~g", tickCount=6),
    )
    base = rows_chart().encode(
        y=alt.Y(
            "variant:N",
            sort=list(order),
            title=None,
            axis=alt.Axis(grid=True, gridOpacity=0.08, tickBand="extent"),
        ),
        yOffset=alt.YOffset("place:O", scale=alt.Scale(domain=list(range(shapes)))),
        opacity=followed(),
    )
    colour = colour_of(signs, "sign")
    marks = base.mark_point(filled=True, size=60).encode(
        x=x,
        color=colour,
        shape=shape_of(signs, "sign"),
        tooltip=told(variant="variant", shape="shape", speed="told", interval="interval"),
    )
    lines = (
        base.transform_filter("datum.low != null")
        .mark_rule(strokeWidth=2)
        .encode(x="low:Q", x2="high:Q", color=colour)
    )
    one = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=INK, opacity=0.5).encode(x=alt.datum(1))
    height = min(MOST_PX, max(26, ROW_PX * shapes + 8)) * len(order)
    return alt.layer(one, lines, marks).properties(width="container", height=height).add_params(highlight())


def _row(point: Speedup, place: int, sign: Callable[[Case], str]) -> dict[str, Any]:
    ratio, case = point.ratio, point.row.record.case
    bounds = (ratio.low, ratio.high)
    known = None not in bounds
    return {
        "variant": named(point.row.variant),
        "place": place,
        "sign": sign(case),
        "shape": ", ".join(case_title(case)[1:]),
        "value": ratio.value,
        "low": ratio.low if known else None,
        "high": ratio.high if known else None,
        "told": units.ratio(ratio.value),
        "interval": " to ".join(map(units.ratio, bounds)) if known else "not known: one replicate",
    }


def _order(points: Sequence[dict[str, Any]]) -> list[str]:
    """The variants, the one first that is fastest on the geometric mean of what it was measured at."""
    values: dict[str, list[float]] = {}
    for point in points:
        values.setdefault(point["variant"], []).append(math.log(point["value"]))
    return sorted(values, key=lambda name: (-fmean(values[name]), name))


def _sign(cases: Sequence[Case]) -> Callable[[Case], str]:
    """The property by which points are signed: the first of which there are few values."""
    for title, text in telling(cases):
        if title != "n_layer" and len(set(map(text, cases))) <= 4:
            return lambda case: f"{title} {text(case)}"
    return lambda _: "every shape"
