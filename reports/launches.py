"""What an eager call's time is made of, for the cases that wait for launches: overhead, gaps, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import units
from reports.bars import SHADES, stacked
from reports.columns import UNSURE_MARK, Column, Grid, Line, telling, without_empty
from reports.text import MISSING, plain
from results.decomposition import decompose
from results.ranking import is_wide

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.content import Report
    from results.decomposition import Decomposition
    from results.ranking import Standing
    from results.schema import Case

TITLE = "where an eager call waits: launch (eager − graph), gaps (graph − kernels), kernels, and their count"

WAITING = 1 / 4
"""A case is shown when this share of its eager time or more is not spent in kernels."""

BAR = 8
"""Cells of a bar that is the whole eager call."""


def launches_grid(report: Report) -> Grid[Standing] | None:
    """The fastest and the baseline of each group, as far as they wait; None where nothing does."""
    rows = [
        row for row in report.rows if (row.is_fastest or row.is_baseline) and _waits(decompose(row.record))
    ]
    if not rows:
        return None
    cases = [row.record.case for row in rows]
    time = units.time_scale(part for row in rows for part in _parts(decompose(row.record)))

    def part(name: str, of_eager: bool = False) -> Callable[[Standing], str]:
        """A cell; what is derived from an eager time that is hardly known is marked as that is."""
        return lambda row: (
            (UNSURE_MARK if of_eager and is_wide(row.record.estimates["eager"]) else "")
            + time(getattr(decompose(row.record), name), 3)
        )

    shape = [_case_column(title, text) for title, text in telling(cases)]
    columns: tuple[Column[Standing], ...] = (
        Column("stage", lambda row: plain(row.record.case.stage), left=True, least=9),
        *shape,
        Column("variant", lambda row: plain(row.variant), left=True, least=12),
        Column("eager", part("eager_s", of_eager=True)),
        Column(f"{SHADES[0]} launch", part("launch_overhead_s", of_eager=True)),
        Column(f"{SHADES[1]} gaps", part("gaps_s")),
        Column(f"{SHADES[2]} kernels", part("busy_s")),
        Column("of eager", _bar, left=True, expendable=2),
        Column("count", _launches, expendable=1),
    )
    lines = tuple(Line(tuple(column.cell(row) for column in columns)) for row in rows)
    return without_empty([Grid(columns, lines)])[0]


def _case_column(title: str, text: Callable[[Case], str]) -> Column[Standing]:
    return Column(title, lambda row: text(row.record.case))


def _waits(parts: Decomposition) -> bool:
    if parts.eager_s is None or parts.busy_s is None or parts.graph_s is None:
        return False
    return parts.eager_s - parts.busy_s >= WAITING * parts.eager_s


def _parts(parts: Decomposition) -> tuple[float | None, ...]:
    return parts.eager_s, parts.launch_overhead_s, parts.gaps_s, parts.busy_s


def _bar(row: Standing) -> str:
    return stacked(_parts(decompose(row.record))[1:], BAR)


def _launches(row: Standing) -> str:
    seen = row.record.dispatch
    return MISSING if seen is None or seen.launches is None else f"{seen.launches:g}"
