"""Where an eager call's time goes, as shares of it: kernels, gaps between them, launches. A panel for each shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.columns import UNSURE_MARK
from reports.html.charts.chart import (
    COLOURS,
    INK,
    Chart,
    followed,
    highlight,
    label_px,
    named,
    one_by_one,
    rows_chart,
    spec_of,
    told,
)
from reports.html.shapes import shapes
from reports.series.calls import ALL, GAPS, GAPS_AND_KERNELS, KERNELS, LAUNCH, LAUNCH_AND_GAPS, PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.series.calls import CallParts
    from results.schema import Case

BLUE, VERMILION, GREEN, _, GOLD, GREY, SKY = COLOURS
PART_COLOURS = {
    KERNELS: BLUE,
    GAPS: GOLD,
    LAUNCH: VERMILION,
    GAPS_AND_KERNELS: SKY,
    LAUNCH_AND_GAPS: GREEN,
    ALL: GREY,
}


def calls_chart(calls: Sequence[CallParts], variants: Sequence[str]) -> Chart | None:
    """One stage's; None where no call could be taken apart."""
    parts = [name for name in PARTS if any(part.name == name for call in calls for part in call.parts)]
    if not calls or parts == [ALL]:
        return None
    cases = list({call.row.record.case.group: call.row.record.case for call in calls}.values())
    rows = [row for call in calls for row in _rows(call, cases)]
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    choices = one_by_one(rows, panels)
    order = [name for name in variants if any(row["variant"] == name for row in rows)]
    return Chart(
        title="Where a call from Python spends its time",
        caption=(
            "Shares of the eager time, which stands beside each bar: kernels; gaps between them that even a CUDA graph "
            "leaves; launches, which a graph saves. A bar left of 0 says by how much two measurements disagree. "
            f"{UNSURE_MARK}: the eager time is known to no better than ± 25 %."
        ),
        spoken=f"Shares of kernels, gaps and launches in the eager time of {len(order)} variants at "
        f"{len(panels)} shapes. {_spoken(calls)}",
        spec=spec_of(_drawn(order, parts, panels)),
        rows=[] if choices else rows,
        panels=1 if choices else len(panels),
        choices=choices,
        panel_px=230,
        labels_px=label_px(order) + 12,
    )


def _drawn(order: Sequence[str], parts: Sequence[str], panels: Sequence[str]) -> alt.FacetChart:
    colours = [PART_COLOURS[name] for name in parts]
    base = rows_chart().encode(y=alt.Y("variant:N", sort=list(order), title=None), opacity=followed())
    bars = base.mark_bar(stroke=INK, strokeWidth=0.4, strokeOpacity=0.5).encode(
        x=alt.X("share:Q", title="share of the eager time", axis=alt.Axis(format="%", values=[0, 0.5, 1])),
        color=alt.Color("part:N", scale=alt.Scale(domain=list(parts), range=colours), title=None),
        order="place:O",
        tooltip=told(
            variant="variant", part="part", takes="told", share="percent", eager="eager", launches="launches"
        ),
    )
    text = (
        base.transform_filter("datum.place == 0")
        .mark_text(align="left", dx=5, fontSize=11)
        .encode(x="end:Q", text="eager:N")
    )
    return (
        alt.layer(bars, text)
        .properties(height=alt.Step(19))
        .facet(facet=alt.Facet("panel:N", sort=list(panels), title=None), columns=4)
        .add_params(highlight())
    )


def _rows(call: CallParts, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    case = call.row.record.case
    eager = (UNSURE_MARK if call.unsure else "") + units.duration(call.eager_s, 3)
    panel = shapes(cases)(case)
    end = sum(max(part.seconds, 0.0) for part in call.parts) / call.eager_s
    for place, part in enumerate(call.parts):
        yield {
            "variant": named(call.row.variant),
            "panel": panel,
            "part": part.name,
            "place": place,
            "share": part.seconds / call.eager_s,
            "end": end,
            "told": units.duration(part.seconds, 3),
            "percent": units.percent(part.seconds / call.eager_s),
            "eager": eager,
            "launches": f"{call.launches:g}" if call.launches is not None else "not counted",
        }


def _spoken(calls: Sequence[CallParts]) -> str:
    """Who loses the largest share to launches."""
    known = [(share, call) for call in calls if (share := call.share(LAUNCH)) is not None]
    if not known:
        return ""
    share, call = max(known, key=lambda one: one[0])
    return f"{named(call.row.variant)} loses the most to launches: {units.percent(share)} at its worst."
