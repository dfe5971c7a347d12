"""Bars in small panels that are read by their numbers: a length is a share of the longest bar beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports.pictures.picture import FAINT, LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.pictures.picture import Row

ROOM = 1.45
"""As wide as a panel is, in lengths of its longest bar: its number stands beside it."""


def panels(
    bars: Sequence[Row],
    labels: Sequence[Row],
    *,
    row: str,
    column: str,
    y: str,
    color: alt.Color,
    width: int,
    columns: Sequence[str],
) -> alt.FacetChart:
    """A panel for each (row, column): bars from `start` to `end`, and the `text` of each label at its `end`.

    Rows of both hold these names and are in the order to be shown; a bar of several parts has several rows.
    """
    values: list[Any] = [
        *({**one, "kind": "bar"} for one in bars),
        *({**one, "kind": "label"} for one in labels),
    ]
    rows = list(dict.fromkeys(str(one[row]) for one in bars))
    above = alt.Header(labelOrient="top", labelAnchor="start")
    faint = alt.Header(labelAnchor="start", labelFontWeight="normal", labelColor=FAINT)
    panel = _panel(y, color).properties(width=width, height=alt.Step(21))
    whole: alt.FacetChart = panel.facet(
        data=alt.InlineData(values=values),
        row=alt.Row(f"{row}:N", sort=rows, title=None, header=above),
        column=alt.Column(f"{column}:N", sort=list(columns), title=None, header=faint),
    ).resolve_scale(y="independent")
    return whole


def _panel(y: str, color: alt.Color) -> alt.LayerChart:
    """Bars, where they begin, and their numbers."""
    scale = alt.Scale(domain=[0, ROOM], nice=False)
    axis = alt.Axis(title=None, domain=False, ticks=False, labelPadding=8, labelLimit=190)
    where = alt.Y(f"{y}:N", sort=None, axis=axis)
    drawn = (
        alt.Chart()
        .transform_filter("datum.kind == 'bar'")
        .mark_bar(height=15)
        .encode(x=alt.X("start:Q", scale=scale, axis=None), x2="end:Q", y=where, color=color)
    )
    zero = alt.Chart().mark_rule(color=LINE).encode(x=alt.XDatum(0, scale=scale, axis=None))
    told = (
        alt.Chart()
        .transform_filter("datum.kind == 'label'")
        .mark_text(align="left", baseline="middle", dx=5)
        .encode(x=alt.X("end:Q", scale=scale, axis=None), y=where, text="text:N")
    )
    return alt.LayerChart(layer=[zero, drawn, told])
