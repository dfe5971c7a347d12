"""How many times as fast as its baseline each variant is, a dot per shape; and of all stages the fastest alone."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports import units
from reports.columns import case_title
from reports.html.charts.chart import Chart, named, spec_of, told
from reports.html.charts.dots import dots, sign_of
from reports.text import listing, plain
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.series.speedups import GroupSpeedups, Speedup
    from results.schema import Case

HOW = "its line is the ratio's 95 % interval, paired by replicate. Right of 1 is faster."


def speedups_chart(groups: Sequence[GroupSpeedups]) -> Chart | None:
    """One stage's; None where no group has two times.

    Where only some shapes have their baseline, those are drawn, and the caption counts the others.
    """
    if not groups:
        return None
    kept = [group for group in groups if group.over_baseline] or groups
    without = len(groups) - len(kept)
    left_out = f" Left out: {counted(without, 'shape')} without a time of the baseline." if without else ""
    sign = sign_of([group.case for group in kept])
    points = [_row(point, place, sign) for place, group in enumerate(kept) for point in group.points]
    order = _order(points)
    baselines = listing(tuple(dict.fromkeys(group.points[0].against.variant for group in kept)))
    against = baselines if kept[0].over_baseline else "the fastest"
    tooltip = told(variant="variant", shape="shape", speed="told", interval="interval")
    drawn = dots(points, order, f"times as fast as {against}", tooltip, reference=1)
    return Chart(
        title=f"Speed, as a multiple of {against}'s",
        caption=f"A dot per shape; {HOW}{left_out}",
        spoken=f"{len(order)} variants by their speed against {against} in {len(kept)} shapes; "
        f"on average {order[0]} is the fastest. The table of all times has the numbers.",
        spec=spec_of(drawn),
        rows=points,
    )


def overview_chart(groups: Sequence[GroupSpeedups]) -> Chart | None:
    """The fastest of each shape over its baseline, a row per stage; None of fewer than two stages with a baseline."""
    found: dict[tuple[str, str], list[GroupSpeedups]] = {}
    for group in groups:
        if group.over_baseline:
            found.setdefault((group.case.stage, group.case.direction), []).append(group)
    if len(found) < 2:
        return None
    sign = sign_of([group.case for of in found.values() for group in of])
    rows = []
    for (stage, direction), of in found.items():
        for place, group in enumerate(of):
            row = _row(group.points[0], place, sign)
            against = f"{row['told']} as fast as {plain(group.points[0].against.variant)}"
            rows.append(
                {**row, "fastest": row["variant"], "told": against, "variant": plain(f"{stage} {direction}")}
            )
    order = list(dict.fromkeys(row["variant"] for row in rows))
    tooltip = told(stage="variant", shape="shape", fastest="fastest", speed="told", interval="interval")
    drawn = dots(rows, order, "times as fast as the baseline", tooltip, reference=1)
    return Chart(
        title="What the fastest layout gains over the baseline",
        caption=f"A dot for each shape's fastest variant; {HOW}",
        spoken=f"{len(order)} stages, {len(rows)} shapes: the fastest is "
        f"{units.ratio(min(row['value'] for row in rows))} to {units.ratio(max(row['value'] for row in rows))} as fast "
        "as the baseline.",
        spec=spec_of(drawn),
        rows=rows,
    )


def _row(point: Speedup, place: int, sign: Callable[[Case], str]) -> dict[str, Any]:
    ratio, case = point.ratio, point.row.record.case
    bounds = (ratio.low, ratio.high)
    known = None not in bounds
    return {
        "variant": named(point.row.variant),
        "place": place,
        "sign": sign(case),
        "shape": ", ".join(case_title(case)[1:]),
        "value": ratio.value,
        "low": ratio.low if known else None,
        "high": ratio.high if known else None,
        "told": units.ratio(ratio.value),
        "interval": " to ".join(map(units.ratio, bounds)) if known else "not known: one replicate",
    }


def _order(points: Sequence[dict[str, Any]]) -> list[str]:
    """The variants, the one first that is fastest on the geometric mean of what it was measured at."""
    values: dict[str, list[float]] = {}
    for point in points:
        values.setdefault(point["variant"], []).append(math.log(point["value"]))
    return sorted(values, key=lambda name: (-fmean(values[name]), name))
