"""A section for each stage and direction: the charts that carry its answer, one set of colours in all of them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from reports import pivot
from reports.columns import telling
from reports.html.charts.calls import calls_chart
from reports.html.charts.chart import named
from reports.html.charts.heads import heads_chart
from reports.html.charts.memory import memory_chart
from reports.html.charts.rates import rates_chart
from reports.html.charts.roofline import roofline_chart
from reports.html.charts.samples import samples_chart
from reports.html.charts.speedups import speedups_chart
from reports.html.figures import follow
from reports.html.markup import element, listed
from reports.pivot_cells import Use
from reports.series.calls import call_parts
from reports.series.rates import rate_charts
from reports.series.roofline import rooflines
from reports.series.samples import strips
from reports.series.speedups import speedups
from reports.text import plain

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator, Sequence

    from reports.content import Report
    from reports.html.page import Page
    from reports.pivot import PivotTable
    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case


@dataclass(frozen=True, slots=True)
class Stage:
    """What a section is about: cases of one stage in one direction; `place` counts sections."""

    place: int
    name: str
    direction: str

    @property
    def key(self) -> str:
        """Its address on the page: letters, digits and hyphens, whatever the stage is called."""
        return f"stage-{self.place}-{re.sub('[^A-Za-z0-9]+', '-', self.name)}"

    @property
    def title(self) -> str:
        """`qkv forward`."""
        return plain(f"{self.name} {self.direction}")

    def has(self, case: Case) -> bool:
        """Whether the case belongs to it."""
        return (case.stage, case.direction) == (self.name, self.direction)


def stages_of(report: Report) -> list[Stage]:
    """Those with a time, in plan order."""
    timed = dict.fromkeys(
        (row.record.case.stage, row.record.case.direction) for row in report.rows if row.time
    )
    return [Stage(place, *one) for place, one in enumerate(timed)]


def add_stages(page: Page, report: Report, run: Run) -> None:
    """A section for each."""
    drawn = _Series(report, run)
    for stage in stages_of(report):
        names = _variants([row for row in report.rows if stage.has(row.record.case)])
        figures = [one for one in drawn.figures(page, stage, names) if one is not None]
        choice = element("div", follow(f"{stage.key}-follow", names), class_="filters follow")
        page.section(stage.key, stage.title, choice if len(names) > 1 and figures else None, *figures)


class _Series:
    """All series of a run, made once."""

    def __init__(self, report: Report, run: Run) -> None:
        self.report = report
        self.speedups = speedups(report, run)
        self.rates = rate_charts(report)
        self.calls = call_parts(report)
        self.rooflines = rooflines(report)
        self.strips = strips(report, run)
        self.heads = [one for one in pivot.from_run(run, "head_dim", Use()).tables if len(one.values) > 1]

    def figures(self, page: Page, stage: Stage, names: Sequence[str]) -> Iterator[ET.Element | None]:
        """The stage's charts, the answer's first; each is None where the run lacks what it shows."""
        key = stage.key
        speeds = [one for one in self.speedups if stage.has(one.case)]
        rates = [one for one in self.rates if stage.has(one.points[0].row.record.case)]
        calls = [one for one in self.calls if stage.has(one.row.record.case)]
        yield page.figure(f"{key}-speedups", speedups_chart(speeds))
        yield page.figure(f"{key}-rates", rates_chart(rates, names))
        yield page.figure(f"{key}-calls", calls_chart(calls, names))
        heads = [one for one in self.heads if stage.has(one.case)]
        for place, table in enumerate(heads):
            yield page.figure(f"{key}-heads-{place}", heads_chart(table, _told_apart(table, heads)))
            yield _sentences(table)
        for of in self.rooflines:
            yield page.figure(f"{key}-roofline-{plain(of.dtype)}", roofline_chart(of, stage.has, names))
        rows = [row for row in self.report.rows if stage.has(row.record.case)]
        yield page.figure(f"{key}-memory", memory_chart(rows, names))
        own = [strip for strip in self.strips if stage.has(strip.case)]
        yield page.figure(f"{key}-samples", samples_chart(rows, own))


def _sentences(table: PivotTable) -> ET.Element | None:
    return listed(map(plain, table.sentences)) if table.sentences else None


def _told_apart(table: PivotTable, among: Sequence[PivotTable]) -> str:
    """What tells a table from the stage's others: `batch 32`."""
    told = telling([one.case for one in among])
    apart = [f"{title} {text(table.case)}" for title, text in told if title not in ("d_model",)]
    return ", ".join(apart)


def _variants(rows: Sequence[Standing]) -> list[str]:
    """The variants with a time, as shown; first the one that on the geometric mean is nearest to the fastest."""
    best: dict[str, float] = {}
    for row in rows:
        if row.time:
            group = row.record.case.group
            best[group] = min(best.get(group, math.inf), row.time.value_s)
    behind: dict[str, list[float]] = {}
    for row in rows:
        if row.time:
            ratio = row.time.value_s / best[row.record.case.group]
            behind.setdefault(named(row.variant), []).append(math.log(ratio))
    return sorted(behind, key=lambda name: (fmean(behind[name]), name))
