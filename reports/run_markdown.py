"""A run's report as GitHub Markdown, short enough for a comment: the answer, then all else folded."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reports import headline
from reports.answers import answers
from reports.columns import fastest_grid, group_grids, group_title
from reports.curves import curve_grids
from reports.launches import TITLE as LAUNCHES
from reports.launches import launches_grid
from reports.machine import machine
from reports.markdown import bullets, escape, joined, remark_line, table
from reports.markdown_page import LIMIT, Block, Page
from reports.text import shorten
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.content import Report
    from reports.remarks import Remark

ELSEWHERE = "the command above shows all of it"


def to_markdown(report: Report, limit: int = LIMIT) -> str:
    """What ended how, what went wrong, the answers and the winners; folded, how it was measured and every table."""
    page = Page(limit, ELSEWHERE)
    opening(report, page)
    told = [
        f"- **{escape(one.stage)} {escape(one.direction)}** {escape('; '.join(one.sentences))}"
        for one in answers(report)
    ]
    page.most(told, 0, "answers")
    if report.fastest:
        page.most(table(fastest_grid(report)).split("\n"), 2, "winners")
        page.say(escape(headline.certainty(report) or ""))
    measured(report, page, headline.legend(report), report.remarks)
    _groups(report, page)
    for title, curves in curve_grids(report):
        with page.folded(escape(title)):
            page.most(table(curves).split("\n"), 2, "curves")
    if grid := launches_grid(report):
        with page.folded(escape(LAUNCHES)):
            page.most(table(grid).split("\n"), 2, "rows")
    return page.text


def opening(report: Report, page: Page, options: str = "") -> None:
    """The machine and the counts, where the run is stored, and whatever must not be overlooked."""
    on = shorten(machine(report.manifest.environment)[0], 80)
    page.say(f"### {escape(' · '.join([on, *headline.outcomes(report)]))}")
    path = shlex.quote(report.location)
    page.say(f"Stored in {escape(path)}; show again: {escape(f'python -m harness report {path}{options}')}")
    page.most([f"> **{escape(notice)}**" for notice in headline.notices(report)], 0, "notices")
    _faults(report, page)
    page.most([f"- note: {escape(shorten(note))}" for note in report.notes], 0, "notes")


def measured(report: Report, page: Page, legend: Sequence[str], remarks: Sequence[Remark] = ()) -> None:
    """Folded: the machine and how well things are known, what holds for everything, what the tables mean."""
    lines = [(label, " · ".join(map(shorten, parts))) for label, parts in headline.header(report)]
    lines += [("remark", f"{remark.kind}: {remark.sentence}") for remark in remarks]
    lines += [("legend", " · ".join(legend))] if legend else []
    with page.folded("how it was measured, and what the columns mean"):
        page.most([f"- **{label}** {escape(text)}" for label, text in lines], 0, "lines")


def _faults(report: Report, page: Page) -> None:
    failures, doubts = headline.failures(report), headline.doubts(report)
    commands = [f"python -m harness run --resume {shlex.quote(folder)}" for folder in report.unfinished]
    missing = counted(sum(report.unfinished.values()), "trial")
    for title, told in (
        (f"**FAILED: {counted(len(failures), 'case')}**", failures),
        ("**NOT RANKED, too fast to be true:**", doubts),
        (f"Unfinished: {missing} missing; measure what is missing with", commands),
    ):
        if told:
            page.say(title)
            page.most([f"- {escape(line)}" for line in told], 0, "lines")


def _groups(report: Report, page: Page) -> None:
    blocks = [
        Block(
            joined(
                [
                    f"#### {escape(' · '.join(group_title(group)))}",
                    table(grid),
                    bullets(map(remark_line, group.remarks)),
                ]
            ),
            rows=len(grid.lines),
        )
        for group, grid in zip(report.groups, group_grids(report), strict=True)
    ]
    if blocks:
        with page.folded(f"every case, ranked in {counted(len(blocks), 'group')}"):
            page.blocks(blocks, "groups", "cases")
