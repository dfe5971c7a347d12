"""Why a cell is empty, and what else must be said: each reason once, with the variants it holds for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from reports import units
from reports.text import listing, plain, shorten
from results.machines import whence
from results.peaks import peak_bytes_per_s, peak_flops_per_s, why_no_copy, why_no_peak
from results.schema import MODES, STRIDED, THROTTLED, Outcome
from results.tensor_use import ACTIVE, asked, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.ranking import Standing
    from results.record import Record

IMPLAUSIBLE = "implausible"
"""The kind of remark that must not be overlooked."""

FROM_RUN = "from run"
"""The kind of remark that tells whose rows are whose where a group holds those of several runs."""

FLOOR_SHARE = 1 / 5
"""Where an empty bracket takes more of a sample than this, what brackets cost shows in the time."""

THROTTLED_SHARE = 1 / 4
"""Where more samples than this ran at a clock below the case's highest, its time tells of heat as well."""

Absence: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Remark:
    """`text` holds for `variants`; `kind` names the outcome, the missing value or the flag.

    `universal` says that it holds for every ok case of its group. Without variants it holds for the run. With
    a `stage` it holds in all groups of that stage, or of one `direction` of it.
    """

    kind: str
    text: str
    variants: tuple[str, ...] = ()
    universal: bool = False
    stage: str | None = None
    direction: str | None = None

    @property
    def sentence(self) -> str:
        """Whom it is about and what is said of them, made plain."""
        place = " ".join(plain(one) for one in (self.stage, self.direction) if one)
        where = f"in {place}" if place else ""
        whom = " ".join(one for one in (listing(self.variants), where) if one)
        return f"{whom}: {shorten(self.text)}" if whom else shorten(self.text)


def outcome_label(outcome: Outcome | None) -> str:
    """The outcome in words: `out of memory`; a case without any trial is `not measured`."""
    return "not measured" if outcome is None else outcome.value.replace("_", " ")


def remarks_of(rows: Sequence[Standing]) -> tuple[Remark, ...]:
    """Everything to be said of one group's cases: what is wrong first, then what is missing."""
    about: dict[tuple[str, str], list[str]] = {}
    runs = whence(row.manifest for row in rows)
    mixed = len(runs) > 1
    for row in rows:
        for said in _wrong(row):
            about.setdefault(said, []).append(row.variant)
    for row in rows if mixed else ():
        about.setdefault((FROM_RUN, runs[row.manifest.run_id]), []).append(row.variant)
    ok = [row for row in rows if row.outcome is Outcome.OK]
    for row in ok:
        for said in (
            *_arrival(row.record),
            *times_told(row),
            *_floors(row.record),
            *_comparisons(row, mixed),
            *_sensors(row),
        ):
            about.setdefault(said, []).append(row.variant)
    everyone = {row.variant for row in ok}
    return tuple(
        Remark(kind, text, tuple(variants), universal=everyone == set(variants) and kind != FROM_RUN)
        for (kind, text), variants in about.items()
    )


def shared(groups: Sequence[Sequence[Remark]]) -> tuple[Remark, ...]:
    """What holds for every ok case of each of these groups, to be said once."""
    saying = [{(r.kind, r.text) for r in remarks if r.universal} for remarks in groups]
    common = set.intersection(*saying) if saying else set()
    return (
        tuple(Remark(r.kind, r.text, universal=True) for r in groups[0] if (r.kind, r.text) in common)
        if common
        else ()
    )


def shared_in_stages(groups: Sequence[tuple[str, Sequence[Remark]]]) -> tuple[Remark, ...]:
    """What holds for every ok case of all the groups of a stage, where there are several, to be said once of it.

    `groups` are (stage, remarks).
    """
    of_stage: dict[str, list[Sequence[Remark]]] = {}
    for stage, remarks in groups:
        of_stage.setdefault(stage, []).append(remarks)
    return tuple(
        replace(remark, stage=stage)
        for stage, several in of_stage.items()
        if len(several) > 1
        for remark in shared(several)
    )


def left_out_everywhere(groups: Sequence[Sequence[Standing]]) -> tuple[Remark, ...]:
    """What each stage leaves out in every group of its, with one outcome and one reason, to be said once.

    What is left out in one direction alone is said of that. A stage with a group of which nothing else would be left
    keeps them all.
    """
    kept: dict[tuple[str, str], list[dict[Absence, None]]] = {}
    for rows in groups:
        case = rows[0].record.case
        absent = dict.fromkeys(absence(row) for row in rows if row.outcome and row.outcome.never_tried)
        kept.setdefault((case.stage, case.direction), []).append(absent if len(absent) < len(rows) else {})
    everywhere = {
        place: [one for one in absences[0] if all(one in absent for absent in absences)]
        for place, absences in kept.items()
    }
    found: dict[tuple[str, str | None, str, str], dict[str, None]] = {}
    for (stage, direction), absences in everywhere.items():
        of_stage = [set(others) for (other, _), others in everywhere.items() if other == stage]
        for variant, kind, text in absences:
            in_all = all((variant, kind, text) in others for others in of_stage)
            where = stage, None if in_all else direction
            found.setdefault((*where, kind, text), {})[variant] = None
    return tuple(
        Remark(kind, text, tuple(variants), stage=stage, direction=direction)
        for (stage, direction, kind, text), variants in found.items()
    )


def absence(row: Standing) -> Absence:
    """(variant, outcome in words, reason) of a case without a time."""
    return row.variant, outcome_label(row.outcome), row.record.reason or "no reason was stored"


def company(record: Record) -> Iterator[tuple[str, str]]:
    """Who else used the GPU while the case was watched."""
    others = record.utilisation.other_processes if record.utilisation else None
    if others:
        who = "1 other process" if others == 1 else f"{others} other processes"
        yield "not alone", f"{who} used the GPU in its window: what is told of the whole GPU includes that"


def _wrong(row: Standing) -> Iterator[tuple[str, str]]:
    if row.outcome not in (Outcome.OK, None):
        yield absence(row)[1:]
    if row.implausible:
        yield IMPLAUSIBLE, row.implausible


def _arrival(record: Record) -> Iterator[tuple[str, str]]:
    """What a case is spared that others of its group may pay."""
    if record.arrives == STRIDED:
        yield "arrives strided", "its activations are given as strided views of one buffer, arranged untimed"


def times_told(row: Standing) -> Iterator[tuple[str, str]]:
    """Which times of an ok case are missing or of fewer replicates, and what others were measured under."""
    record, planned = row.record, row.manifest.replicates
    if record.replicates < planned:
        no_interval = ", no interval" if record.replicates == 1 else ""
        yield "partial", f"{record.replicates} of {planned} replicates{no_interval}"
    for mode in MODES:
        reason, estimate = record.mode_reasons.get(mode), record.estimates.get(mode)
        if estimate is None and reason:
            yield f"no {mode} time", reason
        elif estimate and estimate.replicates < record.replicates:
            no_interval = ", no interval" if estimate.replicates == 1 else ""
            counted = f"{mode} in {estimate.replicates} of {record.replicates} replicates{no_interval}"
            yield "partial", f"{counted}: {reason or 'no reason was stored'}"
    yield from _throttled(record)
    for flag in record.flags:
        if flag != THROTTLED:
            yield "flagged", f"{flag}, in some samples"


def _throttled(record: Record) -> Iterator[tuple[str, str]]:
    """How much of what is shown ran at a lowered clock, and what NVML calls the cause."""
    for mode, sampling in record.sampling.items():
        # An eager loop waits for its launches, and the clock of a GPU that waits is another one.
        if mode != "eager" and sampling.throttled_share > THROTTLED_SHARE:
            cause = f": {', '.join(sampling.clock_events)}" if sampling.clock_events else ""
            share = units.percent(sampling.throttled_share)
            yield THROTTLED, f"{share} of the {mode} samples ran at a lowered clock{cause}"


def _floors(record: Record) -> Iterator[tuple[str, str]]:
    for mode, sampling in record.sampling.items():
        if sampling.floor_share is not None and sampling.floor_share > FLOOR_SHARE:
            floor = units.duration(sampling.floor_s, digits=2)
            yield (
                "near the floor",
                f"{mode}: an empty bracket reads {floor}: the kernel itself is shorter than shown",
            )


def _comparisons(row: Standing, mixed: bool) -> Iterator[tuple[str, str]]:
    case, manifest = row.record.case, row.manifest
    if row.record.moves_only:
        yield from _of_memory(row)
    elif peak_flops_per_s(manifest, case.dtype) is None:
        yield "no share of peak", why_no_peak(manifest, case.dtype)
    if row.time and row.speedup is None:
        yield "no ×", _why_no_speedup(row, f"run {row.record.run_id}" if mixed else "this run")


def _of_memory(row: Standing) -> Iterator[tuple[str, str]]:
    """What a case that only moves bytes cannot be held against; where no peak is known, that is said in one way."""
    manifest = row.manifest
    if peak_bytes_per_s(manifest) is None:
        other = (
            row.record.case.dtype if peak_flops_per_s(manifest, row.record.case.dtype) is None else "memory"
        )
        yield "no share of peak", why_no_peak(manifest, other)
    on_gpu = bool(manifest.environment.get("gpu"))
    if on_gpu and row.time and not (row.ceilings and row.ceilings.copy_bytes_per_s):
        yield "no share of a copy", why_no_copy(row.ceilings)


def _why_no_speedup(row: Standing, run: str) -> str:
    stage, baseline = row.record.case.stage, row.baseline
    name = row.manifest.baselines.get(stage)
    if name is None:
        return f"{run} names no baseline of the stage {stage}"
    if baseline is None:
        return f"the baseline {name} was not part of {run}"
    ended = "" if baseline.outcome is Outcome.OK else f": {outcome_label(baseline.outcome)}"
    return f"the baseline {name} has no {row.mode} time{ended}"


def _sensors(row: Standing) -> Iterator[tuple[str, str]]:
    record = row.record
    memory, utilisation = record.memory, record.utilisation
    if record.peak_delta_bytes is None:
        yield "no peak memory", (memory and memory.reason) or "not recorded"
    if record.gpu_busy_percent is None:
        yield "no busy share", (utilisation and utilisation.reason) or "not recorded"
    for kind, name, figure in (("no GPM", "gpm", ACTIVE), ("no counters", "counters", "issued_flops")):
        if asked(row, name) and getattr(getattr(record, name), figure, None) is None:
            yield kind, why_not(row, name, figure)
    yield from company(record)
