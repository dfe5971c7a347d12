"""The memory that a call needs above what is resident, a row per variant, a dot per shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports import units
from reports.columns import case_title
from reports.html.charts.chart import Chart, named, spec_of, told
from reports.html.charts.dots import dots, sign_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from results.ranking import Standing
    from results.schema import Case

MIB = 2**20


def memory_chart(rows: Sequence[Standing], variants: Sequence[str]) -> Chart | None:
    """One stage's, `variants` in their order; None where no more than one variant's memory is known."""
    known = [row for row in rows if row.time and row.record.peak_delta_bytes]
    shown = [name for name in variants if any(named(row.variant) == name for row in known)]
    if len(shown) < 2:
        return None
    places = {
        group: place for place, group in enumerate(dict.fromkeys(row.record.case.group for row in known))
    }
    sign = sign_of([row.record.case for row in known])
    points = [_row(row, places[row.record.case.group], sign) for row in known]
    tooltip = told(variant="variant", shape="shape", memory="told")
    most = max(known, key=lambda row: row.record.peak_delta_bytes or 0)
    return Chart(
        title="Memory that a call needs",
        caption="Peak above what was resident before the call, its results included. A dot per shape.",
        spoken=f"Peak memory of {len(shown)} variants; {named(most.variant)} needs most, "
        f"{units.size(most.record.peak_delta_bytes)}.",
        spec=spec_of(dots(points, shown, "MiB a call", tooltip)),
        rows=points,
    )


def _row(row: Standing, place: int, sign: Callable[[Case], str]) -> dict[str, Any]:
    size = row.record.peak_delta_bytes or 0
    return {
        "variant": named(row.variant),
        "place": place,
        "sign": sign(row.record.case),
        "shape": ", ".join(case_title(row.record.case)[1:]),
        "value": size / MIB,
        "told": units.size(size),
    }
