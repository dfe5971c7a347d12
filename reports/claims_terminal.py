"""Judged claims on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.claims import METHOD, with_reason
from reports.printer import Printer
from results.claims.claim import Answer, Judgement

if TYPE_CHECKING:
    from rich.console import Console

    from reports.claims import Claims, Told

STYLES = {
    Judgement.SUPPORTED.value: "bold green",
    Judgement.PARTLY.value: "bold yellow",
    Judgement.REFUTED.value: "bold red",
    Judgement.NOT_MEASURABLE.value: "dim",
    Answer.HOLDS.value: "green",
    Answer.FAILS.value: "red",
}

IN_FULL = 3
"""Up to so many claims are shown with all their statements."""


def render(claims: Claims, console: Console) -> None:
    """Print the table, then each claim in two sentences; with every statement where few were asked for."""
    out = Printer(console)
    out.wrapped(claims.title, "bold", label=f"{'claims':<11}")
    out.wrapped(METHOD, label=f"{'verdicts':<11}")
    for note in claims.notes:
        out.wrapped(note, "yellow", label=f"{'note':<11}")
    if len(claims.told) > 1:
        out.line()
        for line in claims.table.lines:
            claim, verdict, holds, words = line.cells
            out.wrapped(words, "not bold", label=f"{claim:<4} {verdict:<19} {holds:>8}  ")
    for told in claims.told:
        out.line()
        _claim(told, out, in_full=len(claims.told) <= IN_FULL)


def _claim(told: Told, out: Printer, *, in_full: bool) -> None:
    out.line(f"{told.id}  {told.judgement}", STYLES[told.judgement])
    out.wrapped(told.words, "italic", label="     ")
    for sentence in told.sentences:
        out.wrapped(sentence, label="     ")
    for part in told.parts if in_full else ():
        margin = f" [{part.margin}]" if part.margin else ""
        out.wrapped(
            with_reason(part) + margin, STYLES.get(part.answer, "dim"), label=f"     {part.answer:<10}"
        )
    out.line(f"     measure it: {told.command}", "dim")
