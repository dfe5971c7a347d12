"""One case as its trials tell it: the worst outcome, an estimate per timing mode, memory, utilisation."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import reduce
from statistics import median
from typing import TYPE_CHECKING

from results.clock_events import IDLE, words
from results.figures import Counters, Dispatch, Gpm, Memory, Utilisation
from results.schema import MODES, THROTTLED, Case, Manifest, Observation, Outcome, Timing, Trial, Verification
from results.statistics import Estimate, pooled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEVERITY = (
    Outcome.INCORRECT,
    Outcome.CRASHED,
    Outcome.TIMED_OUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.UNSUPPORTED,
    Outcome.UNAVAILABLE,
    Outcome.OK,
)
"""Outcomes, worst first: a case is only as good as its worst replicate."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one mode was sampled, over the replicates that have samples.

    `precision` is the worst of theirs, None where one does not know it; `stopped` each way they ended;
    `floor_s` the largest reading of an empty bracket, `floor_share` the largest share of it in a sample.
    `sm_clock_mhz`, `power_w` and `temperature_c` are medians over blocks, `clock_events` every reason in words
    that any block had for not running at a higher clock, `throttled_share` the share of used samples that ran
    at a clearly lowered one.
    """

    precision: float | None
    stopped: str | None
    floor_s: float | None
    floor_share: float | None
    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_events: tuple[str, ...] = ()
    throttled_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """A case, whole. `outcome` None means not measured yet; only an ok record has estimates.

    `mode_reasons` says why a mode has no estimate, or lacks some replicates, where the trials know.
    `sampling` has the modes of `estimates`. `memory` holds the largest peak delta of all replicates,
    `verifications` the worst check of each moment (before, after), `flags` every flag that samples carry in
    any mode, `sm_clock_mhz` the median over blocks of the first mode of `MODES` that knows it. `replicates` counts the
    trials that were ok. `arrives` is the layout its activations arrive in, None where the trials do not know.
    """

    case: Case
    run_id: str
    outcome: Outcome | None
    reason: str | None
    useful_flops: int
    least_bytes: int
    parameters: int
    estimates: dict[str, Estimate]
    mode_reasons: dict[str, str]
    sampling: dict[str, Sampling]
    memory: Memory | None
    utilisation: Utilisation | None
    gpm: Gpm | None
    dispatch: Dispatch | None
    counters: Counters | None
    verifications: tuple[Verification, ...]
    replicates: int
    sm_clock_mhz: float | None
    flags: tuple[str, ...]
    arrives: str | None = None

    @property
    def moves_only(self) -> bool:
        """Whether its work is bytes alone, as a relayout's is; another stage without FLOPs does not know them."""
        return self.case.stage == "split" and not self.useful_flops

    @property
    def peak_delta_bytes(self) -> int | None:
        """Peak memory of one call above what was resident, or None where it is unknown."""
        return self.memory.peak_delta_bytes if self.memory else None

    @property
    def gpu_busy_percent(self) -> float | None:
        """The share of time in which any kernel ran, by NVML, or None where it is unknown."""
        return self.utilisation.gpu_busy_percent if self.utilisation else None


def assemble(
    manifest: Manifest, trials: Iterable[Trial], observations: Iterable[Observation] = ()
) -> list[Record]:
    """A record for every case of the manifest, in plan order, then for any that only the trials know."""
    of_case: dict[Case, list[Trial]] = {case: [] for case in manifest.cases}
    for trial in newest(trials):
        of_case.setdefault(trial.case, []).append(trial)
    seen: dict[Case, list[Observation]] = defaultdict(list)
    for observation in observations:
        seen[observation.case].append(observation)
    return [_record(manifest.run_id, case, its_trials, seen[case]) for case, its_trials in of_case.items()]


def newest(trials: Iterable[Trial]) -> list[Trial]:
    """The trials in order of replicate; of two of one case and replicate, the one stored later."""
    kept = {(trial.replicate, trial.case): trial for trial in trials}
    return sorted(kept.values(), key=lambda trial: trial.replicate)


def _record(run_id: str, case: Case, trials: Sequence[Trial], seen: Sequence[Observation]) -> Record:
    worst = min(trials, key=lambda trial: SEVERITY.index(trial.outcome), default=None)
    of_mode: dict[str, list[Timing]] = defaultdict(list)
    for trial in trials:
        for mode, timing in trial.timings.items():
            of_mode[mode].append(timing)
    is_ok = worst is not None and worst.outcome is Outcome.OK
    estimates, mode_reasons = _estimates(of_mode) if is_ok else ({}, {})
    return Record(
        case=case,
        run_id=run_id,
        outcome=worst.outcome if worst else None,
        reason=worst.reason if worst else "not measured yet",
        useful_flops=max((trial.useful_flops for trial in trials), default=0),
        least_bytes=max((trial.least_bytes for trial in trials), default=0),
        parameters=max((trial.parameters for trial in trials), default=0),
        estimates=estimates,
        mode_reasons=mode_reasons,
        sampling={mode: _sampling(_sampled(of_mode[mode])) for mode in estimates},
        memory=_largest(trials),
        utilisation=_utilisation(trials, seen),
        gpm=next((one.gpm for one in reversed(seen) if one.gpm), None),
        dispatch=next((one.dispatch for one in reversed(seen) if one.dispatch), None),
        counters=next((one.counters for one in reversed(seen) if one.counters), None),
        verifications=_worst_checks(trials),
        replicates=sum(trial.outcome is Outcome.OK for trial in trials),
        sm_clock_mhz=_sm_clock(of_mode),
        flags=_flags(of_mode),
        arrives=next((trial.arrives for trial in reversed(trials) if trial.arrives), None),
    )


def _estimates(of_mode: dict[str, list[Timing]]) -> tuple[dict[str, Estimate], dict[str, str]]:
    estimates: dict[str, Estimate] = {}
    reasons: dict[str, str] = {}
    for mode in MODES:
        timings = _sampled(of_mode[mode])
        if len(timings) < len(of_mode[mode]):
            said = (timing.reason for timing in of_mode[mode] if timing.reason and not timing.used_s)
            reasons[mode] = next(said, "no samples beyond the warm-up")
        if timings:
            try:
                samples = [timing.used_s for timing in timings]
                estimates[mode] = pooled(samples, max(map(relative_resolution, timings)))
            except ValueError as error:
                reasons[mode] = _too_short(timings) or str(error)
    return estimates, reasons


def _too_short(timings: Sequence[Timing]) -> str | None:
    """What a median of zero means: nothing passed that the timer could see, which bounds the time by its step."""
    steps = [timing.resolution_s for timing in timings if median(timing.used_s) == 0 and timing.resolution_s]
    return f"shorter than the timer's step of {max(steps) * 1e9:,.0f} ns" if steps else None


def _sampled(timings: Iterable[Timing]) -> list[Timing]:
    return [timing for timing in timings if timing.used_s]


def _sampling(timings: Sequence[Timing]) -> Sampling:
    precisions = [timing.precision for timing in timings if timing.precision is not None]
    floors = [timing.floor_s for timing in timings if timing.floor_s is not None]
    return Sampling(
        precision=max(precisions) if len(precisions) == len(timings) else None,
        stopped=", ".join(sorted({timing.stopped for timing in timings if timing.stopped})) or None,
        floor_s=max(floors, default=None),
        floor_share=max((t.floor_s / _span_s(t) for t in timings if t.floor_s is not None), default=None),
        sm_clock_mhz=_median(mhz for timing in timings for mhz in timing.sm_clock_mhz),
        power_w=_median(watts for timing in timings for watts in timing.power_w),
        temperature_c=_median(degrees for timing in timings for degrees in timing.temperature_c),
        clock_events=_clock_events(timings),
        throttled_share=_throttled_share(timings),
    )


def _median(readings: Iterable[float | None]) -> float | None:
    known = [one for one in readings if one is not None]
    return median(known) if known else None


def _clock_events(timings: Sequence[Timing]) -> tuple[str, ...]:
    masks = (mask for timing in timings for mask in timing.clock_event_reasons if mask is not None)
    return words(reduce(operator.or_, masks, 0) & ~IDLE)


def _throttled_share(timings: Sequence[Timing]) -> float:
    marked = sum(
        sum(index >= timing.warmup_samples for index in timing.flags.get(THROTTLED, ())) for timing in timings
    )
    return marked / sum(len(timing.used_s) for timing in timings)


def relative_resolution(timing: Timing) -> float:
    """The timer's step ÷ what one sample timed; 0 where either is unknown."""
    span_s = _span_s(timing)
    if timing.resolution_s is None or timing.resolution_s <= 0 or span_s <= 0:
        return 0.0
    return timing.resolution_s / span_s


def _span_s(timing: Timing) -> float:
    """What one sample timed: all of its calls."""
    return median(timing.used_s) * timing.calls_per_sample


def _largest(trials: Sequence[Trial]) -> Memory | None:
    memories = [trial.memory for trial in trials if trial.memory]
    return max(memories, key=lambda memory: _or_less(memory.peak_delta_bytes), default=None)


def _or_less(value: float | None) -> float:
    return -math.inf if value is None else value


def _utilisation(trials: Sequence[Trial], seen: Sequence[Observation]) -> Utilisation | None:
    """The newest with a number in it, else the newest reason; schema 1 kept it in a trial."""
    said = [trial.utilisation for trial in trials if trial.utilisation]
    said += [one.utilisation for one in seen if one.utilisation]
    measured = (
        one
        for one in reversed(said)
        if replace(one, source=None, scope=None, reason=None, missing={}, window_s=None) != Utilisation()
    )
    return next(measured, said[-1] if said else None)


def _worst_checks(trials: Sequence[Trial]) -> tuple[Verification, ...]:
    worst: dict[str, Verification] = {}
    for check in (check for trial in trials for check in trial.verifications):
        if check.when not in worst or _badness(check) > _badness(worst[check.when]):
            worst[check.when] = check
    return tuple(worst.values())


def _badness(check: Verification) -> tuple[bool, float]:
    """A failed check is worse than any pass; then the error in units of its limit, unknown the worst."""
    errors = ((check.relative_error, check.limit), (check.worst_row_error, check.worst_row_limit))
    in_limits = [math.inf if error is None or limit <= 0 else error / limit for error, limit in errors]
    return not check.passed, max(in_limits)


def _sm_clock(of_mode: dict[str, list[Timing]]) -> float | None:
    clocks = (_median(mhz for timing in of_mode[mode] for mhz in timing.sm_clock_mhz) for mode in MODES)
    return next((mhz for mhz in clocks if mhz is not None), None)


def _flags(of_mode: dict[str, list[Timing]]) -> tuple[str, ...]:
    timings = (timing for its_timings in of_mode.values() for timing in its_timings)
    return tuple(sorted({flag for timing in timings for flag, marked in timing.flags.items() if marked}))
