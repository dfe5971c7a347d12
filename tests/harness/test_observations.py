"""Observing from the parent's side: every case with a time gets each sensor's figures, or the reason it has none."""

from __future__ import annotations

import pytest

from harness import observations
from harness.errors import HeadbenchError
from harness.following import Fault, InHand
from harness.observations import Observing
from results.figures import Dispatch, Gpm, Matmul, Utilisation
from results.run import load
from results.schema import Case, Ceilings, Observation, Outcome
from results.store import RunWriter
from tests.results import builders

A, B, FAILED = builders.case("a"), builders.case("b"), builders.case("failed")
GPU = {**builders.GPU_ENVIRONMENT, "gpu": {**builders.GPU_ENVIRONMENT["gpu"], "uuid": "GPU-mine"}}
SETTINGS = {"plugins": [], "seed": 0, "silence_s": 60.0, "counters": "gpm"}


class Quiet:
    """A progress that nobody sees."""

    def begin(self, part):
        pass


class NoChild:
    """Stands for the observer's process; `follow` is scripted."""

    def __init__(self, module, job, silence_s):
        self.job = job

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def measured(tmp_path, environment=GPU, settings=SETTINGS) -> RunWriter:
    """A run of two ok cases and one that failed, nothing observed yet."""
    manifest = builders.manifest([A, B, FAILED], replicates=1, settings=settings, environment=environment)
    writer = RunWriter.create(tmp_path, manifest)
    for case in (A, B):
        writer.append(builders.trial(case, utilisation=None))
    writer.append(builders.trial(FAILED, outcome=Outcome.CRASHED))
    return writer


SEEN = {
    "window": {
        "utilisation": Utilisation(gpu_busy_percent=50.0),
        "gpm": Gpm(tensor_active_percent=44.0),
    },
    "dispatch": {"dispatch": Dispatch(launches=3, busy_s=1e-4)},
}


def observe(writer, monkeypatch, dies_at=(), told=None) -> None:
    """Run the parent with observers that send everything asked for, and die when they come to (sensor, variant)."""
    dying = list(dies_at)

    def died(step, group, key=None):
        return Fault(
            Outcome.CRASHED, "the worker was ended by SIGSEGV", InHand(group, key, step), killed=False
        )

    def follow(child, silence_s, progress, handle):
        if told is not None:
            told.append(
                {sensor: [case["variant"] for case in cases] for sensor, cases in child.job["cases"].items()}
            )
        if child.job["ceilings"]:
            if "ceilings" in dying:
                dying.remove("ceilings")
                return died("ceilings", "this GPU")
            reached = Ceilings({dtype: Matmul(8192, 8e14) for dtype in child.job["ceilings"]}, 4e12)
            handle({"event": "ceilings", "ceilings": reached.to_json()})
        for sensor, cases in child.job["cases"].items():
            for case in (Case(**one) for one in cases):
                if (sensor, case.variant) in dying:
                    dying.remove((sensor, case.variant))
                    return died(observations.SENSORS[sensor].step, case.group, case.key)
                observation = Observation(case, **SEEN[sensor])
                handle({"event": "observation", "observation": observation.to_json()})
        return None

    monkeypatch.setattr(observations, "Child", NoChild)
    monkeypatch.setattr(observations, "follow", follow)
    Observing(writer, Quiet()).run()


def test_every_case_with_a_time_is_watched_by_every_sensor_and_one_that_failed_by_none(tmp_path, monkeypatch):
    with measured(tmp_path) as writer:
        observe(writer, monkeypatch)
        records = {record.case: record for record in load(writer.path).records()}
    for case in (A, B):
        assert records[case].gpu_busy_percent == 50.0
        assert (records[case].dispatch.launches, records[case].dispatch.busy_s) == (3, 1e-4)
        assert records[case].gpm.tensor_active_percent == 44.0
    assert records[FAILED].dispatch is None


def test_what_the_machine_reaches_is_measured_once_for_the_dtypes_of_the_run(tmp_path, monkeypatch):
    with measured(tmp_path) as writer:
        observe(writer, monkeypatch)
        reached = load(writer.path).ceilings
    assert list(reached.matmuls) == [A.dtype]
    assert reached.copy_bytes_per_s == 4e12


def test_where_measuring_what_it_reaches_kills_the_observer_the_cases_are_observed_all_the_same(
    tmp_path, monkeypatch
):
    with measured(tmp_path) as writer:
        observe(writer, monkeypatch, dies_at=["ceilings"])
        run = load(writer.path)
    assert run.ceilings.reason == "crashed: the worker was ended by SIGSEGV, during ceilings"
    assert run.unobserved() == {}


@pytest.mark.parametrize(
    ("counters", "fields"),
    [
        ("none", ["utilisation", "dispatch"]),
        ("gpm", ["utilisation", "gpm", "dispatch"]),
        ("ncu", ["utilisation", "gpm", "dispatch", "counters"]),
    ],
)
def test_what_is_observed_is_what_the_run_asked_for(tmp_path, counters, fields):
    with measured(tmp_path) as writer:
        writer.run.manifest.settings["counters"] = counters
        assert list(writer.run.unobserved()) == fields
        assert Observing(writer, Quiet())._job({})["gpm"] == ("gpm" in fields)


def test_a_case_that_kills_its_observer_gets_the_reason_and_another_observer_watches_the_rest(
    tmp_path, monkeypatch
):
    told = []
    with measured(tmp_path) as writer:
        observe(writer, monkeypatch, dies_at=[("window", "b")], told=told)
        records = {record.case: record for record in load(writer.path).records()}
    assert told == [
        {"window": ["a", "b"], "dispatch": ["a", "b"]},
        {"dispatch": ["a", "b"]},
    ]
    assert records[B].utilisation.reason == "crashed: the worker was ended by SIGSEGV, during NVML window"
    assert records[B].gpu_busy_percent is None
    assert records[B].dispatch.launches == 3
    assert records[A].gpu_busy_percent == 50.0


def test_what_is_observed_already_is_not_observed_again(tmp_path, monkeypatch):
    told = []
    with measured(tmp_path) as writer:
        writer.observe(Observation(A, **SEEN["window"]))
        observe(writer, monkeypatch, told=told)
        observe(writer, monkeypatch, told=told)
    assert told == [{"window": ["b"], "dispatch": ["a", "b"]}]


def test_an_observer_that_cannot_start_is_one_message(tmp_path, monkeypatch):
    def follow(*_):
        return Fault(Outcome.CRASHED, "the worker ended with exit code 1: no module", None, killed=False)

    monkeypatch.setattr(observations, "Child", NoChild)
    monkeypatch.setattr(observations, "follow", follow)
    with (
        measured(tmp_path) as writer,
        pytest.raises(HeadbenchError, match="observes could not start: the worker ended with exit code 1"),
    ):
        Observing(writer, Quiet()).run()


def test_a_quick_run_does_not_watch_the_gpu_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(observations, "Child", None)  # none is started
    with measured(tmp_path, settings={**SETTINGS, "watched": False}) as writer:
        Observing(writer, Quiet()).run()
        assert writer.run.unobserved() == {}
        records = {record.case: record for record in load(writer.path).records()}
    for seen in (records[A].utilisation, records[A].gpm, records[A].dispatch):
        assert seen.reason == "a --quick run does not watch the GPU: run without --quick"
    assert observations.usual_s(2, "cuda", watched=False) == 0.0 < observations.usual_s(2, "cuda")


def test_on_a_cpu_each_sensor_says_why_it_has_nothing_and_no_process_is_started(tmp_path):
    with measured(tmp_path, builders.CPU_ENVIRONMENT) as writer:
        Observing(writer, Quiet()).run()
        assert writer.run.unobserved() == {}
        records = {record.case: record for record in load(writer.path).records()}
    assert records[A].utilisation.reason == "NVML watches GPUs; this run is on the CPU"
    assert records[A].gpm.reason == "NVML's performance monitor watches GPUs; this run is on the CPU"
    assert records[A].dispatch.reason == "kernels are a GPU's; this run is on the CPU"
