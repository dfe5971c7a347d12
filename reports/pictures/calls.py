"""Where a call's time goes, of each stage's baseline and its fastest: launches, gaps, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from reports import content, units
from reports.columns import UNSURE_MARK, case_title
from reports.machine import machine
from reports.pictures.bars import panels
from reports.pictures.picture import BLUE, GREY, VERMILION, Picture, titled
from reports.series.calls import GAPS, KERNELS, LAUNCH, call_parts
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.content import Report
    from reports.pictures.picture import Row
    from reports.series.calls import CallParts
    from results.run import Run

NAME = "calls"
PARTS = {KERNELS: BLUE, GAPS: GREY, LAUNCH: VERMILION}
Pair = tuple["CallParts", "CallParts"]
"""The baseline's call and the fastest's."""


def calls_picture(run: Run) -> Picture | str:
    """Of each stage at one width: the middle one of those measured; else why there is none."""
    report = content.from_run(run)
    pairs = _middle(list(_pairs(report)))
    if not pairs:
        return "no group whose baseline and another, faster variant were both taken apart (eager, graph, kernels)"
    rows = [row for pair in pairs for row in _rows(pair)]
    case = pairs[0][0].row.record.case
    _stage, _batch, *shape = case_title(case)
    below = [
        *(f"{plain(case.direction)}, called from Python", *shape, machine(run.manifest.environment)[0]),
        "a bar's length is its share of the slower call beside it",
        "×: how many times as fast",
    ]
    return Picture(NAME, _finding(pairs), tuple(rows), titled(_chart(rows), _TITLE, below))


_TITLE = "Where a call's time goes, head by head and at its fastest"


def _pairs(report: Report) -> Iterator[Pair]:
    """Of every group whose baseline is not its fastest, where both calls are taken apart."""
    known = {of.row.record.case: of for of in call_parts(report) if of.share(GAPS) is not None}
    for group in report.groups:
        baseline = next((row for row in group.rows if row.is_baseline), None)
        fastest = next((row for row in group.rows if row.is_fastest), None)
        if baseline and fastest and baseline is not fastest:
            both = [known.get(row.record.case) for row in (baseline, fastest)]
            if both[0] and both[1]:
                yield both[0], both[1]


def _middle(pairs: Sequence[Pair]) -> list[Pair]:
    """Those of the middle width, at the least batch and the largest, else alike: what one picture has room for."""
    cases = [pair[0].row.record.case for pair in pairs]
    if not cases:
        return []
    widths = sorted({(case.d_model, case.n_head, case.head_dim) for case in cases})
    width = widths[(len(widths) - 1) // 2]
    of_width = [case for case in cases if (case.d_model, case.n_head, case.head_dim) == width]
    first = of_width[0]
    batches = {min(case.batch for case in of_width), max(case.batch for case in of_width)}
    return [
        pair
        for pair, case in zip(pairs, cases, strict=True)
        if case in of_width
        and case.batch in batches
        and (case.seq_len, case.causal, case.dtype, case.direction)
        == (first.seq_len, first.causal, first.dtype, first.direction)
    ]


def _rows(pair: Pair) -> list[Row]:
    """A row for each part of both calls, those of a call one after another; a negative part is nothing."""
    base, other = pair
    case = base.row.record.case
    texts = (_eager(base), f"{_eager(other)}, {_times(base, other)}")
    return [
        {
            "stage": plain(case.stage),
            "batch": f"batch {case.batch}",
            "variant": plain(of.row.variant),
            "part": name,
            "seconds": float(f"{max(seconds[name], 0.0):.6g}"),
            "text": text,
        }
        for of, text in zip(pair, texts, strict=True)
        for seconds in [{part.name: part.seconds for part in of.parts}]
        for name in PARTS
    ]


def _eager(of: CallParts) -> str:
    return (UNSURE_MARK if of.unsure else "") + units.duration(of.eager_s, 3)


def _times(base: CallParts, other: CallParts) -> str:
    mark = UNSURE_MARK if base.unsure or other.unsure else ""
    return mark + units.ratio(base.eager_s / other.eager_s)


def _chart(rows: Sequence[Row]) -> alt.FacetChart:
    bars = _stacked(rows)
    last = list(PARTS)[-1]
    colors = alt.Scale(domain=list(PARTS), range=list(PARTS.values()))
    return panels(
        bars, [bar for bar in bars if bar["part"] == last], row="stage", column="batch", y="variant", width=265,
        color=alt.Color("part:N", title=None, sort=list(PARTS), scale=colors),
        columns=sorted({str(row["batch"]) for row in rows}, key=lambda one: int(one.split()[1])),
    )  # fmt: skip


def _stacked(rows: Sequence[Row]) -> list[Row]:
    """The rows with where each begins and ends, as shares of the longest call of its panel."""
    ends: dict[tuple[object, object, object], float] = {}
    longest: dict[tuple[object, object], float] = {}
    places = []
    for row in rows:
        call = (row["stage"], row["batch"], row["variant"])
        start = ends.get(call, 0.0)
        ends[call] = start + float(row["seconds"] or 0)
        longest[call[:2]] = max(longest.get(call[:2], 0.0), ends[call])
        places.append((start, ends[call]))
    return [
        {**row, "start": start / whole, "end": end / whole}
        for row, (start, end) in zip(rows, places, strict=True)
        for whole in [longest[row["stage"], row["batch"]]]
    ]


def _finding(pairs: Sequence[Pair]) -> str:
    """`A call from Python, head by head against the fastest: qkv at batch 1: per_head 521 µs (387 µs launches …`."""
    told = []
    for base, other in pairs:
        case = base.row.record.case
        launch_s = next(part.seconds for part in base.parts if part.name == LAUNCH)
        mark = UNSURE_MARK if base.unsure else ""
        waits = (
            f" ({mark}{units.duration(launch_s, 3)} of it launches)" if launch_s > 0.1 * base.eager_s else ""
        )
        told.append(
            f"{plain(case.stage)} at batch {case.batch}, {plain(base.row.variant)} {_eager(base)}{waits} against "
            f"{plain(other.row.variant)} {_eager(other)}, {_times(base, other)}"
        )
    return f"A call from Python: {'; '.join(told)}."
