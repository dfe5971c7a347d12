"""What a run says: tables with their numbers unformatted. Renderers turn this into text and add nothing.

A group's variants are ordered by its headline mode (`results.ranking`). A variant without that mode is shown
after the ranked ones, with the modes it has and the reason for the one it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.remarks import Remark, absence, left_out_everywhere, remarks_of, shared, shared_in_stages
from results.ranking import apart
from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case, Ceilings, Manifest


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The cases of one stage × shape × direction, shortest time first; then those without a time.

    `left_out` are cases that are absent from every group of the stage alike: the report's remarks name them.
    """

    rows: tuple[Standing, ...]
    remarks: tuple[Remark, ...]
    left_out: tuple[Standing, ...] = ()

    @property
    def case(self) -> Case:
        """One of its cases: they differ in nothing but the variant."""
        return self.rows[0].record.case

    @property
    def mode(self) -> str | None:
        """The timing mode it is ranked by."""
        return self.rows[0].mode

    @property
    def has_times(self) -> bool:
        """Whether any of its cases has one."""
        return any(row.time for row in self.rows)


@dataclass(frozen=True, slots=True)
class Fastest:
    """A group's winner among its plausible cases, and how it leads.

    `lead` is the runner-up's time over its own, `level` that their intervals overlap, `lead_sure` that it is
    a ratio to rely on. `clear` says that the intervals keep it apart from everything else in its group. Times
    of two runs decide nothing: sessions differ by more than intervals tell.
    """

    row: Standing
    mode: str
    runner_up: Standing | None
    lead: float | None
    level: bool
    lead_sure: bool
    clear: bool

    @property
    def of_two_runs(self) -> bool:
        """Whether the runner-up was measured in another run, so that no interval tells which is the faster."""
        return self.runner_up is not None and self.runner_up.record.run_id != self.row.record.run_id


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown of one run. `groups` is in plan order, `fastest` has those with a time.

    `sources` are the ids of the runs it was merged from, oldest first, `took_s` is what one run took, `ceilings` what
    it found its machine to reach at most. `unfinished` maps the folder of each run that can be resumed to how many
    trials it lacks.
    """

    manifest: Manifest
    groups: tuple[GroupTable, ...]
    fastest: tuple[Fastest, ...]
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...]
    location: str
    unfinished: dict[str, int]
    sources: tuple[str, ...]
    took_s: float | None
    ceilings: Ceilings | None = None

    @property
    def rows(self) -> tuple[Standing, ...]:
        """Every case of every group."""
        return tuple(row for group in self.groups for row in (*group.rows, *group.left_out))


def from_run(run: Run) -> Report:
    """The report of a stored run, complete or not."""
    rows: dict[str, list[Standing]] = {}
    for row in run.standings():
        rows.setdefault(row.record.case.group, []).append(row)
    left_out = left_out_everywhere(list(rows.values()))
    groups = tuple(_table(group, left_out) for group in rows.values())
    everywhere = shared([group.remarks for group in groups if group.has_times])
    groups = tuple(_without(group, everywhere) for group in groups)
    of_stages = shared_in_stages([(group.case.stage, group.remarks) for group in groups if group.has_times])
    return Report(
        manifest=run.manifest,
        groups=tuple(_without(group, of_stages) for group in groups),
        fastest=tuple(best for best in map(fastest, groups) if best),
        remarks=(*left_out, *everywhere, *of_stages),
        notes=tuple(run.notes),
        location=str(run.path),
        unfinished={str(path): missing for path, missing in run.unfinished().items()},
        sources=tuple(run.sources()),
        took_s=run.took_s(),
        ceilings=run.ceilings,
    )


def fastest(group: GroupTable) -> Fastest | None:
    """The group's winner and its runner-up; None where no time can be believed."""
    timed = [row for row in group.rows if row.time and not row.implausible]
    if not timed or not group.mode:
        return None
    winner, *others = timed
    second = others[0] if others else None
    if not (second and second.time and winner.time):
        return Fastest(winner, group.mode, None, None, level=False, lead_sure=False, clear=False)
    one_run = second.record.run_id == winner.record.run_id
    intervals = winner.time.half_width is not None and second.time.half_width is not None
    return Fastest(
        winner,
        group.mode,
        second,
        lead=second.time.value_s / winner.time.value_s,
        level=second.level,
        lead_sure=one_run and apart(winner.time, second.time),
        clear=one_run and intervals and not any(row.level for row in others),
    )


def _table(rows: Sequence[Standing], left_out: Sequence[Remark]) -> GroupTable:
    """The group's cases, but for those that `left_out` tells of."""
    case = rows[0].record.case
    told = {
        (name, one.kind, one.text)
        for one in left_out
        if one.stage == case.stage and one.direction in (None, case.direction)
        for name in one.variants
    }
    kept = [row for row in rows if absence(row) not in told]
    absent = tuple(row for row in rows if absence(row) in told)
    return GroupTable(tuple(sorted(kept, key=_order)), remarks_of(kept), absent)


def _without(group: GroupTable, said: tuple[Remark, ...]) -> GroupTable:
    """The group without the remarks that were said before, of the run or of its stage."""
    known = {(one.kind, one.text) for one in said if one.stage in (None, group.case.stage)}
    left = tuple(remark for remark in group.remarks if (remark.kind, remark.text) not in known)
    return replace(group, remarks=left)


def _order(row: Standing) -> tuple[bool, float, int, str]:
    """Timed ones by time; then by outcome, what is not measured yet last; then by name."""
    outcomes = [*Outcome, None]
    return row.time is None, row.time.value_s if row.time else 0.0, outcomes.index(row.outcome), row.variant
