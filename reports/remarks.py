"""Why a cell is empty, and what else must be said: each reason once, with the variants it holds for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.record import Record
    from results.schema import Manifest

ORDINARY_FLAGS = {"warm-up", "outlier"}
"""Flags that every run carries; they change no number that is shown."""


@dataclass(frozen=True, slots=True)
class Remark:
    """`text` holds for `variants`; `kind` names the outcome, the missing value or the flag.

    `universal` says that it holds for every ok case of its group. Without variants it holds for the run.
    """

    kind: str
    text: str
    variants: tuple[str, ...] = ()
    universal: bool = False


def outcome_label(outcome: Outcome | None) -> str:
    """The outcome in words: `out of memory`; a case without any trial is `not measured`."""
    return "not measured" if outcome is None else outcome.value.replace("_", " ")


def remarks_of(records: Sequence[Record], mode: str | None, manifest: Manifest) -> tuple[Remark, ...]:
    """Everything to be said of one group's cases, ranked by `mode`: outcomes first, then what is missing."""
    baseline = manifest.baselines.get(records[0].case.stage)
    comparable = any(record.case.variant == baseline and mode in record.estimates for record in records)
    about: dict[tuple[str, str], list[str]] = {}
    ok = [record for record in records if record.outcome is Outcome.OK]
    for record in records:
        if record.outcome not in (Outcome.OK, None):
            said = (outcome_label(record.outcome), record.reason or "no reason was stored")
            about.setdefault(said, []).append(record.case.variant)
    for record in ok:
        for said in (*_times(record, manifest), *_peak(record, manifest), *_sensors(record), *_flags(record)):
            about.setdefault(said, []).append(record.case.variant)
        if not comparable and mode in record.estimates:
            about.setdefault(("no ×", f"the baseline {baseline} has no {mode} time"), []).append(
                record.case.variant
            )
    return tuple(
        Remark(kind, text, tuple(variants), universal={r.case.variant for r in ok} == set(variants))
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


def known_peak(manifest: Manifest, record: Record) -> tuple[float | None, str | None]:
    """(the peak this case is held against or None, then why): FLOP/s of its dtype, or memory bytes/s."""
    name, unit = (record.case.dtype, "flops_per_s") if record.useful_flops else ("memory", "bytes_per_s")
    entry = (manifest.environment.get("peaks") or {}).get(name) or {}
    if entry.get(unit):
        return float(entry[unit]), None
    return None, entry.get("reason") or f"no {name} peak is known for this device"


def _times(record: Record, manifest: Manifest) -> Iterator[tuple[str, str]]:
    for mode, reason in record.mode_reasons.items():
        yield f"no {mode} time", reason
    if record.replicates < manifest.replicates:
        no_interval = ", no interval" if record.replicates == 1 else ""
        yield "partial", f"{record.replicates} of {manifest.replicates} replicates{no_interval}"


def _peak(record: Record, manifest: Manifest) -> Iterator[tuple[str, str]]:
    reason = known_peak(manifest, record)[1]
    if reason:
        yield "no share of peak", reason


def _sensors(record: Record) -> Iterator[tuple[str, str]]:
    memory, utilisation = record.memory, record.utilisation
    if memory is None or memory.peak_delta_bytes is None:
        yield "no peak memory", (memory and memory.reason) or "not recorded"
    if utilisation is None or utilisation.gpu_busy_percent is None:
        yield "no busy share", (utilisation and utilisation.reason) or "not recorded"


def _flags(record: Record) -> Iterator[tuple[str, str]]:
    for flag in record.flags:
        if flag not in ORDINARY_FLAGS:
            yield "flagged", f"{flag}, in some samples"
