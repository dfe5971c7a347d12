from __future__ import annotations

import pytest

from reports import content
from reports.series.speedups import speedups
from results.store import read
from tests.reports import runs
from tests.results import builders


def of(run):
    return speedups(content.from_run(run), run)


def test_a_speedup_is_the_baselines_time_over_its_own_and_the_baselines_is_one():
    group, *_ = of(runs.gpu_run())
    assert group.over_baseline
    told = {point.row.variant: point.ratio.value for point in group.points}
    assert told["per_head"] == 1
    assert told["fused"] == pytest.approx(657 / 191)
    assert [point.row.variant for point in group.points] == ["fused", "fused_qkv", "per_head"]


def test_what_both_owe_to_their_process_falls_out_of_the_interval():
    """Replicates differ by 20 %, the two variants in each by the same factor: the ratio is known, the times are not."""
    trials = [
        builders.trial(builders.case(variant), n, median_s=time_s * 1.2**n)
        for n in range(3)
        for variant, time_s in {"per_head": 3e-4, "fused": 1e-4}.items()
    ]
    (group,) = of(runs.run(trials))
    ratio = group.points[0].ratio
    assert ratio.value == pytest.approx(3)
    assert ratio.high - ratio.low < 0.01
    assert group.points[0].row.time.half_width > 0.2


def test_it_agrees_with_the_tables_speedup_on_a_recorded_run():
    for group in of(read("nvidia-h200/default")):
        for point in group.points:
            assert point.ratio.value == pytest.approx(point.row.speedup)


def test_without_its_baseline_a_group_is_held_against_its_fastest():
    group, *_ = of(read("nvidia-h200/kernels_1024"))
    assert not group.over_baseline
    assert group.points[0].ratio.value == 1
    assert all(point.ratio.value < 1 for point in group.points[1:])


def test_one_replicate_gives_a_ratio_without_an_interval():
    (group,) = of(runs.run(runs.gpu_trials(runs.QKV, replicates=1)))
    ratio = group.points[0].ratio
    assert (ratio.low, ratio.high, ratio.replicates) == (None, None, 1)


def test_a_group_with_one_time_has_nothing_to_be_held_against():
    assert of(runs.run(runs.gpu_trials({"fused": 1e-4}))) == ()
