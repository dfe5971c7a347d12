"""Variants against head_dim, four figures of the tensor cores in four panels: what padding does, and what it hides.

Where more values were swept than a table has room for, each panel has a line for each variant: there is the cliff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports import units
from reports.html.charts.chart import INK, Chart, highlight, label_px, named, rows_chart, spec_of, told
from reports.html.charts.sweeps import sweep_chart
from reports.pivot_grids import FINE
from reports.text import MISSING, plain
from results.tensor_use import ACTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.pivot import Cell, PivotTable, Value

FIGURES = ("useful, share of peak", "active, share of cycles", "issued ÷ useful", "rate while active")
"""The panels, in the order they are read."""


def heads_chart(table: PivotTable, where: str = "") -> Chart | None:
    """One table of a pivot by head_dim, `where` its other sizes; None where it has no figure beside the useful rate."""
    rows = [
        row
        for variant in table.variants
        for value, cell in table.cells_of(variant)
        for row in _rows(value, cell)
    ]
    _shade(rows)
    known = [
        name for name in FIGURES if any(row["figure"] == name and row["share"] is not None for row in rows)
    ]
    if len(known) < 2 or len(table.values) < 2:
        return None
    if len(table.values) > FINE:
        return sweep_chart(table, [row for row in rows if row["figure"] in known], known, where)
    return Chart(
        title="What the tensor cores do, by head_dim" + (f": {where}" if where else ""),
        caption=(
            "Brighter is more, in each panel from 0 to its largest share; issued ÷ useful is bright where nothing is "
            "issued in vain (1.00), dark where padding is, and blank where no matrix instruction runs. A dash is a "
            "figure that the run did not measure."
        ),
        spoken="; ".join(map(plain, table.sentences)) or "Four figures by variant and head_dim.",
        spec=spec_of(_drawn([named(name) for name in table.variants], list(map(str, table.values)), known)),
        rows=[row for row in rows if row["figure"] in known],
        panels=len(known),
        panel_px=190,
        labels_px=label_px(map(named, table.variants)),
    )


def _drawn(variants: Sequence[str], values: Sequence[str], figures: Sequence[str]) -> alt.FacetChart:
    base = rows_chart().encode(
        x=alt.X("value:N", sort=list(values), title="head_dim", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("variant:N", sort=list(variants), title=None),
    )
    cells = base.mark_rect(stroke=INK, strokeOpacity=0.25).encode(
        color=alt.Color("shade:Q", scale=alt.Scale(domain=[0, 1], scheme="viridis"), legend=None),
        tooltip=told(variant="variant", head_dim="value", figure="figure", value="told", because="reason"),
    )
    texts = base.mark_text(fontSize=12).encode(
        text="text:N",
        color=alt.Color("ink:N", scale=None, legend=None),
        opacity=alt.condition("highlight == '' || datum.variant == highlight", alt.value(1), alt.value(0.35)),
    )
    panel = alt.layer(cells, texts).resolve_scale(
        color="independent"
    )  # a text's is a colour, a cell's a share
    facet = alt.Facet("figure:N", sort=list(figures), title=None)
    made: alt.FacetChart = panel.properties(height=alt.Step(26)).facet(facet=facet, columns=4)
    return made.add_params(highlight())


def _rows(value: Value, cell: Cell) -> Iterator[dict[str, Any]]:
    """A row for each figure: its `share` of what is best, its `height` as a number, percent or a ratio, its text."""
    use = cell.use
    active, issued = use.tensor_active_percent, use.issued_ratio
    useful, rate = use.datasheet_fraction, use.rate_while_active
    figures = (
        ("datasheet_fraction", useful, _percent(useful), units.percent(useful)),
        (ACTIVE, _share(active), active, units.percent(_share(active))),
        (
            "issued_ratio",
            1 / issued if issued else None,
            issued,
            MISSING if issued is None else f"{issued:.2f}",
        ),
        ("rate_while_active", rate, _percent(rate), units.percent(rate)),
    )
    for title, (name, share, height, text) in zip(FIGURES, figures, strict=True):
        yield {
            "variant": named(cell.row.variant),
            "value": plain(value),
            "figure": title,
            "share": share,
            "height": height,
            "text": text.replace(" ", "\u202f"),
            "told": text,
            "reason": plain(use.missing.get(name, "measured")),
        }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _shade(rows: Sequence[dict[str, Any]]) -> None:
    """Give each row its brightness, of 0 to 1 and within its panel, and a colour of text that is read on it."""
    for figure in FIGURES:
        panel = [row for row in rows if row["figure"] == figure]
        largest = max((row["share"] for row in panel if row["share"] is not None), default=None) or 1.0
        for row in panel:
            row["shade"] = None if row["share"] is None else max(row["share"] / largest, 0.0)
            row["ink"] = INK if row["shade"] is None else "#ffffff" if row["shade"] < 0.6 else "#000000"
