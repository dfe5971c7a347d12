from __future__ import annotations

import pytest

from reports import content
from reports.series.conditions import conditions
from reports.series.samples import strips
from results.figures import Utilisation
from results.schema import Observation, Outcome
from results.store import read
from tests.reports import runs
from tests.results import builders


def test_every_used_sample_is_there_and_no_warm_up():
    run = runs.run(runs.gpu_trials({"fused": 1e-4}))
    found = strips(content.from_run(run), run)
    assert [(strip.mode, strip.replicate) for strip in found] == [
        (mode, n) for mode in ("isolated", "eager", "graph") for n in range(3)
    ]
    assert found[0].samples_s == run.trials[0].timings["isolated"].used_s
    assert len(found[0].samples_s) == 9


def test_a_case_that_failed_in_one_replicate_has_no_strip():
    trials = runs.gpu_trials({"fused": 1e-4})
    trials[2] = runs.failed("fused", runs.Outcome.INCORRECT, "wrong")
    run = runs.run(trials)
    assert strips(content.from_run(run), run) == ()


def test_the_recorded_run_keeps_all_its_samples():
    run = read("nvidia-h200/default")
    used = sum(len(timing.used_s) for trial in run.trials for timing in trial.timings.values())
    assert sum(len(strip.samples_s) for strip in strips(content.from_run(run), run)) == used


def test_a_reading_tells_when_and_what_the_gpu_did():
    timings = {
        "isolated": builders.timing(
            1e-4, sm_clock_mhz=(1800.0, 1700.0), power_w=(300.0,), temperature_c=(40.0,)
        ),
        "eager": builders.timing(2e-4, sm_clock_mhz=(900.0,), power_w=(500.0,), temperature_c=(44.0,)),
    }
    trial = builders.trial(builders.case(), 0, timings=timings, started_utc="2026-01-02T03:05:05Z")
    run = runs.run([trial])
    window = Utilisation(sm_clock_mhz=1980.0, power_w=600.0, temperature_c=55.0)
    run.observations = [Observation(builders.case(), ended_utc="2026-01-02T03:06:05Z", utilisation=window)]
    ((first, second),) = conditions(run).values()
    assert (first.at_s, first.replicate) == (60, 0)
    assert (first.sm_clock_mhz, first.power_w, first.temperature_c) == (1750, 400, 42)
    assert (second.at_s, second.replicate, second.sm_clock_mhz) == (120, None, 1980)


def test_a_cpu_has_no_readings():
    assert conditions(runs.cpu_run()) == {}


def test_a_start_that_is_no_time_leaves_nothing_to_draw():
    assert conditions(runs.run(runs.gpu_trials(runs.QKV), created_utc="long ago")) == {}


def test_the_runs_of_a_folder_keep_their_own_clocks():
    merged = read("nvidia-h200")
    found = conditions(merged)
    assert found.keys() == {row.record.run_id for row in merged.standings() if row.outcome is Outcome.OK}
    assert len(found) >= 3
    for readings in found.values():
        assert readings[0].at_s == pytest.approx(5, abs=3)
        assert [one.at_s for one in readings] == sorted(one.at_s for one in readings)
