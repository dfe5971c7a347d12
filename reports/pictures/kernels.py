"""How many times as fast our fused kernels are as the fastest library, shape by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from reports import content, units
from reports.machine import machine
from reports.pictures.picture import BLUE, INK, LINE, VERMILION, Picture, titled
from reports.series.rivals import OURS, rivals
from reports.text import listing, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from reports.pictures.picture import Row
    from reports.series.rivals import Rival
    from results.run import Run

NAME = "kernels"
COLOURS = (BLUE, VERMILION)
FEWEST = 3
"""Shapes; what fewer of them show, a table shows better."""


def kernels_picture(run: Run) -> Picture | str:
    """Of every shape that has one of ours beside a library; else why there is none."""
    every = rivals(content.from_run(run), run)
    found = [one for one in every if _alike(one) == _alike(every[0])]
    if len({one.row.record.case.group for one in found}) < FEWEST:
        return f"no {FEWEST} shapes of one seq_len with {listing(OURS)} beside a library, each with a graph"
    case = found[0].row.record.case
    rows = tuple(map(_row, found))
    below = [
        plain(f"{case.stage} {case.direction}, seq_len {case.seq_len}, {case.dtype}"),
        machine(run.manifest.environment)[0],
        f"the time of the fastest of {listing(_libraries(found))} ÷ ours, graphs replayed",
        "bars: 95 % intervals, paired by process",
    ]
    return Picture(NAME, _finding(found), rows, titled(_chart(rows), _TITLE, below))


_TITLE = "Our attention kernels: how many times as fast as the fastest library"


def _alike(of: Rival) -> tuple[object, ...]:
    """What all of a picture share."""
    case = of.row.record.case
    return case.stage, case.direction, case.seq_len, case.dtype


def _row(of: Rival) -> Row:
    case = of.row.record.case
    return {
        "kernel": of.row.variant,
        "library": plain(of.library),
        "heads": f"{case.n_head} heads of {case.head_dim}",
        "shape": f"batch {case.batch}, {'causal' if case.causal else 'full'}",
        "ratio": round(of.ratio.value, 6),
        "low": None if of.ratio.low is None else round(of.ratio.low, 6),
        "high": None if of.ratio.high is None else round(of.ratio.high, 6),
    }


def _chart(rows: Sequence[Row]) -> alt.FacetChart:
    values: list[Any] = list(rows)
    ends = [float(row[end] or row["ratio"] or 1) for row in rows for end in ("low", "ratio", "high")]
    scale = alt.Scale(type="log", domain=[min(*ends, 0.95) * 0.98, max(*ends, 1.05) * 1.02], nice=False)
    ours = [name for name in OURS if any(row["kernel"] == name for row in rows)]
    axis = alt.Axis(
        title="← library faster · ours faster →", values=[0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3],
        format="~g", grid=True, gridColor=LINE, domain=False, ticks=False,
    )  # fmt: skip
    y = alt.Y("shape:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=8))
    apart = alt.YOffset("kernel:N", sort=ours)
    color = alt.Color("kernel:N", title=None, scale=alt.Scale(domain=ours, range=COLOURS[: len(ours)]))
    shape = alt.Shape(
        "kernel:N", title=None, scale=alt.Scale(domain=ours, range=["circle", "diamond"][: len(ours)])
    )
    level = (
        alt.Chart().mark_rule(color=INK, strokeDash=[4, 3]).encode(x=alt.XDatum(1, scale=scale, axis=axis))
    )
    spans = alt.Chart().mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale, axis=axis), x2="high:Q", y=y, yOffset=apart, color=color
    )  # fmt: skip
    points = (
        alt.Chart()
        .mark_point(filled=True, size=70, opacity=1)
        .encode(x=alt.X("ratio:Q", scale=scale, axis=axis), y=y, yOffset=apart, color=color, shape=shape)
    )
    layers = alt.layer(level, spans, points).properties(width=195, height=alt.Step(14))
    return layers.facet(
        data=alt.InlineData(values=values),
        facet=alt.Facet("heads:N", sort=_heads(rows), title=None, header=alt.Header(labelAnchor="start")),
        columns=3,
        spacing=34,
    )


def _heads(rows: Sequence[Row]) -> list[str]:
    """Each panel's title, the narrowest heads first."""
    titles = {str(row["heads"]) for row in rows}
    return sorted(titles, key=lambda title: [int(count) for count in title.split(" heads of ")][::-1])


def _finding(found: Sequence[Rival]) -> str:
    """`By graph replay, against the fastest of …, flash_hopper is 1.10 to 1.60 × as fast in 18 shapes and …`."""
    told = []
    for name in OURS:
        ratios = [one.ratio.value for one in found if one.row.variant == name]
        if ratios:
            told.append(f"{name} is {units.ratio_range(ratios)} as fast in {len(ratios)} shapes")
    return f"By graph replay, against the fastest of {listing(_libraries(found))}, {' and '.join(told)}."


def _libraries(found: Sequence[Rival]) -> tuple[str, ...]:
    """All libraries of which the fastest was taken, in any shape."""
    return tuple(sorted({name for one in found for name in one.among}))
