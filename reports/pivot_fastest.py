"""Which value of a pivot's property each variant is fastest at, in words, where times compare: at the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import units
from reports.columns import UNSURE_MARK
from reports.text import conjoined, plain
from results.ranking import apart, overlap
from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reports.pivot import PivotTable, Value
    from results.ranking import Standing
    from results.statistics import Estimate


def sentences(table: PivotTable) -> Iterator[str]:
    """One for each variant with times at several values, in the table's order: `custom is fastest at n_head 8: …`."""
    for variant in table.variants:
        times = {
            value: cell.row.time
            for value, cell in table.cells_of(variant)
            if cell.row.time and cell.row.outcome is Outcome.OK and not cell.row.implausible
        }
        rows = [cell.row for value, cell in table.cells_of(variant) if value in times]
        known = all(row.record.useful_flops or row.record.least_bytes for row in rows)
        if known and len(times) > 1 and len({_alike(row) for row in rows}) == 1:
            yield f"{plain(variant)} is {_standing(table.by, times)}"


def _alike(row: Standing) -> tuple[object, ...]:
    """What two times must have in common for one to be called the shorter."""
    record = row.record
    return record.run_id, row.mode, record.useful_flops, None if record.useful_flops else record.least_bytes


def _standing(by: str, times: dict[Value, Estimate]) -> str:
    """`fastest at n_head 8: at 12 it takes 1.05 × the time`, or `level at n_head 8 and 12: intervals overlap`."""
    best = min(times, key=lambda value: times[value].value_s)
    level = [value for value in times if value != best and overlap(times[best], times[value])]
    behind = [value for value in times if value != best and value not in level]
    if not behind:
        return f"level at {by} {_values(times)}: intervals overlap"
    worst = max(behind, key=lambda value: times[value].value_s)
    peers = f", level at {_values(level)}" if level else ""
    unsure = [value for value in behind if value != worst and not apart(times[best], times[value])]
    doubt = f", not surely so against {_values(unsure)}" if unsure else ""
    mark = "" if apart(times[best], times[worst]) else UNSURE_MARK
    slowest = ", the slowest," if len(behind) > 1 else ""
    ratio = units.ratio(times[worst].value_s / times[best].value_s)
    return f"fastest at {by} {best}{peers}{doubt}: at {worst}{slowest} it takes {mark}{ratio} the time"


def _values(values: Iterable[Value]) -> str:
    return conjoined([str(value) for value in values])
