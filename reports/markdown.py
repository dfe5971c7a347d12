"""GitHub Markdown: tables and lists, with foreign text that stays text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reports.columns import Grid
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


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, with a blank line between them."""
    return "\n\n".join(part for part in parts if part)


def escape(text: str) -> str:
    """`text` as it must stand inside a line for GitHub to show it: no markup, link, mention or HTML in it acts."""
    line = "".join(_ENTITIES.get(character, character) for character in plain(text))
    line = _STRIKING.sub(lambda found: "&#126;" if found[1] else "~", line)
    return _EMPHASIS.sub("&#95;", line).replace("://", ":<!-- -->//")


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
