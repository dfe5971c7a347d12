"""A comparison as GitHub Markdown: for a job's summary, or a comment under a pull request.

GitHub refuses a comment of more than 65,536 characters, so what does not fit is left out, and the page says how much
of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.markdown import bullets, escape, table
from reports.verdicts import from_comparisons
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.comparison import Comparisons

LIMIT = 65_536
"""Characters of one page, counted here as UTF-8 bytes, which are never fewer."""

SPARE = 2_000
"""Kept free for what must be said at all events: the method, and what was left out."""


def to_markdown(comparisons: Comparisons, limit: int = LIMIT) -> str:
    """The answer, the counts, what changed, what is open and why; then every row, collapsed."""
    of = from_comparisons(comparisons)
    page = _Page(limit)
    page.say(f"### {escape(of.title)}")
    page.say(f"**{escape(of.sentence)}**")
    page.say(bullets(f"**{mode}** {escape(counts)}" for mode, counts in of.counts))
    if of.changed.lines:
        page.most(table(of.changed).split("\n"), 2, "changed comparisons")
    page.most([f"- {escape(note)}" for note in of.notes], 0, "notes")
    page.most([f"- {escape(line)}" for line in of.listed], 0, "sides")
    page.most([f"- {escape(reason)}" for reason in of.reasons], 0, "reasons")
    if of.table.lines:
        page.say(f"<details>\n<summary>all of {counted(len(of.table.lines), 'comparison')}</summary>")
        page.most(table(of.table).split("\n"), 2, "comparisons")
        page.say("</details>")
    page.say(escape(of.method))
    return page.text + "\n"


class _Page:
    """Parts with a blank line between them."""

    def __init__(self, limit: int) -> None:
        self.text = ""
        self._limit = limit

    def say(self, part: str) -> None:
        """The part, whole."""
        self.text += f"\n\n{part}" if self.text and part else part

    def most(self, lines: Sequence[str], heading: int, what: str) -> None:
        """As many of the lines as there is room for, the first `heading` of them a table's; then what is left out."""
        room = self._limit - SPARE - len(self.text.encode())
        kept = 0
        while kept < len(lines) and (room := room - len(lines[kept].encode()) - 1) >= 0:
            kept += 1
        if kept > heading:
            self.say("\n".join(lines[:kept]))
        left_out = len(lines) - max(kept, heading)
        if left_out > 0:
            self.say(
                f"*{left_out:,} of {len(lines) - heading:,} {what} left out: a page ends at {self._limit:,} characters*"
            )
