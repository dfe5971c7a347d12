"""Why cells of a pivoted run lack a figure, and what must be known of those they have: each once, with its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from reports.remarks import FROM_RUN, IMPLAUSIBLE, Remark, absence, company
from results.machines import whence as named
from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.pivot import Cell, PivotTable, Value
    from reports.pivot_cells import Cells

Place: TypeAlias = "tuple[str, Value]"
"""A variant, and the value it stands at."""


def reasons_of(table: PivotTable, cells: Cells) -> tuple[Remark, ...]:
    """What went wrong first, then what is missing, then whence; universal is what holds for every ok case."""
    about: dict[tuple[str, str], list[Place]] = {}
    runs = named(cell.row.manifest for cell in table.cells.values())
    for place, cell in table.cells.items():
        ok = cell.row.outcome is Outcome.OK  # without, the reason for all is told already
        remarks = cells.remarks(cell, table) if ok else ()
        whence = [(FROM_RUN, runs[cell.row.manifest.run_id])] if len(runs) > 1 and ok else ()
        for said in (*_wrong(cell), *whence, *remarks, *company(cell.row.record)):
            about.setdefault(said, []).append(place)
    return tuple(Remark(kind, text, *_whom(table, places)) for (kind, text), places in _joined(about).items())


def _wrong(cell: Cell) -> Iterator[tuple[str, str]]:
    if cell.row.outcome is not Outcome.OK:
        yield absence(cell.row)[1:]
    if cell.row.implausible:
        yield IMPLAUSIBLE, cell.row.implausible


def _joined(about: dict[tuple[str, str], list[Place]]) -> dict[tuple[str, str], list[Place]]:
    """One reason for several figures of the same cells is one: `no active, no issued`."""
    kinds: dict[tuple[str, tuple[Place, ...]], list[str]] = {}
    for (kind, text), places in about.items():
        kinds.setdefault((text, tuple(places)), []).append(kind)
    return {(", ".join(names), text): list(places) for (text, places), names in kinds.items()}


def _whom(table: PivotTable, places: Sequence[Place]) -> tuple[tuple[str, ...], bool]:
    """The variants, with the values where it is not all of a variant's; and whether it is every ok case."""
    ok = [place for place, cell in table.cells.items() if cell.row.outcome is Outcome.OK]
    if set(places) == set(ok):
        return tuple(dict.fromkeys(variant for variant, _ in places)), True
    of_variant: dict[str, list[Value]] = {}
    for variant, value in places:
        of_variant.setdefault(variant, []).append(value)
    return tuple(
        variant if len(values) == len(table.cells_of(variant)) else f"{variant} at {few(values)}"
        for variant, values in of_variant.items()
    ), False


def few(values: Sequence[Value]) -> str:
    """`32, 64` or, of many, `16 to 256 (9 values)`."""
    if len(values) <= 4:
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]} ({len(values)} values)"
