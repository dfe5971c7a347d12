"""A fine sweep of head_dim: a line for each variant, a panel for each figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports.html.charts.chart import (
    Chart,
    colour_of,
    dash_of,
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
    from collections.abc import Sequence

    from reports.pivot import PivotTable


def sweep_chart(
    table: PivotTable, rows: Sequence[dict[str, Any]], figures: Sequence[str], where: str = ""
) -> Chart:
    """The `rows` of a chart by head_dim, their `height` against it."""
    variants = [named(name) for name in table.variants]
    return Chart(
        title="What the tensor cores do, by head_dim" + (f": {where}" if where else ""),
        caption="Shares in per cent, each panel on its own scale; issued ÷ useful is 1 where nothing is padded.",
        spoken="; ".join(map(plain, table.sentences)) or "Figures of the tensor cores against head_dim.",
        spec=spec_of(_drawn(variants, figures)),
        rows=[{**row, "x": int(row["value"])} for row in rows if row["height"] is not None],
        panels=len(figures),
        panel_px=300,
        labels_px=56,
    )


def _drawn(variants: Sequence[str], figures: Sequence[str]) -> alt.FacetChart:
    base = rows_chart().encode(
        x=alt.X("x:Q", title="head_dim", scale=alt.Scale(zero=False, nice=False, padding=10)),
        y=alt.Y("height:Q", title=None),
        color=colour_of(variants),
        opacity=followed(),
    )
    lines = base.mark_line().encode(strokeDash=dash_of(variants))
    signs = base.mark_point(filled=True, size=40).encode(
        shape=shape_of(variants),
        tooltip=told(variant="variant", head_dim="value", figure="figure", value="told"),
    )
    facet = alt.Facet("figure:N", sort=list(figures), title=None)
    made = alt.layer(lines, signs).properties(height=200).facet(facet=facet, columns=2)
    apart: alt.FacetChart = made.resolve_scale(y="independent").add_params(highlight())
    return apart
