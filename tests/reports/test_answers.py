from __future__ import annotations

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
    qkv, attention, output, sublayer = of(read("nvidia-h200/default"))
    assert qkv.sentences == (
        "fused_qkv is the fastest in all 8 shapes",
        "the fastest is 14.7 to 23.6 × as fast as per_head at batch 1, 3.42 to 4.74 × at batch 32",
        "called from Python at batch 1, d_model 384 = 12×32, fused_qkv is ~36.2 × as fast as per_head: 29.6 × in "
        "kernels, ~1.22 × in launches and gaps (36 launches against 1)",
        "called from Python at batch 32, d_model 864 = 12×72, fused_qkv is 3.70 × as fast as per_head: 3.22 × in "
        "kernels, 1.15 × in launches and gaps (36 launches against 2)",
        "the winner's 95 % interval meets no other's in all 8 shapes",
    )
    assert attention.which == (
        "sdpa is the fastest in 5 of 8 shapes, level with sdpa_cudnn in all of them, flash_portable in 1 of them; "
        "flash_portable in the other 3"
    )
    assert output.which == "concat_matmul is the fastest in all 8 shapes"
    assert sublayer.sure == "the winner's 95 % interval meets no other's in 4 of 8 shapes"


def test_what_tells_the_shapes_apart_is_named():
    _, attention, _ = of(read("nvidia-h200/head_dim"))
    assert attention.which.startswith(
        "sdpa is the fastest at d_model 768 = 12×64 and 864 = 12×72, level with"
    )
    assert attention.which.endswith("; flash_portable at d_model 384 = 12×32")


def test_without_a_baseline_the_runner_up_is_the_measure():
    (found,) = of(read("nvidia-h200/kernels_1024"))
    assert found.by == "the runner-up (flash_portable, sdpa_cudnn) takes 1.07 to 1.31 × the time"
    assert found.why == ()


def test_the_factors_of_a_call_from_python_multiply_to_the_whole():
    """per_head: 800 µs eager, 200 in kernels; fused: 200 µs and 100: 4 × is 2 × in kernels times 2 × in launches."""
    run = runs.run(runs.gpu_trials({"per_head": 4e-4, "fused": 1e-4}))
    run.observations = [
        Observation(builders.case("per_head"), dispatch=Dispatch(36, 2e-4)),
        Observation(builders.case("fused"), dispatch=Dispatch(3, 1e-4)),
    ]
    (found,) = of(run)
    assert found.why == (
        "called from Python, fused is 4.00 × as fast as per_head: 2.00 × in kernels, 2.00 × in launches and gaps "
        "(36 launches against 3)",
    )


def test_one_replicate_is_no_certainty():
    (found,) = of(runs.run(runs.gpu_trials(runs.QKV, replicates=1)))
    assert found.sure == "one replicate: no intervals, the order may be chance"


def test_times_that_overlap_are_called_level():
    (found,) = of(runs.run(runs.gpu_trials({"sdpa": 1e-4, "sdpa_cudnn": 1.0001e-4}, stage="attention")))
    assert found.which == "sdpa is the fastest in the one shape measured, level with sdpa_cudnn"
    assert found.sure == "its interval meets another's: call them level"


def test_a_lone_variant_wins_against_nobody():
    (found,) = of(runs.run(runs.gpu_trials({"fused": 1e-4})))
    assert found.by is None
    assert found.sure == "nothing stood beside it: one variant has a time"


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
