"""How attention uses the tensor cores at each head_dim: useful, active and issued, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from reports import pivot, units
from reports.machine import machine
from reports.pictures.bars import panels
from reports.pictures.picture import BLUE, GOLD, GREEN, GREY, INK, PINK, SKY, VERMILION, Picture, titled
from reports.pivot_cells import Use
from reports.pivot_grids import FINE, title
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.pictures.picture import Row
    from reports.pivot import Cell, PivotTable
    from results.run import Run

NAME = "tensor_use"
STAGE = "attention"
"""The stage whose tiles are as wide as a head: elsewhere head_dim is a part of a wider matmul."""

MOST = 4
"""Variants shown, the fastest ones: a picture is read at a glance."""

USEFUL, ACTIVE, ISSUED = FIGURES = (
    "useful, of the peak rate",
    "active, of cycles",
    "issued ÷ useful",
)
COLOURS = (GREEN, BLUE, VERMILION, PINK, GOLD, SKY, GREY, INK)
"""Of `FINE` head_dims, the narrowest first."""


def tensor_use_picture(run: Run) -> Picture | str:
    """Of the first attention table that has all three figures at several head_dims; else why there is none."""
    pivoted = pivot.from_run(run, "head_dim", Use())
    tables = [(table, _known(table)) for table in pivoted.tables if table.case.stage == STAGE]
    table, shown = next(
        ((table, shown) for table, shown in tables if shown and 1 < len(table.values) <= FINE), (None, [])
    )
    if table is None:
        return f"no {STAGE} at 2 to {FINE} head_dims with counters of what was issued (--counters ncu)"
    rows = [row for variants in shown for row in _rows(table, variants)]
    below = [*title(table, Use()), machine(run.manifest.environment)[0]]
    return Picture(NAME, _finding(table, shown), tuple(rows), titled(_chart(rows), _TITLE, below))


_TITLE = "How attention uses the tensor cores, by head_dim"


def _known(table: PivotTable) -> list[tuple[str, ...]]:
    """The fastest variants whose three figures are known at every value; those that run the same kernels are one."""
    found: dict[object, tuple[str, ...]] = {}
    for variant in table.variants:
        cells = table.cells_of(variant)
        if len(cells) == len(table.values) and all(all(_figures(cell)) for _, cell in cells):
            kernels = tuple(_kernels(cell) for _, cell in cells)
            found[kernels] = (*found.get(kernels, ()), variant)
    return list(found.values())[:MOST]


def _figures(cell: Cell) -> tuple[float, float, float]:
    """Useful and active as shares of 1, issued as a ratio; 0 where one is not known, or where nothing was issued."""
    use = cell.use
    return use.datasheet_fraction or 0.0, (use.tensor_active_percent or 0.0) / 100, use.issued_ratio or 0.0


def _kernels(cell: Cell) -> tuple[str, ...]:
    seen = cell.row.record.dispatch
    return tuple(sorted(kernel.name for kernel in seen.kernels)) if seen else (cell.row.variant,)


def _named(variants: Sequence[str]) -> str:
    return " = ".join(map(plain, variants))


def _rows(table: PivotTable, variants: Sequence[str]) -> list[Row]:
    return [
        {
            "variant": _named(variants),
            "head_dim": str(value),
            "figure": name,
            "value": round(figure, 6),
            "text": f"{figure:.2f} ×" if name == ISSUED else units.percent(figure),
        }
        for value, cell in table.cells_of(variants[0])
        for name, figure in zip(FIGURES, _figures(cell), strict=True)
    ]


def _chart(rows: Sequence[Row]) -> alt.FacetChart:
    longest = {
        name: max(float(row["value"] or 0) for row in rows if row["figure"] == name) for name in FIGURES
    }
    bars = [
        {**row, "start": 0.0, "end": float(row["value"] or 0) / longest[str(row["figure"])]} for row in rows
    ]
    values = list(dict.fromkeys(str(row["head_dim"]) for row in rows))
    color = alt.Color("head_dim:N", legend=None, scale=alt.Scale(domain=values, range=COLOURS[: len(values)]))
    return panels(
        bars, bars, row="variant", column="figure", y="head_dim", color=color, width=215, columns=FIGURES
    )  # fmt: skip


def _finding(table: PivotTable, shown: Sequence[Sequence[str]]) -> str:
    """`At head_dim 32, 64, 72: sdpa = sdpa_cudnn: useful 22, 43, 35 % of the peak, …`."""
    told = []
    for variants in shown:
        figures = [_figures(cell) for _, cell in table.cells_of(variants[0])]
        useful, active = (
            ", ".join(units.percent(one[i]).removesuffix(" %") for one in figures) + " %" for i in (0, 1)
        )
        issued = ", ".join(f"{one[2]:.2f}" for one in figures) + " ×"
        told.append(f"{_named(variants)}: useful {useful} of the peak, active {active}, issued {issued}")
    return f"At head_dim {', '.join(map(str, table.values))}, {'; '.join(told)}."
