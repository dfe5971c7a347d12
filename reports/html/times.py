"""The table of all times, a row for each case and timing mode, ranked in its group; and what has no time, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.columns import FASTEST_MARK, LEVEL_MARK, UNSURE_MARK, Column, mark
from reports.headline import ACTIVE_MEANING, COPY_MEANING, INTERVAL_MEANING, ISSUED_MEANING
from reports.html.shapes import shapes
from reports.html.tables import Filter, Sorted, Table
from reports.remarks import IMPLAUSIBLE, outcome_label
from reports.text import MISSING, plain, shorten
from results.ranking import apart
from results.schema import MODES, STRIDED, Outcome
from results.tensor_use import TensorUse, tensor_use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reports.content import Report
    from results.ranking import Standing
    from results.schema import Case
    from results.statistics import Estimate


@dataclass(frozen=True, slots=True)
class TimedRow:
    """One case in one mode, and where it comes in its group and mode, the shortest time first."""

    row: Standing
    mode: str
    time: Estimate
    use: TensorUse
    place: int

    @property
    def is_ranked(self) -> bool:
        """Whether its group is ranked by this mode: what depends on clocks and counters belongs to that one's time."""
        return self.mode == self.row.mode

    @property
    def rate_per_s(self) -> float | None:
        """The useful rate in this mode: FLOPs a second, or bytes of a case that only moves them."""
        record = self.row.record
        work = record.least_bytes if record.moves_only else record.useful_flops
        return work / self.time.value_s if work else None

    @property
    def rate(self) -> str:
        """The same with its unit."""
        return units.rate(self.rate_per_s, "B" if self.row.record.moves_only else "FLOP")

    @property
    def speedup(self) -> float | None:
        """The baseline's time in this mode ÷ its own."""
        against = self._against
        return against.value_s / self.time.value_s if against else None

    @property
    def speedup_sure(self) -> bool:
        """Whether the two times are told apart by their intervals."""
        return self._against is not None and apart(self.time, self._against)

    @property
    def _against(self) -> Estimate | None:
        return self.row.baseline.estimates.get(self.mode) if self.row.baseline else None


def times_table(report: Report) -> Table[TimedRow] | None:
    """None where nothing has a time."""
    rows = [one for group in report.groups for mode in MODES for one in _ranked(group.rows, mode)]
    if not rows:
        return None
    shape = shapes([group.case for group in report.groups])
    ranked = Counter(one.mode for one in rows if one.is_ranked)
    return Table(
        caption="All times",
        noun="times",
        columns=[one for one in _columns(shape) if any(one.column.cell(row) != MISSING for row in rows)],
        rows=rows,
        filters=(
            Filter("stage", "Stage", lambda one: plain(one.row.record.case.stage)),
            Filter("direction", "Direction", lambda one: plain(one.row.record.case.direction)),
            Filter("shape", "Shape", lambda one: shape(one.row.record.case)),
            Filter("mode", "Timing mode", lambda one: one.mode, initial=ranked.most_common(1)[0][0]),
        ),
        search=lambda one: one.row.variant,
        emphasis=_emphasis,
    )


def missing_table(report: Report) -> Table[Standing] | None:
    """Every case that was not measured, or whose times do not count, with its outcome and the reason."""
    rows = [row for row in report.rows if row.outcome is not Outcome.OK or row.implausible]
    if not rows:
        return None
    shape = shapes([group.case for group in report.groups])
    return Table(
        caption="Not measured, or not ranked",
        noun="cases",
        columns=(
            Sorted(Column("variant", lambda row: plain(row.variant), left=True)),
            Sorted(Column("outcome", _outcome, left=True)),
            Sorted(Column("reason", _reason, left=True, least=36)),
            Sorted(Column("stage", lambda row: plain(row.record.case.stage), left=True)),
            Sorted(Column("direction", lambda row: plain(row.record.case.direction), left=True)),
            Sorted(Column("shape", lambda row: shape(row.record.case), left=True, least=36)),
        ),
        rows=rows,
        filters=(
            Filter("stage", "Stage", lambda row: plain(row.record.case.stage)),
            Filter("outcome", "Outcome", _outcome),
        ),
        search=lambda row: row.variant,
    )


def _ranked(group: Sequence[Standing], mode: str) -> list[TimedRow]:
    """The group's rows with a time in this mode, the shortest first."""
    timed = [(row, time) for row in group if (time := row.record.estimates.get(mode))]
    timed.sort(key=lambda one: one[1].value_s)
    return [
        TimedRow(row, mode, time, tensor_use(row), place) for place, (row, time) in enumerate(timed, start=1)
    ]


def _columns(shape: Callable[[Case], str]) -> tuple[Sorted[TimedRow], ...]:
    return (
        Sorted(Column("variant", lambda one: plain(one.row.variant), left=True)),
        Sorted(Column("rank", _rank), lambda one: one.place, "place in its group and mode"),
        Sorted(Column("stage", lambda one: plain(one.row.record.case.stage), left=True)),
        Sorted(Column("shape", lambda one: shape(one.row.record.case), left=True)),
        Sorted(
            Column("arrives", _arrives, left=True),
            explained="how its activations are given, arranged untimed",
        ),
        Sorted(Column("mode", lambda one: one.mode, left=True)),
        Sorted(Column("time", lambda one: units.duration(one.time.value_s)), lambda one: one.time.value_s),
        Sorted(
            Column("±", lambda one: units.interval(one.time.half_width)),
            lambda one: one.time.half_width,
            INTERVAL_MEANING,
        ),
        Sorted(Column("useful rate", lambda one: one.rate), lambda one: one.rate_per_s),
        Sorted(Column("× base", _speedup), lambda one: one.speedup, "speed over the baseline's"),
        _share("peak", "share of the datasheet's peak rate", lambda one: one.row.peak_fraction),
        _share(
            "copy", COPY_MEANING, lambda one: one.use.burst_fraction if one.row.record.moves_only else None
        ),
        _share("held", "share of the peak rate at the SM clock it ran at", lambda one: one.row.held_fraction),
        _share("active", ACTIVE_MEANING, _active),
        Sorted(Column("issued", _issued), lambda one: one.use.issued_ratio, ISSUED_MEANING),
        Sorted(
            Column("memory", lambda one: units.size(one.row.record.peak_delta_bytes)),
            lambda one: one.row.record.peak_delta_bytes,
            "a call's peak above what is resident",
        ),
        Sorted(
            Column("energy", _energy),
            lambda one: one.use.energy_per_call_j,
            "the whole GPU's, of a call back to back with others",
        ),
        Sorted(Column("samples", lambda one: f"{one.time.samples:,}"), lambda one: one.time.samples),
    )


def _share(title: str, explained: str, of: Callable[[TimedRow], float | None]) -> Sorted[TimedRow]:
    """A column of shares, which are those of the time that the group is ranked by."""

    def value(one: TimedRow) -> float | None:
        return of(one) if one.is_ranked else None

    return Sorted(Column(title, lambda one: units.percent(value(one))), value, explained)


def _arrives(one: TimedRow) -> str:
    """Told of what is spared an arrangement that others of its group may pay."""
    return STRIDED if one.row.record.arrives == STRIDED else MISSING


def _active(one: TimedRow) -> float | None:
    percent = one.use.tensor_active_percent
    return None if percent is None else percent / 100


def _issued(one: TimedRow) -> str:
    return MISSING if one.use.issued_ratio is None else f"{one.use.issued_ratio:.2f}"


def _energy(one: TimedRow) -> str:
    joules = one.use.energy_per_call_j
    return MISSING if joules is None else f"{units.significant(1e3 * joules, 3)} mJ"


def _speedup(one: TimedRow) -> str:
    if one.speedup is None:
        return MISSING
    if one.row.is_baseline:
        return "base"
    return ("" if one.speedup_sure else UNSURE_MARK) + units.significant(one.speedup, 3)


def _rank(one: TimedRow) -> str:
    """`1`, `≈ 2` for what is level with the fastest, `!` for what cannot be true."""
    sign = mark(one.row).strip() if one.is_ranked else ""
    return f"{sign} {one.place}" if sign not in ("", FASTEST_MARK) else str(one.place)


def _outcome(row: Standing) -> str:
    return IMPLAUSIBLE if row.implausible else outcome_label(row.outcome)


def _reason(row: Standing) -> str:
    return shorten(row.implausible or row.record.reason or "no reason was stored")


def _emphasis(one: TimedRow) -> str:
    if not one.is_ranked:
        return ""
    return (
        "implausible"
        if one.row.implausible
        else {FASTEST_MARK: "fastest", LEVEL_MARK: "level"}.get(mark(one.row), "")
    )
