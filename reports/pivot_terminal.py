"""A pivoted run on the terminal: a table for each sweep, what it means in words, why cells are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from reports.layout import fit
from reports.pivot_grids import fitting, legend, sparkline_title, sparklines, title
from reports.printer import Printer
from reports.terminal import closing, head, print_grid, print_remarks
from reports.terminal import legend as print_legend
from reports.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from reports.pivot import Pivot, PivotTable
    from reports.pivot_cells import Cells


def render(pivot: Pivot, console: Console) -> None:
    """Print the run pivoted; what holds for every table stands once, below them."""
    out = Printer(console)
    head(pivot.report, out)
    print_legend(legend(pivot), out)
    for table in pivot.tables:
        _table(table, pivot.cells, out)
    if pivot.reasons or pivot.left_out:
        out.line()
    print_remarks(pivot.reasons, out)
    if pivot.left_out:
        out.wrapped(pivot.left_out, "dim")
    closing(pivot.report, out, again(pivot))


def again(pivot: Pivot) -> str:
    """The options that pivot the run this way."""
    return f" --by {pivot.by}{pivot.cells.options}"


def _table(table: PivotTable, cells: Cells, out: Printer) -> None:
    out.line()
    out.packed(title(table, cells), "bold")
    _sparklines(table, cells, out)
    for number, grid in enumerate(fitting(table, cells, out.width)):
        if number:
            out.line()
        print_grid(grid, fit([grid], out.width), out)
    for sentence in table.sentences:
        out.wrapped(sentence, label="  ")
    print_remarks(table.reasons, out)


def _sparklines(table: PivotTable, cells: Cells, out: Printer) -> None:
    if drawn := sparklines(table, cells):
        out.line(sparkline_title(table, cells), "dim")
        names = [plain(variant) for variant, _ in drawn]
        widest = max(map(cell_len, names))
        for name, (_, bars) in zip(names, drawn, strict=True):
            out.line(f"{name}{' ' * (widest - cell_len(name))}  {bars}")
        out.line()
