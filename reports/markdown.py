"""A report as GitHub Markdown: the terminal's tables, with foreign text that stays text."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from reports import headline
from reports.columns import fastest_grid, group_grids, group_title
from reports.launches import TITLE as LAUNCHES
from reports.launches import launches_grid
from reports.text import plain, shorten
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reports.columns import Grid
    from reports.content import Report
    from reports.remarks import Remark

# Entities hold inside and outside a table, where GitHub reads a backslash before a pipe in two ways. Only what
# acts is escaped: `(` and `!` need a bracket beside them, and `>` quotes at a line's start only, where no
# foreign text ever stands.
_ENTITIES = {character: f"&#{ord(character)};" for character in "\\`*[]<&|$"}
# A comment after it breaks a mention or an issue's number without changing what is read.
_ENTITIES |= {"@": "@<!-- -->", "#": "#<!-- -->"}
# `~1.3` can open what is struck through but never close it: all other tildes are escaped.
_STRIKING = re.compile(r"(?<!\S)~(?=\d)|(~)")
_EMPHASIS = re.compile(r"(?<![^\W_])_|_(?![^\W_])")


def to_markdown(report: Report) -> str:
    """The whole report, in the terminal's order."""
    remarks = [("remark", f"{remark.kind}: {remark.sentence}") for remark in report.remarks]
    tables = [*_groups(report), *_launches(report), *_fastest(report)]
    return page([*head(report, headline.legend(report), remarks), *tables, *closing(report)])


def page(parts: Iterable[str]) -> str:
    """The parts that are not empty, with a blank line between them."""
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """`text` as it must stand inside a line for GitHub to show it: no markup, link, mention or HTML in it acts."""
    line = "".join(_ENTITIES.get(character, character) for character in plain(text))
    line = _STRIKING.sub(lambda found: "&#126;" if found[1] else "~", line)
    return _EMPHASIS.sub("&#95;", line).replace("://", ":<!-- -->//")


def head(report: Report, legend: Sequence[str], remarks: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    """What must be said first, machine and measurement, these (label, text) remarks, and the legend."""
    yield from (f"> **{escape(notice)}**" for notice in headline.notices(report))
    lines = [(label, " · ".join(parts)) for label, parts in headline.header(report)]
    yield bullets(f"**{label}** {escape(text)}" for label, text in (*lines, *remarks))
    yield escape(" · ".join(legend))


def _groups(report: Report) -> Iterator[str]:
    for group, grid in zip(report.groups, group_grids(report), strict=True):
        yield f"### {escape(' · '.join(group_title(group)))}"
        yield table(grid)
        yield bullets(map(remark_line, group.remarks))


def _launches(report: Report) -> Iterator[str]:
    if grid := launches_grid(report):
        yield f"### {escape(LAUNCHES)}"
        yield table(grid)


def _fastest(report: Report) -> Iterator[str]:
    if report.fastest:
        yield "### fastest of each group"
        yield table(fastest_grid(report))
        yield escape(headline.certainty(report) or "")


def closing(report: Report, options: str = "") -> Iterator[str]:
    """Counts, notes and faults; what is missing; where it is stored, and the command that shows this again."""
    yield escape(" · ".join(headline.outcomes(report)))
    yield bullets(f"note: {escape(shorten(note))}" for note in report.notes)
    failures = headline.failures(report)
    if failures:
        yield f"**FAILED: {counted(len(failures), 'case')}**"
        yield bullets(map(escape, failures))
    doubts = headline.doubts(report)
    if doubts:
        yield "**NOT RANKED, too fast to be true:**"
        yield bullets(map(escape, doubts))
    path = shlex.quote(report.location)
    if report.unfinished:
        yield f"Unfinished: {counted(sum(report.unfinished.values()), 'trial')} missing; measure what is missing with"
        yield bullets(
            escape(f"python -m harness run --resume {shlex.quote(folder)}") for folder in report.unfinished
        )
    yield f"Stored in {escape(path)}; show again: {escape(f'python -m harness report {path}{options}')}"


def table(grid: Grid[Any]) -> str:
    """The grid as a Markdown table, every cell escaped."""
    width = len(grid.columns)
    rules = [":--" if column.left else "--:" for column in grid.columns]
    rows = [[column.title.strip() for column in grid.columns]]
    for line in grid.lines:
        cells = line.cells if line.instead is None else (line.cells[0], line.instead)
        rows.append([*cells, *[""] * (width - len(cells))])
    head, *body = [" | ".join(escape(cell.strip()) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in (head, " | ".join(rules), *body))


def remark_line(remark: Remark) -> str:
    """`kind – whom it is about, and what is said of them`."""
    return f"{escape(remark.kind)} – {escape(remark.sentence)}"


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)
