"""Explanations on the terminal, and as Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from reports.explanation import METHOD, explained
from reports.layout import fit, lines
from reports.markdown import bullets, escape, joined, table
from reports.markdown_page import LIMIT, Block, Page
from reports.printer import Printer
from results.codec import encode
from results.explanation import why_no_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from reports.explanation import Explained
    from results.explanation import Explanation
    from results.ranking import Standing

EVERYWHERE = "at every shape: "

Sides = list[tuple["Standing", "Explanation"]]
"""A case, and where there is one the case that it is held against, at one shape."""


def render(shapes: Sequence[Sides], console: Console) -> None:
    """Print a grid of bars for each shape, then why some are not split and what stands beside the sum."""
    out = Printer(console)
    out.wrapped(METHOD, "dim")
    told, everywhere = _once([explained(sides) for sides in shapes])
    for of in told:
        out.line()
        out.wrapped(of.title, "bold")
        for text, _ in lines(of.grid, fit([of.grid], out.width)):
            out.line(text)
        for line in (*of.beside, *of.reasons):
            out.wrapped(line, "dim", label="  ")
    if everywhere:
        out.line()
    for line in everywhere:
        out.wrapped(line, "dim", label=EVERYWHERE)


def to_markdown(shapes: Sequence[Sides], limit: int = LIMIT) -> str:
    """The same as GitHub Markdown, as many shapes as a comment holds."""
    page = Page(limit, "--json has all of it")
    page.say(escape(METHOD))
    told, everywhere = _once([explained(sides) for sides in shapes])
    page.say(escape(" ".join(f"{EVERYWHERE}{line}." for line in everywhere)))
    page.blocks([_block(of) for of in told], "shapes", "bars")
    return page.text


def _once(shapes: Sequence[Explained]) -> tuple[list[Explained], tuple[str, ...]]:
    """The shapes without the reasons that hold for all of several, and those."""
    first, *more = shapes
    common = tuple(line for line in first.reasons if more and all(line in of.reasons for of in more))
    return [
        replace(of, reasons=tuple(line for line in of.reasons if line not in common)) for of in shapes
    ], common


def _block(of: Explained) -> Block:
    told = bullets(map(escape, (*of.beside, *of.reasons)))
    return Block(joined([f"### {escape(of.title)}", table(of.grid), told]), rows=len(of.grid.lines))


def to_json(shapes: Sequence[Sides]) -> str:
    """Each case with its bars in seconds, or with the reason why it has none, as strict JSON."""
    plain = [
        [
            {"run": standing.record.run_id, "case": asdict(standing.record.case), **asdict(of)}
            | ({"reason": why_no_time(standing)} if of.eager_s is None else {})
            | ({"implausible": standing.implausible} if standing.implausible else {})
            for standing, of in sides
        ]
        for sides in shapes
    ]
    return json.dumps(encode(plain), allow_nan=False, indent=1) + "\n"


WRITERS: dict[str, Callable[[Sequence[Sides]], str]] = {"markdown": to_markdown, "json": to_json}
"""What can be written to stdout, by the name of its option."""
