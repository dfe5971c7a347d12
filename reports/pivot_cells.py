"""What a cell of a pivot shows of its case: how it uses the tensor cores, or how long a call takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from reports import pivot_fastest, pivot_sentences, units
from reports.columns import rate_per_s, rate_scale
from reports.headline import ACTIVE_MEANING, INTERVAL_MEANING, ISSUED_MEANING
from reports.remarks import times_told
from reports.text import MISSING
from results.tensor_use import ACTIVE, BURST, DATASHEET, GPM, HELD, NCU, SUSTAINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from reports.pivot import Cell, PivotTable

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


class Cells(Protocol):
    """The figures of every cell, and what is said of them around a table.

    `options` choose them on the command line; `joint` stands between a cell's figures.
    """

    joint: ClassVar[str]

    @property
    def options(self) -> str:
        """What `report --by` is told to show them again."""

    def unit(self, table: PivotTable) -> str | None:
        """What a table's title says of its numbers, if anything."""

    def legend(self, tables: Sequence[PivotTable], /) -> list[str]:
        """What the figures mean."""

    def figures(self, table: PivotTable) -> Callable[[Cell], list[str]]:
        """A cell's figures as text, all cells' in the same units."""

    def height(self, cell: Cell) -> float | None:
        """What a line draws of a fine sweep."""

    def span(self, highest: float) -> str:
        """What such a line shows, from where to where."""

    def sentences(self, table: PivotTable, /) -> Iterable[str]:
        """What the figures of a table mean together."""

    def remarks(self, cell: Cell, table: PivotTable, /) -> Iterator[tuple[str, str]]:
        """(kind, text) of what an ok cell lacks, and of what must be known of what it has."""


@dataclass(frozen=True, slots=True)
class Use:
    """Useful / active / issued; the useful rate against one of `results.tensor_use.PEAKS`."""

    peak: str = DATASHEET
    joint: ClassVar[str] = " / "

    @property
    def options(self) -> str:
        """See `Cells.options`."""
        return "" if self.peak == DATASHEET else f" --peak {self.peak}"

    def unit(self, table: PivotTable) -> str | None:
        """A rate's, where no share of any peak is known."""
        return f"useful in {scale.unit}" if (scale := self._rates(table)) else None

    def legend(self, tables: Sequence[PivotTable]) -> list[str]:
        """See `Cells.legend`."""
        cells = [cell for table in tables for cell in table.cells.values()]
        found = {cell.use.tensor_active_source for cell in cells}
        source = "; ".join(told for name, told in SOURCES.items() if name in found)
        in_rates = [self._rates(table) is not None for table in tables if not _moves_only(table)]
        said = (
            (True, "each cell: useful % / active % / issued ×"),
            (not all(in_rates), f"useful: {USEFUL[self.peak]}"),
            (any(in_rates), f"useful in FLOP/s, its share is not known ({USEFUL[self.peak]})"),
            (any(map(_moves_only, tables)), MOVED[self.peak]),
            (True, f"{ACTIVE_MEANING} ({source})" if source else ACTIVE_MEANING),
            (True, ISSUED_MEANING),
            (
                self.peak == SUSTAINED and any(table.sentences for table in tables),
                "marks and sentences: by the times of single calls, not back to back",
            ),
        )
        return [meaning for used, meaning in said if used]

    def figures(self, table: PivotTable) -> Callable[[Cell], list[str]]:
        """See `Cells.figures`."""
        rates = self._rates(table)

        def figures(cell: Cell) -> list[str]:
            active, issued = cell.use.tensor_active_percent, cell.use.issued_ratio
            return [
                rates.number(rate_per_s(cell.row), 3) if rates else _share(cell.use.fraction(self.peak)),
                _share(None if active is None else active / 100),
                MISSING if issued is None else f"{issued:.2f}",
            ]

        return figures

    def height(self, cell: Cell) -> float | None:
        """Its useful share."""
        return cell.use.fraction(self.peak)

    def span(self, highest: float) -> str:
        """See `Cells.span`."""
        return f"useful, 0 to {units.percent(highest)}"

    def sentences(self, table: PivotTable) -> Iterable[str]:
        """See `reports.pivot_sentences`."""
        return pivot_sentences.sentences(table)

    def remarks(self, cell: Cell, table: PivotTable) -> Iterator[tuple[str, str]]:
        """Why one of the three is missing; where active is from, if not from where the others are."""
        for figure, name in (
            ("useful", f"{self.peak}_fraction"),
            ("active", ACTIVE),
            ("issued", "issued_ratio"),
        ):
            if name in cell.use.missing:
                yield f"no {figure}", cell.use.missing[name]
        if cell.use.tensor_active_source != GPM:
            return
        if any(other.use.tensor_active_source == NCU for other in table.cells.values()):
            yield "active by GPM", "over a window of the whole GPU; the others by Nsight Compute"
        seen = cell.row.record.utilisation
        if seen and seen.fed_by == "eager":
            yield (
                "fed by eager calls",
                "the GPU may have waited for launches, and counts as idle in active then",
            )

    def _rates(self, table: PivotTable) -> units.Scale | None:
        """How useful rates are shown where no cell of the table has a share; None where one has."""
        cells = table.cells.values()
        if any(cell.use.fraction(self.peak) is not None for cell in cells):
            return None
        rows = [cell.row for cell in cells]
        return rate_scale(rows) if any(map(rate_per_s, rows)) else None


@dataclass(frozen=True, slots=True)
class Times:
    """The time that a case is ranked by, and half its interval."""

    joint: ClassVar[str] = " ± "

    @property
    def options(self) -> str:
        """See `Cells.options`."""
        return f" --show {TIME}"

    def unit(self, table: PivotTable) -> str | None:
        """One for the whole table."""
        return f"times in {self._scale(table).unit}"

    def legend(self, _tables: Sequence[PivotTable]) -> list[str]:
        """See `Cells.legend`."""
        return ["each cell: the time of a call ± %", INTERVAL_MEANING]

    def figures(self, table: PivotTable) -> Callable[[Cell], list[str]]:
        """See `Cells.figures`."""
        scale = self._scale(table)

        def figures(cell: Cell) -> list[str]:
            time = cell.row.time
            return [
                scale.number(self.height(cell), 4),
                units.interval(time.half_width if time else None).removesuffix(" %"),
            ]

        return figures

    def height(self, cell: Cell) -> float | None:
        """Its time, in seconds."""
        return cell.row.time.value_s if cell.row.time else None

    def span(self, highest: float) -> str:
        """See `Cells.span`."""
        return f"time, 0 to {units.duration(highest)}"

    def sentences(self, table: PivotTable) -> Iterable[str]:
        """See `reports.pivot_fastest`."""
        return pivot_fastest.sentences(table)

    def remarks(self, cell: Cell, _table: PivotTable) -> Iterator[tuple[str, str]]:
        """What a time lacks, or was measured under."""
        return times_told(cell.row)

    def _scale(self, table: PivotTable) -> units.Scale:
        return units.time_scale(map(self.height, table.cells.values()))


USE, TIME = "use", "time"
SHOWN = (USE, TIME)
"""What `report --show` takes."""


def _moves_only(table: PivotTable) -> bool:
    return any(cell.row.record.moves_only for cell in table.cells.values())


def _share(fraction: float | None) -> str:
    return units.percent(fraction).removesuffix(" %")
