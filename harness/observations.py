"""The parent's side of observing: which case still lacks which sensor, and an observer that survives its faults."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness.child import Child
from harness.errors import HeadbenchError
from harness.following import follow, machine_job
from harness.probe import START_S
from harness.sensors.dispatch import DispatchSensor
from harness.sensors.sensor import unseen
from harness.sensors.window import DeviceWindow
from results.run import WANTED
from results.schema import Ceilings, Observation

if TYPE_CHECKING:
    from harness.progress import Progress
    from results.schema import Case
    from results.store import RunWriter

USUAL_START_S = 15.0
"""An observer's start on a GPU: a worker's with the ceilings, some nine seconds, and five until CUPTI has recorded for
the first time."""
USUAL_CASE_S = 1.0
"""A case's window, its preparations, and what the profiler takes for it: the mean of 152 on an H200."""
SENSORS: dict[str, type[DeviceWindow] | type[DispatchSensor]] = {
    "window": DeviceWindow,
    "dispatch": DispatchSensor,
}
"""What the observer is asked to use, by the name it is asked for."""
CEILINGS_STEP = "ceilings"
ON_CPU = {
    "utilisation": "NVML watches GPUs; this run is on the CPU",
    "gpm": "NVML's performance monitor watches GPUs; this run is on the CPU",
    "dispatch": "kernels are a GPU's; this run is on the CPU",
    "counters": "Nsight Compute counts on GPUs; this run is on the CPU",
}

NOT_WATCHED = "a --quick run does not watch the GPU: run without --quick"
"""Why a first look lacks what takes a process of its own, longer than all else in it."""


def usual_s(cases: int, device: str, *, watched: bool = True) -> float:
    """About how long it takes to observe so many cases."""
    return 0.0 if device == "cpu" or not (cases and watched) else USUAL_START_S + USUAL_CASE_S * cases


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
        manifest = self._writer.run.manifest
        on_cpu, watched = manifest.environment["device"] == "cpu", manifest.settings.get("watched", True)
        if on_cpu or not watched:
            for field, cases in self._writer.run.unobserved().items():
                for case in cases:
                    self._store(case, field, ON_CPU[field] if on_cpu else NOT_WATCHED)
            return
        while lacking := self._lacking():
            self._progress.begin("observing")
            before = lacking, self._writer.run.ceilings
            self._one_observer(lacking)
            if (self._lacking(), self._writer.run.ceilings) == before:
                missing = sum(map(len, lacking.values()))
                raise HeadbenchError(f"observing makes no progress: {missing} observations are missing")

    def _lacking(self) -> dict[str, list[Case]]:
        """The cases that lack any of a sensor's fields, by sensor."""
        unobserved = self._writer.run.unobserved()
        return {
            name: list(dict.fromkeys(case for field in sensor.fields for case in unobserved.get(field, ())))
            for name, sensor in SENSORS.items()
            if any(field in unobserved for field in sensor.fields)
        }

    def _one_observer(self, lacking: dict[str, list[Case]]) -> None:
        settings = self._writer.run.manifest.settings
        with Child("harness.observer", self._job(lacking), START_S) as child:
            fault = follow(child, settings["silence_s"], self._progress, self._handle)
        if fault is None:
            return
        if fault.in_hand is None:
            raise HeadbenchError(f"the process that observes could not start: {fault.reason}")
        why = f"{fault.outcome.value}: {fault.during}"
        if fault.in_hand.step == CEILINGS_STEP:
            self._writer.note_ceilings(Ceilings(reason=why))
        in_use = (sensor for sensor in SENSORS.values() if sensor.step == fault.in_hand.step)
        fields = next((sensor.fields for sensor in in_use), ())
        for field, cases in self._writer.run.unobserved().items():
            for case in cases:
                if field in fields and fault.in_hand.holds(case):
                    self._store(case, field, why)

    def _job(self, lacking: dict[str, list[Case]]) -> dict[str, Any]:
        manifest = self._writer.run.manifest
        return {
            **machine_job(manifest.environment),
            "plugins": manifest.settings["plugins"],
            "seed": manifest.settings["seed"],
            "gpm": "gpm" in WANTED.get(str(manifest.settings.get("counters")), ()),
            "ceilings": [] if self._writer.run.ceilings else sorted({case.dtype for case in manifest.cases}),
            "cases": {sensor: [asdict(case) for case in cases] for sensor, cases in lacking.items()},
        }

    def _handle(self, event: dict[str, Any]) -> None:
        if event["event"] == "observation":
            self._writer.observe(Observation.from_json(event["observation"]))
        elif event["event"] == "ceilings":
            self._writer.note_ceilings(Ceilings.from_json(event["ceilings"]))

    def _store(self, case: Case, field: str, reason: str) -> None:
        self._writer.observe(Observation(case, **{field: unseen(field, reason)}))  # type: ignore[arg-type]
