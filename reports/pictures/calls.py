"""Where a call's time goes, of each stage's baseline and its fastest: launches, gaps, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from reports import content, units
from reports.columns import UNSURE_MARK, case_title
from reports.machine import machine
from reports.pictures.bars import panels
from reports.pictures.picture import BLUE, GREY, VERMILLION, Picture, titled
from reports.series.calls import GAPS, KERNELS, LAUNCH, call_parts
from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.content import Report
    from reports.pictures.picture import Row
    from reports.series.calls import CallParts
    from results.run import Run

NAME = "calls"
PARTS = {KERNELS: BLUE, GAPS: GREY, LAUNCH: VERMILLION}
Pair = tuple["CallParts", "CallParts"]
"""The baseline's call and the fastest's."""


def calls_picture(run: Run) -> Picture | str:
    """Of each stage at one width: the middle one of those measured; else why there is none."""
    report = content.from_run(run)
    pairs = _middle(list(_pairs(report)))
    if not pairs:
        return "no group whose baseline and another, faster variant were both taken apart (eager, graph, kernels)"
    rows = [row for pair in pairs for row in _rows(pair)]
    *_, width, mask, dtype = case_title(pairs[0][0].row.record.case)
    seq_len = f"seq_len {pairs[0][0].row.record.case.seq_len}"
    below = [
        *("forward, called from Python", seq_len, width, mask, dtype, machine(run.manifest.environment)[0]),
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
    """A row for each part of both calls, those of a call one after another."""
    base, other = pair
    case = base.row.record.case
    rows: list[Row] = []
    for of in pair:
        parts = {name: max(part.seconds, 0.0) for part in of.parts for name in PARTS if part.name == name}
        times = "" if of is base else f", {_times(base, other)}"
        rows += [
            {
                "stage": plain(case.stage),
                "batch": f"batch {case.batch}",
                "variant": plain(of.row.variant),
                "part": name,
                "seconds": float(f"{parts[name]:.6g}"),
                "text": f"{_eager(of)}{times}",
            }
            for name in PARTS
        ]
    return rows


def _eager(of: CallParts) -> str:
    return ("" if not of.unsure else UNSURE_MARK) + units.duration(of.eager_s, 3)


def _times(base: CallParts, other: CallParts) -> str:
    mark = UNSURE_MARK if base.unsure or other.unsure else ""
    return mark + units.ratio(base.eager_s / other.eager_s)


def _chart(rows: Sequence[Row]) -> alt.FacetChart:
    bars: list[Row] = []
    labels: list[Row] = []
    ends: dict[tuple[object, object, object], float] = {}
    for row in rows:
        place = (row["stage"], row["batch"], row["variant"])
        start = ends.get(place, 0.0)
        ends[place] = start + float(row["seconds"] or 0)
        bars.append({**row, "start": start, "end": ends[place]})
    longest: dict[tuple[object, object], float] = {}
    for (stage, batch, _), end in ends.items():
        longest[stage, batch] = max(longest.get((stage, batch), 0.0), end)
    for bar in bars:
        whole = longest[bar["stage"], bar["batch"]]
        bar |= {"start": float(bar["start"] or 0) / whole, "end": float(bar["end"] or 0) / whole}
        if bar["part"] == list(PARTS)[-1]:
            labels.append(bar)
    color = alt.Color(
        "part:N",
        title=None,
        sort=list(PARTS),
        scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())),
    )
    return panels(
        bars, labels, row="stage", column="batch", y="variant", color=color, width=265,
        rows=list(dict.fromkeys(str(row["stage"]) for row in rows)),
        columns=sorted({str(row["batch"]) for row in rows}, key=lambda one: int(one.split()[1])),
    )  # fmt: skip


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
