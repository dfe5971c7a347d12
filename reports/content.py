"""What a run says: tables with their numbers unformatted. Renderers turn this into text and add nothing.

Ranking is like for like: a group's variants are ordered by one timing mode, its *headline mode*, the first of
isolated, eager and graph that any of them was timed in. A variant without that mode is shown after the ranked
ones, with the modes it has and the reason for the one it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.remarks import Remark, known_peak, remarks_of, shared
from results.record import HEADLINE_MODES
from results.schema import Outcome

if TYPE_CHECKING:
    from results.record import Record
    from results.run import Run
    from results.schema import Case, Manifest
    from results.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Row:
    """One case in its group's table; None is a value that was not measured.

    `time` is the estimate in the group's headline mode, `speedup` the baseline's time over it. `level` says
    that its interval overlaps the fastest one's. `peak_fraction` is of the dtype's peak FLOP/s, or of the
    memory bandwidth where the stage has no useful FLOPs.
    """

    record: Record
    is_baseline: bool
    time: Estimate | None
    is_fastest: bool = False
    level: bool = False
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    peak_fraction: float | None = None
    speedup: float | None = None

    @property
    def variant(self) -> str:
        """The variant's name, as its author wrote it."""
        return self.record.case.variant

    @property
    def outcome(self) -> Outcome | None:
        """How the case ended; None: not measured yet."""
        return self.record.outcome

    @property
    def peak_delta_bytes(self) -> int | None:
        """Peak memory of one call above what was resident."""
        return self.record.memory.peak_delta_bytes if self.record.memory else None

    @property
    def gpu_busy_percent(self) -> float | None:
        """The share of time in which any kernel ran, by NVML."""
        return self.record.utilisation.gpu_busy_percent if self.record.utilisation else None


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The cases of one stage × shape × direction, fastest first; then those without a time."""

    case: Case
    mode: str | None
    rows: tuple[Row, ...]
    remarks: tuple[Remark, ...]

    @property
    def counts_flops(self) -> bool:
        """Whether its rate is FLOP/s; else it is bytes/s."""
        return any(row.record.useful_flops for row in self.rows)


@dataclass(frozen=True, slots=True)
class Fastest:
    """A group's winner; `lead` is the runner-up's time over its own, `level` that their intervals overlap."""

    row: Row
    mode: str
    runner_up: Row | None
    lead: float | None
    level: bool


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown of one run. `groups` is in plan order, `fastest` has those with a time."""

    manifest: Manifest
    groups: tuple[GroupTable, ...]
    fastest: tuple[Fastest, ...]
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...]
    location: str
    missing_trials: int

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every case of every group."""
        return tuple(row for group in self.groups for row in group.rows)


def from_run(run: Run) -> Report:
    """The report of a stored run, complete or not."""
    records: dict[str, list[Record]] = {}
    for record in run.records():
        records.setdefault(record.case.group, []).append(record)
    groups = tuple(group_table(cases, run.manifest) for cases in records.values())
    everywhere = shared([group.remarks for group in groups if any(row.time for row in group.rows)])
    return Report(
        manifest=run.manifest,
        groups=tuple(_without(group, everywhere) for group in groups),
        fastest=tuple(best for best in map(fastest, groups) if best),
        remarks=everywhere,
        notes=tuple(run.notes),
        location=str(run.path),
        missing_trials=len(run.missing()),
    )


def group_table(records: list[Record], manifest: Manifest) -> GroupTable:
    """The records of one group, ranked."""
    mode = next((m for m in HEADLINE_MODES if any(m in record.estimates for record in records)), None)
    baseline = manifest.baselines.get(records[0].case.stage)
    times = {record.case.variant: record.estimates.get(mode or "") for record in records}
    best = min((time for time in times.values() if time), key=lambda time: time.value_s, default=None)
    rows = [_row(record, mode, baseline, times, best, manifest) for record in records]
    rows.sort(key=_order)
    return GroupTable(records[0].case, mode, tuple(rows), remarks_of(records, mode, manifest))


def fastest(group: GroupTable) -> Fastest | None:
    """The group's winner and its runner-up; None where nothing was timed."""
    timed = [row for row in group.rows if row.time]
    if not timed or not group.mode:
        return None
    winner, *others = timed
    second = others[0] if others else None
    lead = second.time.value_s / winner.time.value_s if second and second.time and winner.time else None
    return Fastest(winner, group.mode, second, lead, bool(second and second.level))


def _row(
    record: Record,
    mode: str | None,
    baseline: str | None,
    times: dict[str, Estimate | None],
    best: Estimate | None,
    manifest: Manifest,
) -> Row:
    time = record.estimates.get(mode or "")
    is_baseline = record.case.variant == baseline
    if time is None or best is None:
        return Row(record, is_baseline, None)
    reference = times.get(baseline or "")
    flops_per_s = record.useful_flops / time.value_s if record.useful_flops else None
    bytes_per_s = record.least_bytes / time.value_s
    peak_per_s = known_peak(manifest, record)[0]
    return Row(
        record,
        is_baseline,
        time,
        is_fastest=time is best,
        level=time is not best and overlap(time, best),
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        peak_fraction=(flops_per_s or bytes_per_s) / peak_per_s if peak_per_s else None,
        speedup=reference.value_s / time.value_s if reference else None,
    )


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two intervals share a point; False where either has none."""
    if one.low_s is None or one.high_s is None or other.low_s is None or other.high_s is None:
        return False
    return one.low_s <= other.high_s and other.low_s <= one.high_s


def _without(group: GroupTable, said: tuple[Remark, ...]) -> GroupTable:
    known = {(remark.kind, remark.text) for remark in said}
    left = tuple(remark for remark in group.remarks if (remark.kind, remark.text) not in known)
    return replace(group, remarks=left)


def _order(row: Row) -> tuple[bool, float, int, str]:
    """Timed ones by time; then by outcome, what is not measured yet last; then by name."""
    outcomes = [*Outcome, None]
    return row.time is None, row.time.value_s if row.time else 0.0, outcomes.index(row.outcome), row.variant
