"""Every variant of a stage under the roof of its machine, at the clocks that were held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.columns import case_title
from reports.html.charts.chart import (
    INK,
    Chart,
    colour_of,
    decades,
    followed,
    highlight,
    named,
    rows_chart,
    shape_of,
    spec_of,
    told,
)
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.series.roofline import Roofline, RoofPoint
    from results.schema import Case

TERA = 1e12


def roofline_chart(of: Roofline, shown_case: Callable[[Case], bool], variants: Sequence[str]) -> Chart | None:
    """The points of the cases that are shown, under the roof of their dtype; None without points or a known roof."""
    points = [point for point in of.points if shown_case(point.row.record.case)]
    if not points or of.flops_per_s is None or of.bytes_per_s is None:
        return None
    ends = _ends(of, points)
    rows = [*(_edge(of, at) for at in ends), *map(_row, points)]
    shown = [name for name in variants if any(named(point.row.variant) == name for point in points)]
    clock = f"at {of.clock_mhz:.0f} MHz, the median clock held" if of.clock_mhz else "by the datasheet"
    return Chart(
        title=f"Roofline, {plain(of.dtype)}",
        caption=(
            f"The roof is {units.rate(of.bytes_per_s, 'B')} of memory, then {units.rate(of.flops_per_s)} {clock}"
            f"{'; the band is the peak at the lowest and the highest clock' if of.clock_mhz else ''}. Intensity is the "
            "algorithm's: useful FLOPs ÷ the least bytes that must move, alike for all variants of a shape."
        ),
        spoken=f"{len(points)} points of {len(shown)} variants under a roof of {units.rate(of.flops_per_s)}. "
        "The shares of it are in the table of all times, as held.",
        spec=spec_of(_drawn(shown, [row["y"] for row in rows])),
        rows=rows,
    )


def _drawn(variants: Sequence[str], heights: Sequence[float]) -> alt.LayerChart | alt.FacetChart:
    x = alt.X(
        "x:Q",
        scale=alt.Scale(type="log", nice=False),
        title="arithmetic intensity, FLOP / B",
        axis=alt.Axis(format="~s", tickCount=6),
    )
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        title="TFLOP/s",
        axis=alt.Axis(format="~g", values=decades(heights)),
    )
    roof = rows_chart().transform_filter("datum.kind == 'roof'").encode(x=x)
    points = rows_chart().transform_filter("datum.kind == 'point'")
    return (
        alt.layer(
            roof.mark_area(color=INK, opacity=0.12).encode(y=alt.Y("low:Q", title="TFLOP/s"), y2="high:Q"),
            roof.mark_line(color=INK, strokeWidth=2).encode(y=y),
            points.mark_point(filled=True, size=70).encode(
                x=x,
                y=y,
                color=colour_of(variants),
                shape=shape_of(variants),
                opacity=followed(0.9),
                tooltip=told(
                    variant="variant", shape="shape", rate="told", of_the_roof="share", clock="clock"
                ),
            ),
        )
        .properties(width="container", height=340)
        .add_params(highlight())
    )


def _ends(of: Roofline, points: Sequence[RoofPoint]) -> list[float]:
    """The intensities at which the roof is drawn: around the points, and where it bends at each clock."""
    assert of.bytes_per_s
    bends = [
        peak / of.bytes_per_s for peak in (of.low_flops_per_s, of.flops_per_s, of.high_flops_per_s) if peak
    ]
    known = [*bends, *(point.flop_per_byte for point in points)]
    return sorted({0.5 * min(known), *bends, 2 * max(known)})


def _edge(of: Roofline, at: float) -> dict[str, Any]:
    low, middle, high = (of.roof(at, peak) or 0.0 for peak in (of.low_flops_per_s, None, of.high_flops_per_s))
    return {"kind": "roof", "x": at, "y": middle / TERA, "low": low / TERA, "high": high / TERA}


def _row(point: RoofPoint) -> dict[str, Any]:
    return {
        "kind": "point",
        "variant": named(point.row.variant),
        "x": point.flop_per_byte,
        "y": point.flops_per_s / TERA,
        "shape": ", ".join(case_title(point.row.record.case)[1:]),
        "told": units.rate(point.flops_per_s),
        "share": f"{units.percent(point.row.held_fraction)} of the peak at its clock",
        "clock": f"{point.sm_clock_mhz:.0f} MHz" if point.sm_clock_mhz else "not known",
    }
