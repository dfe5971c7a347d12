"""How many times as fast as its baseline each variant is, with the interval that pairing by replicate gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.medians import medians
from results.within_run import Ratio, ratio

if TYPE_CHECKING:
    from reports.content import Report
    from results.medians import Medians
    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case


@dataclass(frozen=True, slots=True)
class Speedup:
    """The time of `against` ÷ the row's, both in the group's headline mode: above 1 the row is the faster one."""

    row: Standing
    against: Case
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class GroupSpeedups:
    """A group's, the fastest first. `over_baseline` says whether `against` is the stage's baseline, else the fastest:
    a run need not have measured its baseline."""

    over_baseline: bool
    points: tuple[Speedup, ...]

    @property
    def case(self) -> Case:
        """One of its cases."""
        return self.points[0].row.record.case


def speedups(report: Report, run: Run) -> tuple[GroupSpeedups, ...]:
    """Of every group with two times of one run, in plan order."""
    times = medians(run.trials)
    found = (_group([row for row in group.rows if row.time], times) for group in report.groups)
    return tuple(group for group in found if group)


def _group(rows: list[Standing], times: dict[Case, Medians]) -> GroupSpeedups | None:
    believed = [row for row in rows if not row.implausible]
    baseline = next((row for row in believed if row.is_baseline), None)
    against = baseline or next((row for row in believed if row.is_fastest), None)
    if against is None or len(believed) < 2:
        return None
    points = [point for row in believed if (point := _point(row, against, times))]
    return GroupSpeedups(baseline is not None, tuple(points)) if len(points) > 1 else None


def _point(row: Standing, against: Standing, times: dict[Case, Medians]) -> Speedup | None:
    """None where they are of two runs, whose processes do not pair."""
    mode, case = row.mode or "", against.record.case
    if row.record.run_id != against.record.run_id:
        return None
    if row is against:
        return Speedup(row, case, Ratio(1.0, 1.0, 1.0, row.record.replicates))
    of = [times.get(one.record.case, {}).get(mode, {}) for one in (against, row)]
    found = ratio(*of)
    return None if isinstance(found, str) else Speedup(row, case, found)
