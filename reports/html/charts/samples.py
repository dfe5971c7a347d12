"""Every sample of a shape in one mode, by how far it lies from its case's estimate, replicates told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.html.charts.chart import (
    Chart,
    colour_of,
    followed,
    highlight,
    named,
    rows_chart,
    rule_at,
    shape_of,
    spec_of,
    told,
)
from reports.html.shapes import shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.series.samples import Strip
    from results.ranking import Standing

LINEAR_PERCENT = 2.0
"""Within so many per cent the axis is linear, beyond it grows as a logarithm: a straggler hides nobody."""

TICKS = [-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50, 100, 1000]


def samples_chart(rows: Sequence[Standing], strips: Sequence[Strip]) -> Chart | None:
    """One stage's, a choice for each shape and mode; None where nothing was sampled."""
    estimates = {row.record.case: row.record.estimates for row in rows}
    shape = shapes(list(estimates))
    choices: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for strip in strips:
        known = estimates.get(strip.case, {}).get(strip.mode)
        if known:
            percents = [float(f"{100 * (one / known.value_s - 1):.4g}") for one in strip.samples_s]
            choices.setdefault((shape(strip.case), strip.mode), []).append(
                {
                    "variant": named(strip.case.variant),
                    "replicate": f"replicate {strip.replicate}",
                    "estimate": units.duration(known.value_s),
                    "percent": percents,
                }
            )
    if not choices:
        return None
    names = sorted(
        {one["replicate"] for of in choices.values() for one in of}, key=lambda name: (len(name), name)
    )
    most = max(len({one["variant"] for one in of}) for of in choices.values())
    return Chart(
        title="Every sample",
        caption=(
            "How far each sample lies from its case's estimate, a row of signs for each replicate, which is a fresh "
            "process. Replicates apart from one another widen the interval; samples far to the right within one do "
            f"not. Linear within ± {LINEAR_PERCENT:g} %, logarithmic beyond."
        ),
        spoken=f"Samples of each variant as per cent of its estimate, in {len(names)} replicates. "
        "The intervals that follow from them are in the table of all times.",
        spec=spec_of(_drawn(names, most)),
        rows=[],
        choices=[{"shape": of, "mode": mode, "strips": strips} for (of, mode), strips in choices.items()],
    )


def _drawn(replicates: Sequence[str], most: int) -> alt.LayerChart | alt.FacetChart:
    signs = (
        rows_chart()
        .mark_point(size=26, strokeWidth=1.2)
        .encode(
            x=alt.X(
                "percent:Q",
                scale=alt.Scale(type="symlog", constant=LINEAR_PERCENT, nice=False, padding=10),
                title="sample against the case's estimate, %",
                axis=alt.Axis(
                    values=TICKS, labelExpr="datum.value > 0 ? '+' + datum.value : '' + datum.value"
                ),
            ),
            y=alt.Y(
                "variant:N",
                sort=None,
                title=None,
                axis=alt.Axis(grid=True, gridOpacity=0.08, tickBand="extent"),
            ),
            yOffset=alt.YOffset("replicate:N", sort=list(replicates)),
            color=colour_of(replicates, "replicate"),
            shape=shape_of(replicates, "replicate"),
            opacity=followed(0.8),
            tooltip=told(
                variant="variant", replicate="replicate", sample="place", off="told", estimate="estimate"
            ),
        )
    )
    height = max(160, (len(replicates) * 8 + 12) * most)
    return alt.layer(rule_at(0), signs).properties(width="container", height=height).add_params(highlight())
