"""A report on the terminal: fixed-width tables in 80 columns or more, readable without colour."""

from __future__ import annotations

import os
import shlex
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from reports import headline
from reports.answers import answers
from reports.columns import Grid, fastest_grid, group_grids, group_title
from reports.curves import curve_grids
from reports.launches import TITLE as LAUNCHES
from reports.launches import launches_grid
from reports.layout import Layout, fit, lines
from reports.printer import Printer
from reports.remarks import IMPLAUSIBLE
from reports.text import plain, shorten
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.content import Report
    from reports.remarks import Remark

PIPED_WIDTH = 100

STYLES = {
    "fastest": "bold green",
    "level": "green",
    "failed": "bold red",
    "implausible": "bold yellow",
    "absent": "dim",
    "title": "dim",
    "": "",
}


def new_console(file: TextIO | None = None, width: int | None = None) -> Console:
    """A console for reports: as wide as the terminal, or 100 columns where there is none, or COLUMNS.

    A stream whose encoding lacks a sign (µ, ×) shows `?` in its place.
    """
    file = file or sys.stdout
    if isinstance(file, TextIOWrapper):
        file.reconfigure(errors="replace")
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    piped = not console.is_terminal and not os.environ.get("COLUMNS")
    if width is None and (piped or console.width < 1):  # of no width nothing would be shown
        console.width = PIPED_WIDTH
    return console


def render(report: Report, console: Console) -> None:
    """Print the whole report: header, a table per group, curves, the winners, what they mean, where it is stored."""
    out = Printer(console)
    head(report, out)
    for number, remark in enumerate(report.remarks):
        out.wrapped(f"{remark.kind}: {remark.sentence}", label=f"{'' if number else 'remarks':<11}")
    legend(headline.legend(report), out)
    _groups(report, out)
    _curves(report, out)
    _launches(report, out)
    _fastest(report, out)
    _answers(report, out)
    closing(report, out)


def head(report: Report, out: Printer) -> None:
    """What must be said first; machine, software, and what was measured how well."""
    for notice in headline.notices(report):
        out.wrapped(notice, "bold yellow", label="! ")
    for label, parts in headline.header(report):
        out.packed(parts, label=f"{label:<11}")


def legend(meanings: Sequence[str], out: Printer) -> None:
    """What the marks and titles of the tables below mean."""
    if meanings:
        out.line()
        out.packed(meanings, "dim")


def _groups(report: Report, out: Printer) -> None:
    grids = group_grids(report)
    layout = fit(grids, out.width)
    for group, grid in zip(report.groups, grids, strict=True):
        out.line()
        out.packed(group_title(group), "bold")
        print_grid(grid, layout, out)
        print_remarks(group.remarks, out)
    if layout.dropped:
        out.line()
        _dropped(layout, out)


def _curves(report: Report, out: Printer) -> None:
    for title, grid in curve_grids(report):
        out.line()
        out.wrapped(title, "bold")
        print_grid(grid, fit([grid], out.width), out)


def _launches(report: Report, out: Printer) -> None:
    if grid := launches_grid(report):
        out.line()
        out.wrapped(LAUNCHES, "bold")
        print_grid(grid, fit([grid], out.width), out)


def _fastest(report: Report, out: Printer) -> None:
    if report.fastest:
        grid = fastest_grid(report)
        layout = fit([grid], out.width)
        out.line()
        out.line("fastest of each group", "bold")
        print_grid(grid, layout, out)
        if doubt := headline.certainty(report):
            out.wrapped(doubt, "yellow")
        if layout.dropped:
            out.line()
            _dropped(layout, out)


def _answers(report: Report, out: Printer) -> None:
    for answer in answers(report):
        out.line()
        out.line(f"{answer.stage} {answer.direction}", "bold")
        for sentence in answer.sentences:
            out.wrapped(sentence, label="  ")


def closing(report: Report, out: Printer, options: str = "") -> None:
    """Counts, notes and faults; what is missing; where it is stored, and the command that shows this again."""
    path = plain(shlex.quote(report.location))
    out.line()
    out.packed(headline.outcomes(report))
    for note in report.notes:
        out.wrapped(shorten(note), "yellow", label="note  ")
    failures = headline.failures(report)
    if failures:
        out.line(f"FAILED: {counted(len(failures), 'case')}", "bold red")
        for failure in failures:
            out.wrapped(failure, "red", label="  ")
    doubts = headline.doubts(report)
    if doubts:
        out.line("NOT RANKED, too fast to be true:", "bold yellow")
        for doubt in doubts:
            out.wrapped(doubt, "yellow", label="  ")
    if report.unfinished:
        missing = counted(sum(report.unfinished.values()), "trial")
        out.line(f"unfinished: {missing} missing; measure what is missing with", "yellow")
        for folder in report.unfinished:
            out.line(f"  python -m harness run --resume {plain(shlex.quote(folder))}")
    out.line(f"stored in {path}")
    out.line(f"show again: python -m harness report {path}{options}")


def _dropped(layout: Layout, out: Printer) -> None:
    out.wrapped(f"left out in {out.width} columns: {', '.join(layout.dropped)}", "dim")


def print_grid(grid: Grid[Any], layout: Layout, out: Printer) -> None:
    """The grid's title line and its rows, each in its style."""
    for text, emphasis in lines(grid, layout):
        out.line(text, STYLES[emphasis])


def print_remarks(remarks: Sequence[Remark], out: Printer) -> None:
    """What is to be said of the table above, kinds in a column of their own."""
    indent = max((len(remark.kind) for remark in remarks), default=0)
    for remark in remarks:
        style = STYLES["implausible"] if remark.kind == IMPLAUSIBLE else "dim"
        out.wrapped(remark.sentence, style, label=f"    {remark.kind:<{indent}}  ")
