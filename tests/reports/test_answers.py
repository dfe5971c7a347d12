from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reports import content
from reports.answers import answers
from reports.columns import fastest_grid
from results.figures import Dispatch
from results.schema import Observation
from results.store import read
from tests.reports import runs
from tests.results import builders


def of(run):
    return answers(content.from_run(run))


def test_a_recorded_run_is_answered_stage_by_stage():
    of_stage = {answer.stage: answer for answer in of(read("nvidia-h200/default"))}
    assert of_stage["qkv"].sentences == (
        "fused_qkv is the fastest in all 8 shapes",
        "the fastest is 14.9 to 22.5 × as fast as per_head at batch 1, 3.46 to 4.72 × at batch 32",
        "called from Python at batch 1, d_model 768 = 12×64, fused_qkv is 36.5 × as fast as per_head: it saves "
        "119 µs in kernels and 391 µs in launches and gaps (36 kernels and copies against 1)",
        "called from Python at batch 32, d_model 1536 = 24×64, fused_qkv is 3.66 × as fast as per_head: it saves "
        "1.46 ms in kernels and 145 µs in launches and gaps (72 kernels and copies against 2)",
        "the winner's 95 % interval meets no other's in all 8 shapes",
    )
    assert of_stage["split"].which == "relayout is the fastest in both shapes"
    assert of_stage["split"].sure == "the winner's 95 % interval meets no other's in both shapes"
    assert (
        of_stage["output"].which == "strided_matmul is the fastest in all 8 shapes, given strided activations"
    )


def test_what_tells_the_shapes_apart_is_named():
    _, attention, _ = of(read("nvidia-h200/head_dim"))
    assert attention.which.startswith(
        "sdpa is the fastest at d_model 768 = 12×64 and 864 = 12×72, level with"
    )
    assert attention.which.endswith("; flash_portable at d_model 384 = 12×32")


def test_without_a_baseline_the_runner_up_is_the_measure():
    (found,) = of(read("nvidia-h200/kernels_1024"))
    assert found.by == "the runner-up (flash_portable, fa4, sdpa_cudnn) takes 1.15 to 1.53 × the time"
    assert found.why == ()


def test_how_few_processes_an_interval_is_of_is_said_where_they_are_two():
    (found,) = of(read("nvidia-h200/kernels_16384"))
    assert found.sure == "the winner's 95 % interval, of two processes, meets no other's in 4 of 6 shapes"


def test_a_runner_up_that_is_level_everywhere_is_not_said_to_trail():
    times_s = {
        1: {"sdpa": 1e-4, "fa4": 1.0001e-4, "flex": 2e-4},
        8: {"sdpa": 1e-3, "fa4": 3e-3, "flex": 2e-3},
    }
    trials = [one for batch, of_it in times_s.items() for one in runs.gpu_trials(of_it, batch=batch)]
    report = content.from_run(runs.run(trials))
    assert [(best.runner_up.variant, best.level) for best in report.fastest] == [
        ("fa4", True),
        ("flex", False),
    ]
    (found,) = answers(report)
    assert found.by == "the runner-up (flex) takes 2.00 × the time"


def stored_apart(folder, variants, **shape):
    """Each variant in a run of its own, 1 % apart and each known to a fraction of that."""
    for day, variant in enumerate(variants, 1):
        of = builders.manifest(
            [builders.case(variant, **shape)],
            run_id=f"run-{variant}-{len(shape)}",
            created_utc=f"2026-01-0{day}T00:00:00+00:00",
        )
        builders.stored(folder, of, builders.trials(of, {variant: 1e-4 * 1.01**day}))


def test_a_runner_up_of_another_run_is_neither_beaten_nor_called_level(tmp_path):
    stored_apart(tmp_path, ("fused", "per_head"))
    (found,) = of(read(tmp_path))
    assert found.sure == "its runner-up is another run's: which of them is the faster is not sure"


def test_shapes_whose_runner_up_is_of_another_run_are_counted(tmp_path):
    stored_apart(tmp_path, ("fused", "per_head"))
    stored_apart(tmp_path, ("fused", "per_head"), batch=7)
    (found,) = of(read(tmp_path))
    assert found.sure == (
        "the winner's 95 % interval meets no other's in 0 of 2 shapes; "
        "in 2 the runner-up is another run's, which decides nothing"
    )


def saved_by_fused(base_busy_s, busy_s):
    """Of a run where per_head takes some 800 µs eager, fused 200 µs, and their kernels as long as told: the why."""
    run = runs.run(runs.gpu_trials({"per_head": 4e-4, "fused": 1e-4}))
    run.observations = [
        Observation(builders.case("per_head"), dispatch=Dispatch(36, base_busy_s)),
        Observation(builders.case("fused"), dispatch=Dispatch(3, busy_s)),
    ]
    (found,) = of(run)
    (why,) = found.why
    told = re.fullmatch(
        r"called from Python, fused is (4\.0\d) × as fast as per_head: it (saves|loses) ([\d.]+) µs in kernels and "
        r"(saves |loses |)([\d.]+) µs in launches and gaps \(36 kernels and copies against 3\)",
        why,
    )
    assert told, why
    _, kernels, kernels_us, waiting, waiting_us = told.groups()
    return f"{kernels} {kernels_us}", f"{waiting}".strip(), float(waiting_us)


def test_what_a_call_from_python_saves_adds_up_to_the_whole():
    """600 µs less, of which the kernels' 200 − 100."""
    kernels, verb, waiting_us = saved_by_fused(2e-4, 1e-4)
    assert (kernels, verb) == ("saves 100", "")
    assert waiting_us == pytest.approx(500, rel=0.02)


@pytest.mark.parametrize(
    ("busy_s", "kernels", "verb", "waiting_us"),
    [((7.9e-4, 1e-4), "saves 690", "loses", 90), ((1e-4, 1.5e-4), "loses 50.0", "saves", 650)],
)
def test_what_a_winner_loses_is_told_beside_what_it_saves(busy_s, kernels, verb, waiting_us):
    *told, found_us = saved_by_fused(*busy_s)
    assert told == [kernels, verb]
    assert found_us == pytest.approx(waiting_us, rel=0.02)


def test_what_a_caller_saves_is_marked_where_eager_intervals_overlap():
    (why,) = {one.stage: one for one in of(read("nvidia-h200/heads_768")) if one.why}["stack"].why
    assert why.startswith(
        "called from Python at d_model 768 = 8×96, custom is ~0.906 × as fast as fused_sdpa: "
    )
    assert re.search(r"saves 397 µs in kernels and loses ~755 µs in launches", why)


@pytest.mark.parametrize(("base_s", "marked"), [(1.01e-4, True), (4e-4, False)])
def test_the_legend_has_the_mark_of_an_eager_time_that_is_not_surely_another(base_s, marked):
    def timings(isolated_s, eager_s):
        return {"isolated": builders.timing(isolated_s), "eager": builders.timing(eager_s)}

    trials = [
        builders.trial(builders.case(name), n, timings=timings(isolated_s, eager_s * 1.02**n))
        for n in range(3)
        for name, isolated_s, eager_s in (("fused", 1e-4, 1e-4), ("per_head", 2e-4, base_s))
    ]
    run = runs.run(trials)
    run.observations = [
        Observation(builders.case(name), dispatch=Dispatch(3, busy_s))
        for name, busy_s in (("fused", 9e-5), ("per_head", 1e-4))
    ]
    assert ("fused is ~" in of(run)[0].why[0]) == marked
    assert ("~: intervals overlap" in runs.rendered(run)) == marked


def test_one_replicate_is_no_certainty():
    (found,) = of(runs.run(runs.gpu_trials(runs.QKV, replicates=1)))
    assert found.sure == "one replicate: no intervals, the order may be chance"


def test_times_that_overlap_are_called_level():
    (found,) = of(runs.run(runs.gpu_trials({"sdpa": 1e-4, "sdpa_cudnn": 1.0001e-4}, stage="attention")))
    assert found.which == "sdpa is the fastest in the one shape measured, level with sdpa_cudnn"
    assert found.sure == "its interval meets another's: call them level"


def test_a_lone_variant_wins_against_nobody():
    (found,) = of(runs.run(runs.gpu_trials({"fused": 1e-4})))
    assert found.which == "fused alone has a time in the one shape measured"
    assert found.by is None
    assert found.sure == "nothing stood beside it: how fast it is, only other variants would tell"


def test_a_run_without_times_answers_nothing():
    assert of(runs.run([runs.failed("fused", runs.Outcome.CRASHED, "died")])) == ()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\nb", "\u202egnp"])
def test_a_name_is_one_line_of_visible_text(name):
    for sentence in of(runs.run(runs.gpu_trials({name: 1e-4, "per_head": 2e-4})))[0].sentences:
        assert "\n" not in sentence
        assert "\u202e" not in sentence


@pytest.mark.parametrize("arrives", ["contiguous", "strided", None])
def test_a_winner_that_is_spared_a_copy_is_said_to_be(arrives):
    """Its rank is its time's; what it was given is said wherever it is called the fastest."""
    times = {"strided_matmul": 1e-4, "concat_matmul": 2e-4}
    run = runs.run(runs.gpu_trials(times, stage="output"))
    run.trials = [
        replace(trial, arrives=arrives if trial.case.variant == "strided_matmul" else "contiguous")
        for trial in run.trials
    ]
    (found,) = of(run)
    assert ("given strided activations" in found.which) == (arrives == "strided")
    grid = fastest_grid(content.from_run(run))
    shown = dict(zip((column.title for column in grid.columns), grid.lines[0].cells, strict=True))
    assert shown.get("arrives") == ("strided" if arrives == "strided" else None)
