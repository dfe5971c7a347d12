"""Where each case stands in its group: its time, rates, share of peak and speedup, derived once for all readers.

Ranking is like for like: a group's variants are compared in one timing mode, its *headline mode*, the first of
isolated, eager and graph that any of them was timed in. A variant without that mode has no time here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from results.peaks import implausible, peak_bytes_per_s, peak_flops_per_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.record import Record
    from results.schema import Case, Ceilings, Manifest, Outcome
    from results.statistics import Estimate

HEADLINE_MODES = ("isolated", "eager", "graph")
"""Which mode a group is ranked by: the first of these that any of its cases was timed in."""

WIDEST_SURE = 0.25
"""A time known to no better than ± 25 % supports no ratio, also where intervals do not meet."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One case in its group; None is a value that is not known.

    `manifest` and `ceilings` are those of the case's own run, `mode` the group's headline mode, `time` the case's
    estimate in it, `peak_fraction` the share of the dtype's peak FLOP/s at the datasheet's clock (of the memory's peak
    bandwidth for a case that only moves bytes), `held_fraction` at the SM clock it really ran at, `cycles` the time in
    cycles of that clock. `baseline` is what its own run recorded of the baseline, `speedup` that one's time over its
    own, `speedup_sure` that `apart` tells the two apart. `level` says that its interval overlaps the fastest one's.
    `implausible` says why its time cannot be true, in whatever mode: such a case is neither the fastest nor level with
    it.
    """

    record: Record
    manifest: Manifest
    mode: str | None
    time: Estimate | None = None
    is_fastest: bool = False
    level: bool = False
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    peak_fraction: float | None = None
    held_fraction: float | None = None
    cycles: float | None = None
    baseline: Record | None = None
    speedup: float | None = None
    speedup_sure: bool = False
    implausible: str | None = None
    ceilings: Ceilings | None = None

    @property
    def variant(self) -> str:
        """The variant's name, as its author wrote it."""
        return self.record.case.variant

    @property
    def outcome(self) -> Outcome | None:
        """How the case ended; None: not measured yet."""
        return self.record.outcome

    @property
    def is_baseline(self) -> bool:
        """Whether it is what the others of its stage are compared with."""
        return self.variant == _baseline(self.manifest, self.record.case)


def standings(
    records: Sequence[Record],
    manifest_of: Callable[[Case], Manifest],
    baselines: Iterable[Record] | None = None,
    ceilings_of: Callable[[Case], Ceilings | None] = lambda _: None,
) -> list[Standing]:
    """Where each of these records stands among those of its group, in their order.

    `manifest_of` and `ceilings_of` give those of the run that a case was measured in. A record is compared with the
    baseline of its own run only: the one among `baselines`, by default among the records themselves.
    """
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.case.group].append(record)
    of_run = {_place(record, record.case.variant): record for record in baselines or records}
    known: dict[Case, Standing] = {}
    for group in groups.values():
        for standing in _group(group, manifest_of):
            record = standing.record
            baseline = of_run.get(_place(record, _baseline(standing.manifest, record.case)))
            standing = replace(standing, ceilings=ceilings_of(record.case))
            known[record.case] = _compared(standing, baseline)
    return [known[record.case] for record in records]


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two intervals share a point; False where either has none."""
    if one.low_s is None or one.high_s is None or other.low_s is None or other.high_s is None:
        return False
    return one.low_s <= other.high_s and other.low_s <= one.high_s


def is_wide(time: Estimate) -> bool:
    """Whether the interval is known, and wider than ± 25 %."""
    return time.half_width is not None and time.half_width > WIDEST_SURE


def apart(one: Estimate, other: Estimate) -> bool:
    """Whether these two surely differ: both intervals are known, neither is wide, and they share no point."""
    widths = (one.half_width, other.half_width)
    narrow = all(width is not None and width <= WIDEST_SURE for width in widths)
    return narrow and not overlap(one, other)


def _group(group: Sequence[Record], manifest_of: Callable[[Case], Manifest]) -> list[Standing]:
    """The records of one group with their times and rates, the fastest and those level with it marked."""
    mode = next((mode for mode in HEADLINE_MODES if any(mode in one.estimates for one in group)), None)
    found = [_measured(record, manifest_of(record.case), mode) for record in group]
    plausible = [one.time for one in found if one.time and not one.implausible]
    best = min(plausible, key=lambda time: time.value_s, default=None)
    return [_marked(standing, best) for standing in found]


def _measured(record: Record, manifest: Manifest, mode: str | None) -> Standing:
    time = record.estimates.get(mode or "")
    doubt = implausible(record, manifest)
    if time is None:
        return Standing(record, manifest, mode, implausible=doubt)
    flops_per_s = record.useful_flops / time.value_s if record.useful_flops else None
    bytes_per_s = record.least_bytes / time.value_s if record.least_bytes else None
    rate, peak = flops_per_s, peak_flops_per_s(manifest, record.case.dtype)
    if record.moves_only:
        rate, peak = bytes_per_s, peak_bytes_per_s(manifest)
    mhz = record.sampling[mode or ""].sm_clock_mhz
    at_clock = peak_flops_per_s(manifest, record.case.dtype, mhz) if mhz else None
    return Standing(
        record,
        manifest,
        mode,
        time,
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        peak_fraction=rate / peak if rate and peak else None,
        held_fraction=flops_per_s / at_clock if flops_per_s and at_clock else None,
        cycles=time.value_s * mhz * 1e6 if mhz else None,
        implausible=doubt,
    )


def _marked(standing: Standing, best: Estimate | None) -> Standing:
    time = standing.time
    if time is None or best is None or standing.implausible:
        return standing
    return replace(standing, is_fastest=time is best, level=time is not best and overlap(time, best))


def _compared(standing: Standing, baseline: Record | None) -> Standing:
    against = baseline.estimates.get(standing.mode or "") if baseline else None
    if standing.time is None or against is None:
        return replace(standing, baseline=baseline)
    speedup = against.value_s / standing.time.value_s
    return replace(standing, baseline=baseline, speedup=speedup, speedup_sure=apart(standing.time, against))


def _baseline(manifest: Manifest, case: Case) -> str | None:
    return manifest.baselines.get(case.stage)


def _place(record: Record, variant: str | None) -> tuple[str, str, str | None]:
    return record.run_id, record.case.group, variant
