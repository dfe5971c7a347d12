"""Clock, power and temperature over one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from reports.columns import case_title
from reports.html.charts.chart import INK, Chart, colour_of, rows_chart, shape_of, spec_of, told
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.series.conditions import Reading

FIGURES = (
    ("SM clock, MHz", "sm_clock_mhz", "MHz"),
    ("power, W", "power_w", "W"),
    ("temperature, °C", "temperature_c", "°C"),
)
WINDOW = "watched afterwards"


def conditions_chart(readings: Sequence[Reading], run_id: str | None = None) -> Chart:
    """One run's; `run_id` where there are several."""
    kinds = list(
        dict.fromkeys(
            map(_kind, sorted(readings, key=lambda one: (one.replicate is None, one.replicate or 0)))
        )
    )
    rows = [row for one in readings for row in _rows(one)]
    figures = [title for title, *_ in FIGURES if any(row["figure"] == title for row in rows)]
    return Chart(
        title="Clock, power and temperature" + (f": {plain(run_id)}" if run_id else ""),
        caption=(
            "A sign for each case in each replicate: its median SM clock while it was timed, and the medians of what "
            f"power and temperature read between its blocks. {WINDOW.capitalize()}: at the end of half a second of "
            "that case alone."
        ),
        spoken=f"{', '.join(figures)} over {readings[-1].at_s:.0f} seconds, {len(readings)} readings.",
        spec=spec_of(_drawn(kinds, figures)),
        rows=rows,
        labels_px=60,
    )


def _drawn(kinds: Sequence[str], figures: Sequence[str]) -> alt.VConcatChart:
    panels = [
        rows_chart()
        .transform_filter(alt.FieldEqualPredicate(field="figure", equal=title))
        .mark_point(size=34, filled=True, opacity=0.75)
        .encode(
            x=alt.X("at:Q", title="seconds since the run began" if title == figures[-1] else None),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, padding=8)),
            color=colour_of(kinds, "kind"),
            shape=shape_of(kinds, "kind"),
            tooltip=told(case="case", when="when", reading="told", of="kind"),
        )
        .properties(width="container", height=150, view=alt.ViewConfig(stroke=INK, strokeOpacity=0.15))
        for title in figures
    ]
    return alt.vconcat(*panels, spacing=14)


def _rows(reading: Reading) -> Iterator[dict[str, Any]]:
    case = reading.case
    for title, name, unit in FIGURES:
        value = getattr(reading, name)
        if value is not None:
            yield {
                "figure": title,
                "at": reading.at_s,
                "value": value,
                "kind": _kind(reading),
                "case": f"{plain(case.variant)}, {', '.join(case_title(case)[:4])}",
                "when": f"after {reading.at_s:.0f} s",
                "told": f"{value:.0f} {unit}",
            }


def _kind(reading: Reading) -> str:
    return WINDOW if reading.replicate is None else f"replicate {reading.replicate}"
