"""Several runs as one: every case from the newest run that measured it, never from two."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from results.machines import machine
from results.ranking import Standing, standings
from results.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pandas import DataFrame

    from results.record import Record
    from results.schema import Case, Ceilings, Manifest

VOLATILE = (
    *("notices", "gpu.sm_clock_mhz", "gpu.temperature_c", "gpu.memory_used_bytes"),
    *("gpu.other_processes", "gpu.other_processes_reason", "git", "git.commit", "git.clean"),
)
"""What may differ between two runs without making their machines or software different ones."""


@dataclass
class MergedRun(Run):
    """The runs of one folder, newest first, and which of them each case is taken from.

    Records and rows are what their own run says: no rate and no speedup mixes two runs. `manifest` is the
    newest run's with the cases of all; `manifest_of` gives a case's own.
    """

    parts: tuple[Run, ...] = ()
    owners: dict[Case, Run] = field(default_factory=dict)

    def records(self) -> list[Record]:
        """A record per case: the newest run's in its plan order, then what only older runs have."""
        return [
            record for part in self.parts for record in part.records() if self.owners[record.case] is part
        ]

    def standings(self) -> list[Standing]:
        """As a single run's; a case is compared with the baseline of its own run, also where a newer has one."""
        of_part = [(part, record) for part in self.parts for record in part.records()]
        records = [record for part, record in of_part if self.owners[record.case] is part]
        baselines = [record for _, record in of_part]
        return standings(records, self.manifest_of, baselines, self.ceilings_of)

    def samples(self) -> DataFrame:
        """A row per sample of every case, each from the run it is taken from."""
        from pandas import concat

        return concat([_narrowed(part, self.owners).samples() for part in self.parts], ignore_index=True)

    def missing(self) -> list[tuple[int, Case]]:
        """What each run has still to measure of the cases that are taken from it."""
        return [
            (replicate, case)
            for part in self.parts
            for replicate, case in part.missing()
            if self.owners[case] is part
        ]

    def unfinished(self) -> dict[Path, int]:
        """The missing trials of each run that lacks some: a merged folder cannot be resumed itself."""
        return dict(Counter(self.owners[case].path for _, case in self.missing()))

    def sources(self) -> list[str]:
        """The ids of the runs that any case is taken from, oldest first."""
        return [part.manifest.run_id for part in reversed(_used(self.parts, self.owners))]

    def took_s(self) -> None:
        """None: several sessions have no one duration."""

    def manifest_of(self, case: Case, /) -> Manifest:
        """The manifest of the run that this case is taken from."""
        return self.owners[case].manifest

    def ceilings_of(self, case: Case, /) -> Ceilings | None:
        """What that run found its machine to reach at most."""
        return self.owners[case].ceilings


def merge(folder: Path, runs: Sequence[Run], notes: Sequence[str] = ()) -> MergedRun:
    """One run from at least one; `notes` says what of the folder was left out."""
    parts = tuple(sorted(runs, key=lambda run: (run.manifest.created_utc, run.manifest.run_id), reverse=True))
    owners = _owners(parts)
    newest = parts[0].manifest
    merged = replace(
        newest,
        run_id=folder.resolve().name,
        cases=tuple(owners),
        baselines={
            stage: name for part in reversed(parts) for stage, name in part.manifest.baselines.items()
        },
    )
    return MergedRun(
        path=folder,
        manifest=merged,
        trials=[trial for part in parts for trial in part.trials if owners[trial.case] is part],
        observations=[one for part in parts for one in part.observations if owners.get(one.case) is part],
        notes=[*_merge_notes(parts, owners), *notes, *_part_notes(parts)],
        parts=parts,
        owners=owners,
    )


def _owners(parts: Sequence[Run]) -> dict[Case, Run]:
    """The newest run with a trial of the case, else the newest that planned it."""
    planned = {case: part for part in reversed(parts) for case in part.manifest.cases}
    measured = {trial.case: part for part in reversed(parts) for trial in part.trials}
    ordered = dict.fromkeys(case for part in parts for case in part.manifest.cases)
    return {case: measured.get(case) or planned[case] for case in ordered | dict.fromkeys(measured)}


def _merge_notes(parts: Sequence[Run], owners: dict[Case, Run]) -> list[str]:
    used = _used(parts, owners)
    superseded = sum(bool(part.manifest.cases) for part in parts) - len(used)
    notes = (
        [f"{superseded} of {len(parts)} runs left out: every case of theirs was measured again later"]
        if superseded
        else []
    )
    differing = sorted(set().union(*(_differences(used[0], part) for part in used[1:])))
    machines = {machine(part.manifest) for part in used}
    if differing:
        of = f"are of {len(machines)} machines and " if len(machines) > 1 else ""
        notes.append(
            f"the merged runs {of}differ in {', '.join(differing)}: do not compare times across them"
        )
    return notes


def _used(parts: Sequence[Run], owners: dict[Case, Run]) -> list[Run]:
    return [part for part in parts if any(owner is part for owner in owners.values())]


def _part_notes(parts: Sequence[Run]) -> list[str]:
    return [f"{part.manifest.run_id}: {note}" for part in parts for note in part.notes]


def _differences(one: Run, other: Run) -> set[str]:
    left, right = (_flattened(run.manifest.environment) for run in (one, other))
    keys = (left.keys() | right.keys()) - set(VOLATILE)
    return {key for key in keys if left.get(key) != right.get(key)}


def _flattened(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _narrowed(part: Run, owners: dict[Case, Run]) -> Run:
    """The part with only the trials of its own cases."""
    return replace(part, trials=[trial for trial in part.trials if owners[trial.case] is part])
