"""A page of verdicts: head against base, the answer first, a forest of ratios, every verdict, and both sides' runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import content, units, verdicts
from reports.columns import Column
from reports.html.about import add_records, asked, facts_of
from reports.html.charts.forest import forest_chart
from reports.html.embedded import raw_records
from reports.html.markup import element, listed
from reports.html.page import Page
from reports.html.tables import Filter, Sorted, Table, table
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.comparison import Comparison, Comparisons
    from results.run import Run

SHOWN_RUNS = 10
"""The records of more runs than this are not carried: the page is to be sent by mail."""


def comparison_page(of: Sequence[Comparisons], runs: Sequence[Run], told: Sequence[str] = ()) -> str:
    """The document of one comparison or more, `runs` all that they compare, `told` what else there is to say."""
    heads = " and ".join(plain(one.head) for one in of)
    page = Page(f"{heads} against {plain(of[0].base)}", tuple(told))
    for place, one in enumerate(of):
        _add_answer(page, one, place, len(of))
    for place, one in enumerate(of):
        _add_verdicts(page, one, place, len(of))
    for place, run in enumerate(runs):
        report = content.from_run(run)
        page.section(
            f"run-{place}", f"Run {plain(run.manifest.run_id)}", facts_of(report), asked(run.manifest)
        )
    carried = runs[:SHOWN_RUNS]
    for place, run in enumerate(carried):
        page.downloads += raw_records(run, f"{place + 1}-")
    add_records(page)
    return page.html()


def _add_answer(page: Page, of: Comparisons, place: int, count: int) -> None:
    shown = verdicts.from_comparisons(of)
    counts = [part for mode, found in shown.counts for part in (element("dt", mode), element("dd", found))]
    page.section(
        "answers" if place == 0 else f"answers-{place}",
        "The answer" if count == 1 else f"The answer: {plain(of.head)}",
        element("p", f"{shown.sentence[0].upper()}{shown.sentence[1:]}.", class_=f"which {shown.alarm}"),
        element("dl", *counts, class_="facts") if counts else None,
        element("div", *(element("p", note) for note in shown.notes), class_="notice")
        if shown.notes
        else None,
        element("p", shown.method),
        page.figure(f"forest-{place}", forest_chart(of)),
    )


def _add_verdicts(page: Page, of: Comparisons, place: int, count: int) -> None:
    shown = verdicts.from_comparisons(of)
    rows = verdicts.in_order(of)
    page.section(
        f"verdicts-{place}",
        "Every verdict" if count == 1 else f"Every verdict: {plain(of.head)}",
        table(f"verdicts-table-{place}", _table(of, rows))
        if rows
        else element("p", "Nothing could be compared."),
        element("h3", "What has no verdict, and why") if shown.reasons or shown.listed else None,
        listed([*shown.reasons, *shown.listed]) if shown.reasons or shown.listed else None,
    )


def _table(of: Comparisons, rows: Sequence[Comparison]) -> Table[Comparison]:
    titles = verdicts.titles_of(of)
    return Table(
        caption=f"Verdicts of {plain(of.head)} against {plain(of.base)}",
        noun="comparisons",
        columns=(
            Sorted(Column("variant", lambda row: plain(row.case.variant), left=True)),
            Sorted(Column("verdict", lambda row: row.verdict.value, left=True)),
            Sorted(Column("case", lambda row: titles[row.case.group], left=True)),
            Sorted(Column("mode", lambda row: row.mode, left=True)),
            Sorted(Column("change", lambda row: verdicts.change(row.ratio)), lambda row: row.ratio),
            Sorted(Column("interval", verdicts.interval), lambda row: row.low),
            Sorted(Column("base", lambda row: units.duration(row.base_s)), lambda row: row.base_s),
            Sorted(Column("head", lambda row: units.duration(row.head_s)), lambda row: row.head_s),
            Sorted(Column(of.unit, verdicts.count), lambda row: row.base_count),
            Sorted(Column("may fail a CI", lambda row: "yes" if row.guarded else "no", left=True)),
        ),
        rows=rows,
        filters=(
            Filter("verdict", "Verdict", lambda row: row.verdict.value),
            Filter("stage", "Stage", lambda row: plain(row.case.stage)),
            Filter("direction", "Direction", lambda row: plain(row.case.direction)),
            Filter("shape", "Shape", lambda row: titles[row.case.group]),
            Filter("mode", "Timing mode", lambda row: row.mode),
        ),
        search=lambda row: row.case.variant,
        emphasis=lambda row: {"slower": "slower", "faster": "fastest"}.get(row.verdict.value, ""),
    )
