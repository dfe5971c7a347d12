"""A pivot table as grids of text: variants down and values across, or the other way round where that is too wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from reports import units
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
    rate_per_s,
    rate_scale,
)
from reports.headline import ACTIVE_MEANING, ISSUED_MEANING, MODE_MEANINGS
from reports.layout import fit
from reports.remarks import outcome_label
from reports.text import MISSING, plain
from results.schema import Outcome
from results.tensor_use import BURST, DATASHEET, GPM, HELD, NCU, SUSTAINED
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.pivot import Cell, Pivot, PivotTable, Value

FINE = 8
"""A sweep of more values is drawn as a line as well, and its table has the values down."""

USEFUL = {
    DATASHEET: "the algorithm's FLOP/s ÷ the datasheet's peak",
    HELD: "the algorithm's FLOP/s ÷ the datasheet's peak at the SM clock it ran at",
    BURST: "the algorithm's FLOP/s ÷ a large matmul's burst on this GPU (rested, caches cold)",
    SUSTAINED: "the algorithm's FLOP/s back to back ÷ what a large matmul sustained on this GPU",
}
MOVED = {
    DATASHEET: "useful of a stage that only moves bytes: B/s ÷ the memory's datasheet peak",
    BURST: "useful of a stage that only moves bytes: B/s ÷ a large copy's on this GPU",
    **dict.fromkeys(
        (HELD, SUSTAINED), "useful of a stage that only moves bytes: B/s, there is no such share"
    ),
}
SOURCES = {NCU: "Nsight Compute, kernel by kernel", GPM: "NVML's GPM, a window of the whole GPU"}


def title(table: PivotTable, peak: str) -> list[str]:
    """`attention forward`, then all that is the same in the whole table, and which head size follows."""
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
        *([f"useful in {scale.unit}"] if (scale := _rates(table, peak)) else []),
    ]


def legend(pivot: Pivot) -> list[str]:
    """What the three figures are, and what the marks of these tables mean."""
    cells = [cell for table in pivot.tables for cell in table.cells.values()]
    rows = [cell.row for cell in cells]
    sources = [SOURCES[name] for name in SOURCES if any(c.use.tensor_active_source == name for c in cells)]
    source = f" ({'; '.join(sources)})" if sources else ""
    compute = [table for table in pivot.tables if not _moves_only(table)]
    in_rates = [_rates(table, pivot.peak) is not None for table in compute]
    said = (
        (True, "each cell: useful % / active % / issued ×"),
        (not all(in_rates), f"useful: {USEFUL[pivot.peak]}"),
        (any(in_rates), f"useful in FLOP/s, its share is not known ({USEFUL[pivot.peak]})"),
        (any(map(_moves_only, pivot.tables)), MOVED[pivot.peak]),
        (True, f"{ACTIVE_MEANING}{source}"),
        (True, ISSUED_MEANING),
        (
            pivot.peak == SUSTAINED and any(table.sentences for table in pivot.tables),
            "marks and sentences: by the times of single calls, not back to back",
        ),
        *((any(row.mode == mode and row.time for row in rows), told) for mode, told in MODE_MEANINGS.items()),
        (any(row.is_fastest for row in rows), f"{FASTEST_MARK} fastest"),
        (any(row.level for row in rows), f"{LEVEL_MARK} level with it: intervals overlap"),
        (any(row.implausible for row in rows), f"{IMPLAUSIBLE_MARK} implausibly fast, not ranked"),
        (
            any(UNSURE_MARK in sentence for table in pivot.tables for sentence in table.sentences),
            f"{UNSURE_MARK}: intervals overlap, exceed ± 25 % or are unknown",
        ),
    )
    return [meaning for used, meaning in said if used]


def variants_down(table: PivotTable, peak: str) -> Grid[str]:
    """A line per variant, a column per value."""
    texts = _texts(table, peak)
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


def values_down(table: PivotTable, peak: str, variants: Sequence[str]) -> Grid[str]:
    """A line per value, a column for each of these variants."""
    texts = _texts(table, peak)
    columns: tuple[Column[str], ...] = (
        Column(table.by, str),
        *(_column(plain(variant), [texts[variant, v] for v in table.values]) for variant in variants),
    )
    lines = (Line((plain(value), *(texts[variant, value] for variant in variants))) for value in table.values)
    return Grid(columns, tuple(lines))


def fitting(table: PivotTable, peak: str, width: int) -> list[Grid[str]]:
    """One grid with the variants down where that fits; else the values down, in as many grids as it takes."""
    across = variants_down(table, peak)
    if _fits(across, width):
        return [across]
    grids: list[Grid[str]] = []
    left = list(table.variants)
    while left:
        counts = range(len(left), 0, -1)
        count = next((n for n in counts if _fits(values_down(table, peak, left[:n]), width)), 1)
        grids.append(values_down(table, peak, left[:count]))
        left = left[count:]
    return grids


def sparklines(table: PivotTable, peak: str) -> list[tuple[str, str]]:
    """(variant, its useful share at each value as a bar) of a fine sweep, from zero to the table's highest."""
    if len(table.values) <= FINE:
        return []
    useful = {place: cell.use.fraction(peak) or 0.0 for place, cell in table.cells.items()}
    highest = max(useful.values(), default=0.0)
    if not highest:
        return []
    return [
        (variant, curve([useful.get((variant, value)) for value in table.values], highest))
        for variant in table.variants
    ]


def sparkline_title(table: PivotTable, peak: str) -> str:
    """What the bars show, from where to where."""
    highest = max((cell.use.fraction(peak) or 0.0 for cell in table.cells.values()), default=0.0)
    return f"useful, 0 to {units.percent(highest)}, at {table.by} {table.values[0]} to {table.values[-1]}"


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


def _texts(table: PivotTable, peak: str) -> dict[tuple[str, Value], str]:
    """Each cell as text, its three figures under those of the other cells."""
    rates = _rates(table, peak)
    parts = {place: _parts(cell, peak, rates) for place, cell in table.cells.items() if _has_figures(cell)}
    widths = [max((len(figures[i]) for figures in parts.values()), default=1) for i in range(3)]
    return {
        (variant, value): _text(table.cells.get((variant, value)), parts.get((variant, value)), widths)
        for variant in table.variants
        for value in table.values
    }


def _text(cell: Cell | None, figures: Sequence[str] | None, widths: Sequence[int]) -> str:
    if cell is None:
        return MISSING
    if figures is None:
        return outcome_label(cell.row.outcome)
    aligned = " / ".join(figure.rjust(width) for figure, width in zip(figures, widths, strict=True))
    return f"{mark(cell.row)}{aligned}"


def _has_figures(cell: Cell) -> bool:
    return cell.row.outcome is Outcome.OK


def _rates(table: PivotTable, peak: str) -> units.Scale | None:
    """How useful rates are shown where no cell of the table has a share; None where one has."""
    cells = table.cells.values()
    if any(cell.use.fraction(peak) is not None for cell in cells):
        return None
    rows = [cell.row for cell in cells]
    return rate_scale(rows) if any(map(rate_per_s, rows)) else None


def _moves_only(table: PivotTable) -> bool:
    return any(cell.row.record.moves_only for cell in table.cells.values())


def _parts(cell: Cell, peak: str, rates: units.Scale | None) -> list[str]:
    active = cell.use.tensor_active_percent
    issued = cell.use.issued_ratio
    return [
        rates.number(rate_per_s(cell.row), 3) if rates else _share(cell.use.fraction(peak)),
        _share(None if active is None else active / 100),
        MISSING if issued is None else f"{issued:.2f}",
    ]


def _share(fraction: float | None) -> str:
    return units.percent(fraction).removesuffix(" %")
