from __future__ import annotations

import pytest

from reports import content
from reports.series.rates import rate_charts
from results.store import read
from tests.reports import runs
from tests.results import builders


def of(run):
    return rate_charts(content.from_run(run))


def test_a_point_is_useful_work_over_time_and_its_bounds_are_the_intervals():
    chart, *_ = of(runs.gpu_run())
    for point in chart.points:
        work, time = point.row.record.useful_flops, point.row.time
        assert point.per_s == pytest.approx(work / time.value_s)
        assert point.low_per_s == pytest.approx(work / time.high_s)
        assert point.high_per_s == pytest.approx(work / time.low_s)
        assert point.low_per_s < point.per_s < point.high_per_s


def test_where_only_the_batch_differs_x_is_tokens():
    qkv, attention = of(runs.gpu_run())
    assert (qkv.stage, qkv.x, attention.stage) == ("qkv", "tokens", "attention")
    assert {point.x for point in qkv.points} == {1024, 32 * 1024}
    assert qkv.title == ("qkv forward", "d_model 768 = 12×64", "causal", "bf16")


def test_where_seq_len_differs_it_is_x_and_each_batch_has_its_chart():
    trials = [
        trial
        for batch in (1, 4)
        for seq_len in (128, 512)
        for trial in runs.gpu_trials(runs.QKV, batch=batch, seq_len=seq_len)
    ]
    charts = of(runs.run(trials))
    assert [(chart.x, chart.title[1]) for chart in charts] == [("seq_len", "batch 1"), ("seq_len", "batch 4")]
    assert {point.x for point in charts[0].points} == {128, 512}


def test_the_fastest_variant_comes_first_and_x_ascends():
    chart, *_ = of(runs.gpu_run())
    assert chart.variants == ("fused", "fused_qkv", "per_head")
    assert [point.x for point in chart.points] == [1024, 32768] * 3


def test_a_stage_that_only_moves_bytes_is_told_in_bytes():
    trials = [
        builders.trial(builders.case("contiguous", stage="split"), n, median_s=1e-5, useful_flops=0)
        for n in range(3)
    ]
    (chart,) = of(runs.run(trials))
    (point,) = chart.points
    assert chart.what == "B"
    assert point.per_s == pytest.approx(point.row.record.least_bytes / 1e-5)
    assert point.low_per_s < point.per_s < point.high_per_s


def test_one_replicate_gives_no_bounds():
    chart, *_ = of(runs.run(runs.gpu_trials(runs.QKV, replicates=1)))
    assert {(point.low_per_s, point.high_per_s) for point in chart.points} == {(None, None)}


def test_a_case_without_a_time_has_no_point():
    (chart,) = of(runs.every_outcome())
    assert chart.variants == ("fused", "uncaptured", "per_head")


def test_the_recorded_run_has_a_chart_for_each_stage_and_width():
    charts = of(read("nvidia-h200/default"))
    assert len(charts) == 18
    assert sum(len(chart.points) for chart in charts) == 150
