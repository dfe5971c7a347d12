"""The parent's side of observing: which case still lacks which sensor, and an observer that survives its faults."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.child import Child
from harness.errors import HeadbenchError
from harness.following import follow, machine_job
from harness.probe import START_S
from harness.sensors.sensor import unseen
from results.schema import Observation

if TYPE_CHECKING:
    from harness.progress import Progress
    from results.schema import Case
    from results.store import RunWriter

USUAL_START_S = 12.0
"""An observer's start on a GPU: a worker's, and some five seconds until CUPTI has recorded for the first time."""
USUAL_CASE_S = 0.62
"""A case's NVML window, its preparations, and what the profiler takes for it."""
SENSORS = {"window": ("utilisation", "gpm"), "dispatch": ("dispatch",)}
"""What the observer is asked to use, and the fields of an observation that each fills."""
FIELDS_OF_STEP = {"NVML window": SENSORS["window"], "kernels": SENSORS["dispatch"]}
ON_CPU = {
    "utilisation": "NVML watches GPUs; this run is on the CPU",
    "gpm": "NVML's performance monitor watches GPUs; this run is on the CPU",
    "dispatch": "kernels are a GPU's; this run is on the CPU",
    "counters": "Nsight Compute counts on GPUs; this run is on the CPU",
}


def usual_s(cases: int, device: str) -> float:
    """About how long it takes to observe so many cases."""
    return 0.0 if device == "cpu" or not cases else USUAL_START_S + USUAL_CASE_S * cases


class Observing:
    """Observes every case of a run that has a time and lacks a sensor's figures."""

    def __init__(self, writer: RunWriter, progress: Progress) -> None:
        self._writer, self._progress = writer, progress

    def run(self) -> None:
        """One observer after the other, until every case has its figures or the reason it has none.

        Raises:
            HeadbenchError: an observer cannot start.
            StoreError: an observation could not be stored.
        """
        if self._writer.run.manifest.environment["device"] == "cpu":
            for field, cases in self._writer.run.unobserved().items():
                for case in cases:
                    self._store(case, field, ON_CPU[field])
            return
        while lacking := self._lacking():
            self._progress.begin("observing")
            before = sum(map(len, lacking.values()))
            self._one_observer(lacking)
            if sum(map(len, self._lacking().values())) == before:
                raise HeadbenchError(f"observing makes no progress: {before} observations are missing")

    def _lacking(self) -> dict[str, list[Case]]:
        """The cases that lack any of a sensor's fields, by sensor."""
        unobserved = self._writer.run.unobserved()
        return {
            sensor: list(dict.fromkeys(case for field in fields for case in unobserved.get(field, ())))
            for sensor, fields in SENSORS.items()
            if any(field in unobserved for field in fields)
        }

    def _one_observer(self, lacking: dict[str, list[Case]]) -> None:
        settings = self._writer.run.manifest.settings
        with Child("harness.observer", self._job(lacking), START_S) as child:
            fault = follow(child, settings["silence_s"], self._progress, self._handle)
        if fault is None:
            return
        if fault.in_hand is None:
            raise HeadbenchError(f"the process that observes could not start: {fault.reason}")
        for field, cases in self._writer.run.unobserved().items():
            for case in cases if field in FIELDS_OF_STEP.get(fault.in_hand.step, ()) else ():
                if fault.in_hand.holds(case):
                    self._store(case, field, f"{fault.outcome.value}: {fault.during}")

    def _job(self, lacking: dict[str, list[Case]]) -> dict[str, Any]:
        manifest = self._writer.run.manifest
        return {
            **machine_job(manifest.environment),
            "plugins": manifest.settings["plugins"],
            "seed": manifest.settings["seed"],
            "gpm": manifest.settings["counters"] != "none",
            "cases": {sensor: [asdict(case) for case in cases] for sensor, cases in lacking.items()},
        }

    def _handle(self, event: dict[str, Any]) -> None:
        if event["event"] == "observation":
            self._writer.observe(Observation.from_json(event["observation"]))

    def _store(self, case: Case, field: str, reason: str) -> None:
        self._writer.observe(Observation(case, **{field: unseen(field, reason)}))  # type: ignore[arg-type]
