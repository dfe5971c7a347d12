"""A comparison on the terminal: the answer first and last, what changed at the top of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.layout import fit, lines
from reports.printer import Printer
from reports.verdicts import from_comparisons

if TYPE_CHECKING:
    from rich.console import Console

    from results.comparison import Comparisons

STYLES = {
    "slower": "bold red",
    "faster": "bold green",
    "undecided": "yellow",
    "unguarded": "",
    "same": "dim",
    "title": "dim",
    "regression": "bold red",
    "failed": "bold red",
    "fine": "bold green",
    "": "",
}


def render(comparisons: Comparisons, console: Console) -> None:
    """Print the whole comparison."""
    of = from_comparisons(comparisons)
    out = Printer(console)
    out.wrapped(of.title, "bold", label=f"{'compared':<11}")
    out.wrapped(of.method, label=f"{'verdicts':<11}")
    for note in of.notes:
        out.wrapped(note, "yellow", label=f"{'note':<11}")
    if of.table.lines:
        layout = fit([of.table], out.width)
        out.line()
        for text, emphasis in lines(of.table, layout):
            out.line(text, STYLES[emphasis])
        if layout.dropped:
            out.wrapped(f"left out in {out.width} columns: {', '.join(layout.dropped)}", "dim")
    out.line()
    for text in (*of.reasons, *of.listed):
        out.wrapped(text, "dim", label="")
    for mode, counts in of.counts:
        out.wrapped(counts, label=f"{mode:<11}")
    out.wrapped(of.sentence, STYLES[of.alarm])
