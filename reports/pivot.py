"""A run pivoted: variants against the values of one property, with the figures of one case in each cell.

A table holds what differs in nothing else. The sizes of heads hang together (d_model = n_head × head_dim): where one
is swept, a second stays and the third follows, whichever way the run's plan has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from reports import content
from reports.columns import rate_per_s
from reports.pivot_reasons import reasons_of
from reports.remarks import shared
from reports.text import plain
from results.schema import Outcome
from results.tensor_use import TensorUse, tensor_use
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from reports.pivot_cells import Cells
    from reports.remarks import Remark
    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case

Value: TypeAlias = "int | str"

BY: dict[str, Callable[[Case], Value]] = {
    "head_dim": lambda case: case.head_dim,
    "n_head": lambda case: case.n_head,
    "d_model": lambda case: case.d_model,
    "n_layer": lambda case: case.n_layer,
    "batch": lambda case: case.batch,
    "seq_len": lambda case: case.seq_len,
    "mask": lambda case: "causal" if case.causal else "full",
    "dtype": lambda case: plain(case.dtype),  # the only one that may be foreign text
}
"""What a run can be pivoted by, and a case's value of it."""

STAYS = {
    "head_dim": ("n_head", "d_model"),
    "n_head": ("d_model", "head_dim"),
    "d_model": ("n_head", "head_dim"),
}
"""Which of the two other head sizes may stay while one is swept: as `run` sweeps it first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One case: where it stands in its group, and how it uses the tensor cores."""

    row: Standing
    use: TensorUse


@dataclass(frozen=True, slots=True)
class PivotTable:
    """Cases that differ in nothing but the variant and `by`, and in the head size that follows where `stays` is set.

    `variants` has those that were tried anywhere, the one with the highest useful rate first; `values` are ascending
    where they are numbers. `cells` lacks what the run did not plan. `sentences` say what the figures mean together,
    `reasons` why some are missing.
    """

    by: str
    stays: str | None
    values: tuple[Value, ...]
    variants: tuple[str, ...]
    cells: dict[tuple[str, Value], Cell]
    sentences: tuple[str, ...] = ()
    reasons: tuple[Remark, ...] = ()

    @property
    def case(self) -> Case:
        """One of its cases."""
        return next(iter(self.cells.values())).row.record.case

    def cells_of(self, variant: str) -> list[tuple[Value, Cell]]:
        """The variant's cells, in the order of values."""
        return [
            (value, self.cells[variant, value]) for value in self.values if (variant, value) in self.cells
        ]


@dataclass(frozen=True, slots=True)
class Pivot:
    """A run's tables by one property, each cell with the figures that `cells` makes of it.

    `reasons` hold for every case of every table; `left_out` says what had no second value to stand beside.
    """

    report: content.Report
    by: str
    cells: Cells
    tables: tuple[PivotTable, ...]
    reasons: tuple[Remark, ...] = ()
    left_out: str | None = None


@dataclass
class _Family:
    """The rows of a table to be."""

    stays: str | None
    rows: list[Standing] = field(default_factory=list)

    def values(self, by: str) -> tuple[Value, ...]:
        found = dict.fromkeys(BY[by](row.record.case) for row in self.rows)
        return tuple(sorted(found)) if all(isinstance(one, int) for one in found) else tuple(found)


def from_run(run: Run, by: str, cells: Cells) -> Pivot:
    """The run's cases by one of `BY`, with these figures."""
    rows = run.standings()
    families = list(_families(rows, by))
    wide = [family for family in families if len(family.values(by)) > 1] or families
    tables = [_table(family, by, cells) for family in wide]
    everywhere = shared([table.reasons for table in tables])
    said = {(one.kind, one.text) for one in everywhere}
    lone = len(families) - len(wide)
    return Pivot(
        report=content.from_run(run),
        by=by,
        cells=cells,
        tables=tuple(
            replace(table, reasons=tuple(r for r in table.reasons if (r.kind, r.text) not in said))
            for table in tables
        ),
        reasons=everywhere,
        left_out=f"{counted(lone, 'group')} with one {by} only: not shown" if lone else None,
    )


def _families(rows: Sequence[Standing], by: str) -> Iterator[_Family]:
    """Each row in at least one family, in one with several values of `by` if there is any."""
    left = {row.record.case: row for row in rows}
    for stays in STAYS.get(by, (None,)):
        for family in _alike(rows, by, stays):
            if len(family.values(by)) > 1 and any(row.record.case in left for row in family.rows):
                yield family
                for row in family.rows:
                    left.pop(row.record.case, None)
    yield from _alike(left.values(), by, STAYS.get(by, (None,))[0])


def _alike(rows: Iterable[Standing], by: str, stays: str | None) -> list[_Family]:
    """The rows by all that must not differ in a table."""
    found: dict[tuple[Value, ...], _Family] = {}
    free = {by, *STAYS.get(by, ())} - {stays}
    for row in rows:
        case = row.record.case
        alike = tuple(value(case) for name, value in BY.items() if name not in free)
        found.setdefault((case.stage, case.direction, *alike), _Family(stays)).rows.append(row)
    return list(found.values())


def _table(family: _Family, by: str, shown: Cells) -> PivotTable:
    cells = {
        (row.record.case.variant, BY[by](row.record.case)): Cell(row, tensor_use(row)) for row in family.rows
    }
    tried = _variants(row for row in family.rows if row.outcome is None or not row.outcome.never_tried)
    whole = PivotTable(by, family.stays, family.values(by), _variants(family.rows), cells)
    table = replace(whole, variants=tried or whole.variants)
    return replace(table, sentences=tuple(shown.sentences(table)), reasons=reasons_of(whole, shown))


def _variants(rows: Iterable[Standing]) -> tuple[str, ...]:
    best: dict[str, float] = {}
    for row in rows:
        rate = rate_per_s(row) if row.outcome is Outcome.OK and not row.implausible else None
        best[row.variant] = max(best.get(row.variant, -math.inf), rate or -math.inf)
    return tuple(sorted(best, key=lambda variant: (-best[variant], variant)))
