"""A comparison as GitHub Markdown: for a job's summary, or a comment under a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.markdown import bullets, escape, table
from reports.markdown_page import LIMIT, Page
from reports.verdicts import from_comparisons
from results.words import counted

if TYPE_CHECKING:
    from results.comparison import Comparisons

ELSEWHERE = "the same command with --csv has all of it"


def to_markdown(comparisons: Comparisons, limit: int = LIMIT) -> str:
    """The answer, the counts, what changed, what is open and why; then every row, folded."""
    of = from_comparisons(comparisons)
    page = Page(limit, ELSEWHERE)
    page.say(f"### {escape(of.title)}")
    page.say(f"**{escape(of.sentence)}**")
    page.say(bullets(f"**{mode}** {escape(counts)}" for mode, counts in of.counts))
    page.say(escape(of.method))
    if of.changed.lines:
        page.most(table(of.changed).split("\n"), 2, "changed comparisons")
    page.most([f"- {escape(note)}" for note in of.notes], 0, "notes")
    page.most([f"- {escape(line)}" for line in of.listed], 0, "sides")
    page.most([f"- {escape(reason)}" for reason in of.reasons], 0, "reasons")
    if of.table.lines:
        with page.folded(f"all of {counted(len(of.table.lines), 'comparison')}"):
            page.most(table(of.table).split("\n"), 2, "comparisons")
    return page.text
