"""The one table builder: columns as small objects, grids of text that every renderer lays out its own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from reports import units
from reports.remarks import outcome_label
from reports.text import MISSING, plain
from results.ranking import is_wide
from results.schema import STRIDED, Outcome
from results.tensor_use import tensor_use
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reports.content import Fastest, GroupTable, Report
    from results.ranking import Standing
    from results.schema import Case

T = TypeVar("T")

FASTEST_MARK, LEVEL_MARK, IMPLAUSIBLE_MARK, UNSURE_MARK = "▸", "≈", "!", "~"


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A title and how to make a cell.

    `least` is the width a column may be folded to where room is short (None: never folded); columns with the
    highest `expendable` go first where folding is not enough (0: never).
    """

    title: str
    cell: Callable[[T], str]
    left: bool = False
    least: int | None = None
    expendable: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a grid. With `instead`, that text stands in place of all cells but the first."""

    cells: tuple[str, ...]
    instead: str | None = None
    emphasis: str = ""


@dataclass(frozen=True, slots=True)
class Grid(Generic[T]):
    """A table as text, not yet laid out: as many cells in each line as there are columns."""

    columns: tuple[Column[T], ...]
    lines: tuple[Line, ...]


def group_grids(report: Report) -> list[Grid[Standing]]:
    """A grid for each group, all with the same columns: those that hold a value anywhere in the run."""
    return without_empty([_group_grid(group) for group in report.groups])


def fastest_grid(report: Report) -> Grid[Fastest]:
    """The winners of all groups, a line each."""
    cases = [group.case for group in report.groups]
    modes = {best.mode for best in report.fastest}
    scale = units.time_scale(best.row.time.value_s for best in report.fastest if best.row.time)
    columns: tuple[Column[Fastest], ...] = (
        Column("stage", lambda best: plain(best.row.record.case.stage), left=True, least=9),
        *(_case_column(title, text) for title, text in telling(cases)),
        Column("fastest", lambda best: plain(best.row.variant), left=True, least=12),
        *((_ARRIVES,) if any(best.row.record.arrives == STRIDED for best in report.fastest) else ()),
        Column(
            modes.pop() if len(modes) == 1 else "time",
            lambda best: scale(best.row.time.value_s if best.row.time else None, 4),
            expendable=1,
        ),
        Column("±", lambda best: _interval(best.row), expendable=3),
        Column("× base", lambda best: _speedup(best.row), expendable=2),
        Column("lead", _lead),
        Column("runner-up", _runner_up, left=True, least=12),
    )
    lines = (Line(tuple(column.cell(best) for column in columns)) for best in report.fastest)
    return without_empty([Grid(columns, tuple(lines))])[0]


_ARRIVES: Column[Fastest] = Column(
    "arrives", lambda best: plain(best.row.record.arrives or MISSING), left=True, expendable=4
)


def group_title(group: GroupTable) -> list[str]:
    """The parts of a group's title; of a stack, with the parameters of its layers: `28.3 M parameters`."""
    counts = {row.record.parameters for row in group.rows} - {0} if group.case.is_stack else set()
    return [*case_title(group.case), *(f"{units.count(most)} parameters" for most in sorted(counts)[-1:])]


def case_title(case: Case) -> list[str]:
    """The parts of a group's title: `qkv forward`, then the whole shape."""
    return [
        plain(f"{case.stage} {case.direction}"),
        f"batch {case.batch}",
        f"seq_len {case.seq_len}",
        f"d_model {_width(case)}",
        *([counted(case.n_layer, "layer")] if case.is_stack else []),
        "causal" if case.causal else "full",
        plain(case.dtype),
    ]


def short_title(case: Case, among: Sequence[Case]) -> str:
    """`qkv, batch 32`: the stage, and of the shape only what differs among these cases."""
    return plain(", ".join(filter(None, (case.stage, in_words(case, telling(among))))))


def in_words(case: Case, properties: Sequence[tuple[str, Callable[[Case], str]]]) -> str:
    """`batch 32, n_layer 12`: those of the properties that the case has."""
    said = ((title, text(case)) for title, text in properties)
    return ", ".join(f"{title} {text}" for title, text in said if text != MISSING)


def telling(cases: Sequence[Case]) -> list[tuple[str, Callable[[Case], str]]]:
    """(title, text) of every property in which these cases differ."""
    properties: tuple[tuple[str, Callable[[Case], str]], ...] = (
        ("direction", lambda case: plain(case.direction)),
        ("batch", lambda case: str(case.batch)),
        ("seq_len", lambda case: str(case.seq_len)),
        ("d_model", _width),
        ("n_layer", _depth_among(cases)),
        ("mask", lambda case: "causal" if case.causal else "full"),
        ("dtype", lambda case: plain(case.dtype)),
    )
    return [(title, text) for title, text in properties if len(set(map(text, cases))) > 1]


def _depth_among(cases: Sequence[Case]) -> Callable[[Case], str]:
    """A stack's depth, where any two stacks differ in it that are alike in their heads: else the width tells it."""
    depths: dict[tuple[int, int], set[int]] = {}
    for case in cases:
        if case.is_stack:
            depths.setdefault((case.d_model, case.n_head), set()).add(case.n_layer)
    if all(len(of) == 1 for of in depths.values()):
        return lambda _: MISSING
    return lambda case: str(case.n_layer) if case.is_stack else MISSING


def _width(case: Case) -> str:
    """`768 = 12×64`: d_model = n_head × head_dim."""
    return f"{case.d_model} = {case.n_head}×{case.head_dim}"


def _case_column(title: str, text: Callable[[Case], str]) -> Column[Fastest]:
    return Column(title, lambda best: text(best.row.record.case))


def _lead(best: Fastest) -> str:
    """`3.1 % over`, `3.10 × over` from twice as fast on, `~3.1 % over` where that is unsure: then the name.

    Where the intervals meet it is `level with`.
    """
    if best.lead is None:
        return MISSING
    if best.level:
        return "level with"
    lead = units.ratio(best.lead) if best.lead >= 2 else units.percent(best.lead - 1)
    return f"{'' if best.lead_sure else UNSURE_MARK}{lead} over"


def _runner_up(best: Fastest) -> str:
    return plain(best.runner_up.variant) if best.runner_up else MISSING


def _group_grid(group: GroupTable) -> Grid[Standing]:
    columns = _group_columns(group)
    lines = tuple(
        Line(
            tuple(column.cell(row) for column in columns),
            None if row.outcome is Outcome.OK else outcome_label(row.outcome),
            _emphasis(row),
        )
        for row in group.rows
    )
    return Grid(columns, lines)


def _group_columns(group: GroupTable) -> tuple[Column[Standing], ...]:
    records = [row.record for row in group.rows]
    rate = rate_scale(group.rows)
    time = units.time_scale(known.value_s for record in records for known in record.estimates.values())
    size = units.size_scale(record.peak_delta_bytes for record in records)
    return (
        Column("  variant", lambda row: f"{mark(row)} {plain(row.variant)}", left=True, least=14),
        Column(group.mode or "time", lambda row: time(row.time.value_s if row.time else None, 4)),
        Column("±", _interval),
        Column("eager", _other_mode("eager", group.mode, time), expendable=3),
        Column("graph", _other_mode("graph", group.mode, time), expendable=4),
        Column(rate.unit, lambda row: rate.number(rate_per_s(row), 3), expendable=1),
        Column("peak", lambda row: units.percent(row.peak_fraction), expendable=2),
        Column("copy", _of_copy, expendable=2),
        Column("held", lambda row: units.percent(row.held_fraction), expendable=5),
        Column("active", _active, expendable=5),
        Column("issued", _issued, expendable=5),
        Column("× base", _speedup),
        Column("memory", lambda row: size(row.record.peak_delta_bytes, 3), expendable=6),
        Column("busy", _busy, expendable=7),
    )


def without_empty(grids: Sequence[Grid[T]]) -> list[Grid[T]]:
    """The grids without the columns that no line of any of them has a value for; the first two stay."""
    cells = [line.cells for grid in grids for line in grid.lines if line.instead is None]
    places = range(len(grids[0].columns)) if grids else ()
    used = [place for place in places if place < 2 or any(of_line[place] != MISSING for of_line in cells)]
    return [
        Grid(
            tuple(grid.columns[place] for place in used),
            tuple(replace(line, cells=tuple(line.cells[place] for place in used)) for line in grid.lines),
        )
        for grid in grids
    ]


def mark(row: Standing) -> str:
    """How the case stands in its group, as one sign."""
    if row.implausible:
        return IMPLAUSIBLE_MARK
    return FASTEST_MARK if row.is_fastest else LEVEL_MARK if row.level else " "


def _emphasis(row: Standing) -> str:
    if row.outcome is None or row.outcome is not Outcome.OK:
        return "failed" if row.outcome and row.outcome.failed else "absent"
    if row.implausible:
        return "implausible"
    return "fastest" if row.is_fastest else "level" if row.level else ""


def _interval(row: Standing) -> str:
    return units.interval(row.time.half_width if row.time else None)


def _other_mode(mode: str, headline: str | None, scale: units.Scale) -> Callable[[Standing], str]:
    def cell(row: Standing) -> str:
        estimate = row.record.estimates.get(mode) if mode != headline else None
        unsure = UNSURE_MARK if estimate and is_wide(estimate) else ""
        return unsure + scale(estimate.value_s if estimate else None, 3)

    return cell


def _speedup(row: Standing) -> str:
    if row.is_baseline and row.speedup:
        return "base"
    if not row.speedup:
        return MISSING
    return ("" if row.speedup_sure else UNSURE_MARK) + units.significant(row.speedup, 3)


def rate_scale(rows: Iterable[Standing]) -> units.Scale:
    """The unit of these cases' rates: FLOP/s, or B/s where they only move bytes."""
    rows = list(rows)
    moves = any(row.record.moves_only for row in rows)
    return units.rate_scale(map(rate_per_s, rows), "B" if moves else "FLOP")


def rate_per_s(row: Standing) -> float | None:
    """Useful FLOPs a second, or least bytes a second of a case that only moves bytes."""
    return row.bytes_per_s if row.record.moves_only else row.flops_per_s


def _of_copy(row: Standing) -> str:
    return units.percent(tensor_use(row).burst_fraction) if row.record.moves_only else MISSING


def _active(row: Standing) -> str:
    percent = tensor_use(row).tensor_active_percent
    return units.percent(percent / 100 if percent is not None else None)


def _issued(row: Standing) -> str:
    ratio = tensor_use(row).issued_ratio
    return MISSING if ratio is None else f"{ratio:.2f}"


def _busy(row: Standing) -> str:
    percent = row.record.gpu_busy_percent
    return units.percent(percent / 100 if percent is not None else None)
