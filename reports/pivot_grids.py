"""A pivot table as grids of text: variants down and values across, or the other way round where that is too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from reports.bars import curve
from reports.columns import (
    FASTEST_MARK,
    IMPLAUSIBLE_MARK,
    LEVEL_MARK,
    UNSURE_MARK,
    Column,
    Grid,
    Line,
    mark,
)
from reports.headline import MODE_MEANINGS
from reports.layout import fit
from reports.remarks import outcome_label
from reports.text import MISSING, plain
from results.schema import Outcome
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.pivot import Cell, Pivot, PivotTable, Value
    from reports.pivot_cells import Cells

FINE = 8
"""A sweep of more values is drawn as a line as well, and its table has the values down."""


def title(table: PivotTable, cells: Cells) -> list[str]:
    """`attention forward`, then all that is the same in the whole table, which head size follows, and the unit."""
    case = table.case
    heads = {"head_dim": case.head_dim, "n_head": case.n_head, "d_model": case.d_model}
    sizes = {"batch": case.batch, "seq_len": case.seq_len, **_fixed_heads(table, heads)}
    follows = [name for name in heads if table.stays and name not in (table.by, table.stays)]
    return [
        plain(f"{case.stage} {case.direction}"),
        *(f"{name} {size}" for name, size in sizes.items() if name != table.by),
        *(f"{name} follows {table.by}" for name in follows),
        *([counted(case.n_layer, "layer")] if case.is_stack and table.by != "n_layer" else []),
        *([] if table.by == "mask" else ["causal" if case.causal else "full"]),
        *([] if table.by == "dtype" else [plain(case.dtype)]),
        *([unit] if (unit := cells.unit(table)) else []),
    ]


def legend(pivot: Pivot) -> list[str]:
    """What the figures of a cell are, and what the marks of these tables mean."""
    rows = [cell.row for table in pivot.tables for cell in table.cells.values()]
    said = (
        *((any(row.mode == mode and row.time for row in rows), told) for mode, told in MODE_MEANINGS.items()),
        (any(row.is_fastest for row in rows), f"{FASTEST_MARK} fastest"),
        (any(row.level for row in rows), f"{LEVEL_MARK} level with it: intervals overlap"),
        (any(row.implausible for row in rows), f"{IMPLAUSIBLE_MARK} implausibly fast, not ranked"),
        (
            any(UNSURE_MARK in sentence for table in pivot.tables for sentence in table.sentences),
            f"{UNSURE_MARK}: intervals overlap, exceed ± 25 % or are unknown",
        ),
    )
    return [*pivot.cells.legend(pivot.tables), *(meaning for used, meaning in said if used)]


def variants_down(table: PivotTable, cells: Cells) -> Grid[str]:
    """A line per variant, a column per value."""
    texts = _texts(table, cells)
    columns: tuple[Column[str], ...] = (
        Column("variant", plain, left=True, least=14),
        *(
            _column(f"{table.by} {value}", [texts[v, value] for v in table.variants])
            for value in table.values
        ),
    )
    lines = (
        Line((plain(variant), *(texts[variant, value] for value in table.values)))
        for variant in table.variants
    )
    return Grid(columns, tuple(lines))


def values_down(table: PivotTable, cells: Cells, variants: Sequence[str]) -> Grid[str]:
    """A line per value, a column for each of these variants."""
    texts = _texts(table, cells)
    columns: tuple[Column[str], ...] = (
        Column(table.by, str),
        *(_column(plain(variant), [texts[variant, v] for v in table.values]) for variant in variants),
    )
    lines = (Line((plain(value), *(texts[variant, value] for variant in variants))) for value in table.values)
    return Grid(columns, tuple(lines))


def fitting(table: PivotTable, cells: Cells, width: int) -> list[Grid[str]]:
    """One grid with the variants down where that fits; else the values down, in as many grids as it takes."""
    across = variants_down(table, cells)
    if _fits(across, width):
        return [across]
    grids: list[Grid[str]] = []
    left = list(table.variants)
    while left:
        counts = range(len(left), 0, -1)
        count = next((n for n in counts if _fits(values_down(table, cells, left[:n]), width)), 1)
        grids.append(values_down(table, cells, left[:count]))
        left = left[count:]
    return grids


def sparklines(table: PivotTable, cells: Cells) -> list[tuple[str, str]]:
    """(variant, a bar at each value) of a fine sweep, from zero to the table's highest."""
    highest = _highest(table, cells)
    if len(table.values) <= FINE or not highest:
        return []
    heights = {place: cells.height(cell) or 0.0 for place, cell in table.cells.items()}
    return [
        (variant, curve([heights.get((variant, value)) for value in table.values], highest))
        for variant in table.variants
    ]


def sparkline_title(table: PivotTable, cells: Cells) -> str:
    """What the bars show, from where to where."""
    span = cells.span(_highest(table, cells))
    return f"{span}, at {table.by} {table.values[0]} to {table.values[-1]}"


def _highest(table: PivotTable, cells: Cells) -> float:
    return max((cells.height(cell) or 0.0 for cell in table.cells.values()), default=0.0)


def _fixed_heads(table: PivotTable, heads: dict[str, int]) -> dict[str, int | str]:
    """The head sizes that are the same in the whole table."""
    if table.stays:
        return {table.stays: heads[table.stays]}
    return {"d_model": f"{heads['d_model']} = {heads['n_head']}×{heads['head_dim']}"}


def _column(name: str, cells: Sequence[str]) -> Column[str]:
    """Its title may be folded, its cells may not."""
    return Column(name, str, least=max(map(cell_len, cells), default=1))


def _fits(grid: Grid[str], width: int) -> bool:
    layout = fit([grid], width)
    return sum(layout.widths) + layout.gap * (len(layout.widths) - 1) <= width


def _texts(table: PivotTable, cells: Cells) -> dict[tuple[str, Value], str]:
    """Each cell as text, its figures under those of the other cells."""
    figures = cells.figures(table)
    parts = {place: figures(cell) for place, cell in table.cells.items() if _has_figures(cell)}
    widths = [max(map(len, of_all)) for of_all in zip(*parts.values(), strict=True)]

    def text(place: tuple[str, Value]) -> str:
        if place not in table.cells:
            return MISSING
        row = table.cells[place].row
        if place not in parts:
            return outcome_label(row.outcome)
        aligned = (figure.rjust(width) for figure, width in zip(parts[place], widths, strict=True))
        return f"{mark(row)}{cells.joint.join(aligned)}"

    return {(variant, value): text((variant, value)) for variant in table.variants for value in table.values}


def _has_figures(cell: Cell) -> bool:
    return cell.row.outcome is Outcome.OK
