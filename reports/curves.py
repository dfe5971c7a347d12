"""Useful rates against seq_len or tokens as curves of a line each, where there are enough points to make one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.bars import curve
from reports.columns import Column, Grid, Line, telling
from reports.series.rates import rate_charts
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.content import Report
    from reports.series.rates import RateChart
    from results.schema import Case

FEWEST = 3
"""Two points are a difference, which the tables show better."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One variant of a chart: its useful rate at each of the chart's places, None where it has no time."""

    variant: str
    case: Case
    per_s: tuple[float | None, ...]
    highest_per_s: float


def curve_grids(report: Report) -> list[tuple[str, Grid[Curve]]]:
    """(title, a line for every variant of every chart) for each set of places that charts have in common."""
    alike: dict[tuple[str, str, tuple[int, ...]], list[RateChart]] = {}
    for chart in rate_charts(report):
        places = tuple(sorted({point.x for point in chart.points}))
        if len(places) >= FEWEST:
            alike.setdefault((chart.what, chart.x, places), []).append(chart)
    return [_grid(what, x, places, charts) for (what, x, places), charts in alike.items()]


def _grid(what: str, x: str, places: Sequence[int], charts: Sequence[RateChart]) -> tuple[str, Grid[Curve]]:
    curves = [one for chart in charts for one in _curves(chart, places)]
    scale = units.rate_scale((rate for one in curves for rate in one.per_s), what)

    def end(place: int) -> Callable[[Curve], str]:
        return lambda one: scale.number(one.per_s[place], 3)

    columns: tuple[Column[Curve], ...] = (
        Column("stage", lambda one: plain(one.case.stage), left=True, least=9),
        *(_case_column(title, text) for title, text in telling([one.case for one in curves])),
        Column("variant", lambda one: plain(one.variant), left=True, least=12),
        Column(str(places[0]), end(0)),
        Column("", lambda one: curve(one.per_s, one.highest_per_s), left=True),
        Column(str(places[-1]), end(-1)),
    )
    lines = tuple(Line(tuple(column.cell(one) for column in columns)) for one in curves)
    title = f"{scale.unit} over {x} ({', '.join(map(str, places))}), from zero to the highest of each shape"
    return title, Grid(columns, lines)


def _curves(chart: RateChart, places: Sequence[int]) -> list[Curve]:
    rates = {(point.row.variant, point.x): point.per_s for point in chart.points}
    highest = max(rates.values())
    case = min(chart.points, key=lambda point: point.x).row.record.case
    return [
        Curve(name, case, tuple(rates.get((name, place)) for place in places), highest)
        for name in chart.variants
    ]


def _case_column(title: str, text: Callable[[Case], str]) -> Column[Curve]:
    return Column(title, lambda one: text(one.case))
