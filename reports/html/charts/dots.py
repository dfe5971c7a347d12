"""A row for each name and in it a dot for each shape, with its interval where it has one: what several charts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports.columns import telling
from reports.html.charts.chart import colour_of, decades, followed, highlight, rows_chart, rule_at, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from results.schema import Case

ROW_PX, MOST_PX = 6, 110
"""What a shape takes of a name's row, and what all shapes take at most."""

MOST_SIGNS = 4
"""So many kinds of dots are told apart at a glance."""


def dots(
    rows: Sequence[dict[str, Any]],
    order: Sequence[str],
    title: str,
    tooltip: Sequence[alt.Tooltip],
    reference: float | None = None,
) -> alt.LayerChart | alt.FacetChart:
    """`variant` in this order against `value` (logarithmic, under `title`), a line at `reference`.

    A row's `place` is its place beside the others of its name, `sign` says how its dot looks, `low` and `high`, where
    it has them, are its interval.
    """
    places = 1 + max(row["place"] for row in rows)
    signs = list(dict.fromkeys(row["sign"] for row in rows))
    ticks = decades(row.get(name) for row in rows for name in ("low", "value", "high"))
    bounded = any(row.get("low") is not None for row in rows)
    x = alt.X(
        "value:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        title=title,
        axis=alt.Axis(format="~g", values=ticks, labelOverlap=True),
    )
    bands = alt.Axis(grid=True, gridOpacity=0.08, tickBand="extent")
    base = rows_chart().encode(
        y=alt.Y("variant:N", sort=list(order), title=None, axis=bands),
        yOffset=alt.YOffset("place:O", scale=alt.Scale(domain=list(range(places)))),
        opacity=followed(),
    )
    colour = colour_of(signs, "sign")
    known = base.transform_filter("datum.low != null")
    lines = known.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", color=colour)
    marks = base.mark_point(filled=True, size=60).encode(
        x=x, color=colour, shape=shape_of(signs, "sign"), tooltip=list(tooltip)
    )
    layers = [*([] if reference is None else [rule_at(reference)]), *([lines] if bounded else []), marks]
    height = min(MOST_PX, max(26, ROW_PX * places + 8)) * len(order)
    return alt.layer(*layers).properties(width="container", height=height).add_params(highlight())


def sign_of(cases: Sequence[Case]) -> Callable[[Case], str]:
    """The property by which dots differ: the first of which there are few values."""
    for title, text in telling(cases):
        if title not in ("direction", "n_layer") and len(set(map(text, cases))) <= MOST_SIGNS:
            return lambda case: f"{title} {text(case)}"
    return lambda _: "every shape"
