"""Clocks, power and temperature over a run: a reading for each trial, and one for each window watched afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from results.merged import MergedRun
from results.run import timestamp
from results.schema import MODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from results.run import Run
    from results.schema import Case, Observation, Trial


@dataclass(frozen=True, slots=True)
class Reading:
    """What the GPU did `at_s` seconds after its run began.

    Of a trial (`replicate` 0 and up): the median SM clock over the blocks of the first mode that knows it, the median
    of what power and temperature read at the ends of all blocks. Of a window (`replicate` None): what NVML read at
    its end, the GPU busy with this case alone.
    """

    at_s: float
    case: Case
    replicate: int | None
    sm_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None

    @property
    def is_known(self) -> bool:
        """Whether there is anything to draw."""
        return any(one is not None for one in (self.sm_clock_mhz, self.power_w, self.temperature_c))


def conditions(run: Run) -> dict[str, tuple[Reading, ...]]:
    """The readings of each run by its id, oldest first, ordered by time; a run that has none is not there."""
    parts = tuple(reversed(run.parts)) if isinstance(run, MergedRun) else (run,)
    found = {part.manifest.run_id: _readings(part) for part in parts}
    return {run_id: readings for run_id, readings in found.items() if readings}


def _readings(run: Run) -> tuple[Reading, ...]:
    start = timestamp(run.manifest.created_utc)
    if start is None:
        return ()
    every = [*_trials(run.trials, start), *_windows(run.observations, start)]
    return tuple(sorted((one for one in every if one.is_known), key=lambda one: one.at_s))


def _trials(trials: Iterable[Trial], start: float) -> Iterator[Reading]:
    for trial in trials:
        when = timestamp(trial.started_utc)
        if when is not None:
            timings = [trial.timings[mode] for mode in MODES if mode in trial.timings]
            clocks = (_median(timing.sm_clock_mhz) for timing in timings)
            yield Reading(
                when - start,
                trial.case,
                trial.replicate,
                next((mhz for mhz in clocks if mhz is not None), None),
                _median(watts for timing in timings for watts in timing.power_w),
                _median(degrees for timing in timings for degrees in timing.temperature_c),
            )


def _windows(observations: Iterable[Observation], start: float) -> Iterator[Reading]:
    for one in observations:
        when, seen = timestamp(one.ended_utc), one.utilisation
        if when is not None and seen is not None:
            yield Reading(when - start, one.case, None, seen.sm_clock_mhz, seen.power_w, seen.temperature_c)


def _median(readings: Iterable[float | None]) -> float | None:
    known = [one for one in readings if one is not None]
    return median(known) if known else None
