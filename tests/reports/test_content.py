from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reports import content
from results.schema import Outcome, Timing
from results.store import read
from tests.reports import runs
from tests.results import builders

if TYPE_CHECKING:
    from pathlib import Path

    from results.schema import Trial


def test_groups_come_in_the_order_of_the_plan() -> None:
    cases = [builders.case(v, stage=stage) for stage in ("output", "attention") for v in ("a", "b")]
    report = content.from_run(runs.run(map(builders.trial, reversed(cases)), cases))
    assert [group.case.stage for group in report.groups] == ["output", "attention"]


def test_the_fastest_is_first_and_the_baseline_is_what_speedups_refer_to() -> None:
    group = content.from_run(
        runs.run(runs.gpu_trials({"per_head": 4e-4, "fused": 1e-4, "slow": 8e-4}))
    ).groups[0]
    assert [row.variant for row in group.rows] == ["fused", "per_head", "slow"]
    assert [row.is_fastest for row in group.rows] == [True, False, False]
    assert [row.is_baseline for row in group.rows] == [False, True, False]
    assert [row.speedup for row in group.rows] == pytest.approx([4.0, 1.0, 0.5])


def test_a_rate_is_useful_work_over_the_time_and_a_share_of_the_dtype_s_peak() -> None:
    row = content.from_run(runs.run(runs.gpu_trials({"fused": 2e-4}, replicates=1), replicates=1)).rows[0]
    flops = 3 * 2 * 1024 * 768**2
    assert row.flops_per_s == pytest.approx(flops / 2e-4)
    assert row.peak_fraction == pytest.approx(flops / 2e-4 / 989e12)


def test_cases_without_a_time_come_last_by_outcome_and_the_unmeasured_at_the_very_end() -> None:
    rows = content.from_run(runs.every_outcome()).groups[0].rows
    failed = [outcome for outcome in list(Outcome)[1:] if not outcome.never_tried]
    assert [row.outcome for row in rows] == [Outcome.OK] * 3 + failed + [None]
    assert all(row.time is None for row in rows[3:])


def test_a_variant_without_the_headline_mode_is_not_ranked_by_another() -> None:
    only_eager = builders.trial(
        builders.case("only_eager"),
        timings={"isolated": Timing(reason="too many launches"), "eager": builders.timing(1e-6)},
    )
    report = content.from_run(runs.run([*runs.gpu_trials({"per_head": 4e-4}, 1), only_eager], replicates=1))
    group = report.groups[0]
    assert group.mode == "isolated"
    assert [row.variant for row in group.rows] == ["per_head", "only_eager"]
    assert group.rows[1].time is None
    assert ("no isolated time", "too many launches") in [(r.kind, r.text) for r in group.remarks]
    assert report.fastest[0].row.variant == "per_head"


def test_without_its_baseline_a_group_has_no_speedups_and_says_why() -> None:
    crashed = runs.failed("per_head", Outcome.CRASHED, "signal 11")
    report = content.from_run(runs.run([crashed, *runs.gpu_trials({"fused": 1e-4})]))
    assert report.rows[0].speedup is None
    assert ("no ×", "the baseline per_head has no isolated time: crashed") in [
        (r.kind, r.text) for r in report.remarks
    ]


def test_a_baseline_that_nobody_asked_for_is_not_called_a_failure() -> None:
    report = content.from_run(runs.run(runs.gpu_trials({"fused": 1e-4})))
    assert [r.text for r in report.remarks if r.kind == "no ×"] == [
        "the baseline per_head was not part of this run"
    ]


def test_a_stage_without_a_baseline_says_that() -> None:
    report = content.from_run(runs.run(runs.gpu_trials({"fused": 1e-4}), baselines={}))
    assert [r.text for r in report.remarks if r.kind == "no ×"] == [
        "this run names no baseline of the stage qkv"
    ]


def absent(variant: str, reason: str = runs.ONLY_CUDA, **case: object) -> Trial:
    return runs.failed(variant, Outcome.UNAVAILABLE, reason, **case)


def test_what_a_stage_leaves_out_everywhere_is_said_once_and_still_counted() -> None:
    report = content.from_run(
        runs.run(
            [
                *(one for b in (1, 2) for one in runs.gpu_trials({"per_head": 1e-4}, batch=b)),
                *(absent(name, batch=b) for b in (1, 2) for name in ("x", "y")),
            ]
        )
    )
    assert [(r.kind, r.sentence) for r in report.remarks] == [
        ("unavailable", f"x, y in qkv: {runs.ONLY_CUDA}")
    ]
    assert [[row.variant for row in group.rows] for group in report.groups] == [["per_head"]] * 2
    assert not any(group.remarks for group in report.groups)
    assert len(report.rows) == 6


def test_what_one_direction_leaves_out_is_said_once_of_that_direction() -> None:
    found = []
    for direction in ("forward", "backward"):
        for batch in (1, 2):
            case = {"batch": batch, "direction": direction}
            found += [*runs.gpu_trials({"per_head": 1e-4}, **case), absent("x", **case)]
            if direction == "backward":
                found.append(runs.failed("ours", Outcome.UNSUPPORTED, "has no backward: why", **case))
            else:
                found += runs.gpu_trials({"ours": 2e-4}, **case)
    report = content.from_run(runs.run(found))
    assert [(r.kind, r.sentence) for r in report.remarks] == [
        ("unavailable", f"x in qkv: {runs.ONLY_CUDA}"),
        ("unsupported", "ours in qkv backward: has no backward: why"),
    ]
    assert [[row.variant for row in group.rows] for group in report.groups] == [["per_head", "ours"]] * 2 + [
        ["per_head"]
    ] * 2
    assert len(report.rows) == 12


@pytest.mark.parametrize("other", [None, "another reason"])
def test_a_variant_left_out_in_some_groups_or_for_other_reasons_keeps_its_rows(other: str | None) -> None:
    second = absent("x", other, batch=2) if other else builders.trial(builders.case("x", batch=2))
    trials = [builders.trial(builders.case("per_head", batch=b)) for b in (1, 2)]
    report = content.from_run(runs.run([*trials, absent("x"), second], replicates=1))
    assert [{row.variant for row in group.rows} for group in report.groups] == [{"per_head", "x"}] * 2
    assert [(r.text, r.variants) for r in report.groups[0].remarks if r.kind == "unavailable"] == [
        (runs.ONLY_CUDA, ("x",))
    ]


def test_a_group_of_which_nothing_would_be_left_keeps_its_rows() -> None:
    report = content.from_run(runs.run([absent("x"), absent("y")]))
    assert [row.variant for row in report.groups[0].rows] == ["x", "y"]
    assert not report.remarks


def test_a_failure_is_never_moved_out_of_its_table() -> None:
    crashes = [runs.failed("bad", Outcome.CRASHED, "signal 11", batch=b) for b in (1, 2)]
    others = [builders.trial(builders.case("per_head", batch=b)) for b in (1, 2)]
    report = content.from_run(runs.run([*others, *crashes], replicates=1))
    assert [group.rows[-1].variant for group in report.groups] == ["bad", "bad"]


def test_rows_of_different_runs_in_one_group_are_told_apart_and_decide_nothing(tmp_path: Path) -> None:
    old, new = (
        builders.manifest(map(builders.case, names), run_id=name, created_utc=f"2026-01-0{day}")
        for day, (name, names) in enumerate({"old": ["per_head", "b"], "new": ["fused"]}.items(), 1)
    )
    builders.stored(tmp_path, old, builders.trials(old, {"per_head": 4e-4, "b": 3e-4}))
    builders.stored(tmp_path, new, builders.trials(new))
    report = content.from_run(read(tmp_path))
    said = {(r.kind, r.text): r.variants for r in report.groups[0].remarks}
    assert said["from run", "old"] == ("per_head", "b")
    assert said["from run", "new"] == ("fused",)
    assert said["no ×", "the baseline per_head was not part of run new"] == ("fused",)
    (best,) = report.fastest
    assert (best.row.variant, best.level, best.lead_sure, best.clear) == ("fused", False, False, False)


def test_a_reason_that_holds_for_every_timed_case_is_said_once_for_the_run() -> None:
    report = content.from_run(runs.cpu_run())
    assert {remark.kind for remark in report.remarks} == {
        "unavailable",
        "no share of peak",
        "no peak memory",
        "no busy share",
    }
    assert not any(
        remark.kind in {r.kind for r in report.remarks} for g in report.groups for remark in g.remarks
    )


def test_a_reason_that_one_timed_case_is_free_of_stays_with_its_group() -> None:
    unknown = builders.trial(
        builders.case("fused"), memory=builders.memory(peak_delta_bytes=None, reason="lost")
    )
    report = content.from_run(runs.run([*runs.gpu_trials({"per_head": 4e-4}), unknown]))
    assert not report.remarks
    assert [r.variants for r in report.groups[0].remarks if r.text == "lost"] == [("fused",)]


def test_without_intervals_nothing_is_called_level() -> None:
    times = dict.fromkeys(("per_head", "fused"), 1e-4)
    best = content.from_run(runs.run(runs.gpu_trials(times, replicates=1), replicates=1)).fastest[0]
    assert not best.level
    assert best.lead == pytest.approx(1.0)
    assert (best.lead_sure, best.clear) == (False, False)


def test_the_runner_up_is_level_where_its_interval_meets_the_winner_s() -> None:
    best, far = content.from_run(
        runs.run(
            [*runs.gpu_trials({"a": 1e-4, "b": 1.001e-4}), *runs.gpu_trials({"a": 1e-4, "b": 2e-4}, batch=2)]
        )
    ).fastest
    assert (best.level, far.level) == (True, False)
    assert (best.clear, far.clear) == (False, True)
    assert (best.lead_sure, far.lead_sure) == (False, True)
    assert far.lead == pytest.approx(2.0)


def test_a_winner_is_not_clear_where_any_interval_reaches_it() -> None:
    far = builders.case("far")
    scattered = [builders.trial(far, n, median_s=m) for n, m in enumerate((1e-4, 1e-3, 1e-2))]
    best = content.from_run(runs.run([*runs.gpu_trials({"a": 1e-4, "b": 2e-4}), *scattered])).fastest[0]
    assert best.runner_up
    assert (best.runner_up.variant, best.level, best.lead_sure, best.clear) == ("b", False, True, False)


def test_a_partial_run_counts_what_is_missing() -> None:
    cases = [builders.case("fused"), builders.case("per_head")]
    report = content.from_run(runs.run([builders.trial(cases[0], 0)], cases))
    assert sum(report.unfinished.values()) == 5
    assert [row.outcome for row in report.rows] == [Outcome.OK, None]
    assert ("partial", "1 of 3 replicates, no interval") in [(r.kind, r.text) for r in report.remarks]
