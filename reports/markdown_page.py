"""A page of Markdown that GitHub accepts: what does not fit is left out, and the page says how much of it.

GitHub refuses a comment of more than 65,536 characters. What must be said at all events goes first, what can be long
after it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIMIT = 65_536
"""Characters of one page, counted here as UTF-8 bytes, which are never fewer."""

SPARE = 2_000
"""Kept free for what follows the long parts: titles of what is folded, and what was left out."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part that is shown whole or not at all, and how many rows of a table it holds."""

    text: str
    rows: int


class Page:
    """Parts with a blank line between them; `elsewhere` says where everything is that is left out here."""

    def __init__(self, limit: int, elsewhere: str) -> None:
        self._parts: list[str] = []
        self._bytes = 0
        self._limit = limit
        self._elsewhere = elsewhere

    @property
    def text(self) -> str:
        """The whole page."""
        return "\n\n".join(self._parts) + "\n"

    def say(self, part: str) -> None:
        """The part, whole; nothing where it is empty."""
        if part:
            self._parts.append(part)
            self._bytes += _size(part) + 1

    def most(self, lines: Sequence[str], heading: int, what: str) -> None:
        """As many of the lines as there is room for, the first `heading` of them a table's; then what is left out."""
        room, kept = self._room(), 0
        while kept < len(lines) and (room := room - _size(lines[kept])) >= 0:
            kept += 1
        if kept > heading:
            self.say("\n".join(lines[:kept]))
        rows = len(lines) - heading
        self._left_out(f"{rows - max(kept - heading, 0):,} of {rows:,} {what}", kept < len(lines))

    def blocks(self, blocks: Sequence[Block], what: str, rows: str) -> None:
        """As many of the blocks as there is room for, in their order; then what is left out, in blocks and in rows."""
        absent = []
        for block in blocks:
            if _size(block.text) + 1 <= self._room():
                self.say(block.text)
            else:
                absent.append(block)
        missing, every = (sum(block.rows for block in some) for some in (absent, blocks))
        told = f"{len(absent):,} of {len(blocks):,} {what}, with {missing:,} of {every:,} {rows},"
        self._left_out(told, bool(absent))

    @contextmanager
    def folded(self, summary: str) -> Iterator[None]:
        """What is said meanwhile is hidden behind this line until a reader opens it."""
        self.say(f"<details>\n<summary>{summary}</summary>")
        yield
        self.say("</details>")

    def _left_out(self, told: str, anything: bool) -> None:
        if anything:
            self.say(f"*{told} left out: a page ends at {self._limit:,} characters; {self._elsewhere}*")

    def _room(self) -> int:
        return self._limit - SPARE - self._bytes


def _size(text: str) -> int:
    """Its bytes, and the end of its line."""
    return len(text.encode()) + 1
