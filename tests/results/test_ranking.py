from dataclasses import replace

import pytest

from results.ranking import apart, overlap, standings
from results.record import assemble
from results.schema import Outcome
from results.statistics import Estimate
from tests.results.builders import case, manifest, timing, trial, trials

CASES = [case("per_head"), case("fused"), case("other")]


def ranked(its_trials, plan=None):
    plan = plan or manifest(CASES)
    return {one.variant: one for one in standings(assemble(plan, its_trials), lambda _: plan)}


def three_of(medians_s):
    plan = manifest([case(variant) for variant in medians_s])
    return ranked(trials(plan, medians_s), plan)


@pytest.mark.parametrize(
    ("of_fused", "of_other", "mode"),
    [
        (["isolated"], ["graph", "eager"], "isolated"),
        (["graph"], ["eager"], "eager"),
        (["graph"], ["graph"], "graph"),
        ([], [], None),
    ],
)
def test_a_group_is_ranked_by_the_first_mode_any_of_its_cases_has(of_fused, of_other, mode):
    timed = {"fused": of_fused, "other": of_other}
    found = ranked([trial(case(name), timings={m: timing() for m in modes}) for name, modes in timed.items()])
    assert {one.mode for one in found.values()} == {mode}
    assert (found["fused"].time is None) == (mode not in of_fused)
    assert (found["other"].time is None) == (mode not in of_other)


def test_standings_keep_the_order_of_the_records():
    plan = manifest([case("b"), case("a", batch=2), case("a")])
    found = standings(assemble(plan, trials(plan)), lambda _: plan)
    assert [one.record.case for one in found] == list(plan.cases)


def test_speedup_is_the_baselines_time_over_the_cases_own():
    found = three_of({"per_head": 4e-4, "fused": 1e-4, "other": 8e-4})
    assert {name: one.speedup for name, one in found.items()} == pytest.approx(
        {"per_head": 1.0, "fused": 4.0, "other": 0.5}
    )
    assert [name for name, one in found.items() if one.is_baseline] == ["per_head"]


def test_a_baseline_without_the_groups_mode_gives_no_speedup():
    found = ranked([trial(case("fused")), trial(case("per_head"), timings={"eager": timing()})])
    assert found["fused"].speedup is None
    assert found["per_head"].speedup is None


def test_the_fastest_is_marked_and_what_is_level_with_it():
    found = three_of({"per_head": 4e-4, "fused": 1e-4, "other": 1.001e-4})
    assert [name for name, one in found.items() if one.is_fastest] == ["fused"]
    assert [name for name, one in found.items() if one.level] == ["other"]


@pytest.mark.parametrize(
    ("one", "other", "surely"),
    [
        ((0.9, 1.1), (1.2, 1.4), True),
        ((0.9, 1.2), (1.2, 1.4), False),
        ((0.7, 1.3), (9.0, 9.1), False),
        ((0.75, 1.25), (9.0, 9.1), True),
        ((None, None), (9.0, 9.1), False),
    ],
)
def test_two_times_are_apart_where_narrow_intervals_share_no_point(one, other, surely):
    first, second = (
        Estimate(1.0 if bounds is one else sum(other) / 2, *bounds, replicates=3) for bounds in (one, other)
    )
    assert apart(first, second) is surely
    assert apart(second, first) is surely


def test_a_speedup_is_sure_only_where_the_baseline_is_apart():
    found = three_of({"per_head": 4e-4, "fused": 1e-4, "other": 4.001e-4})
    assert {name: one.speedup_sure for name, one in found.items()} == {
        "per_head": False,
        "fused": True,
        "other": False,
    }


def test_one_replicate_makes_no_speedup_sure():
    plan = manifest(CASES, replicates=1)
    found = ranked([trial(case("per_head"), median_s=9e-4), trial(case("fused"))], plan)
    assert found["fused"].speedup == pytest.approx(9.0)
    assert not found["fused"].speedup_sure


def test_a_standing_knows_what_its_run_recorded_of_the_baseline():
    found = ranked([trial(case("fused")), trial(case("per_head"), outcome=Outcome.CRASHED)])
    assert found["fused"].baseline.outcome is Outcome.CRASHED
    assert found["fused"].speedup is None
    alone = ranked([trial(case("fused"))], manifest([case("fused")]))
    assert alone["fused"].baseline is None


def test_an_implausible_case_is_not_the_fastest_nor_level_and_keeps_its_numbers():
    found = three_of({"per_head": 4e-4, "fused": 1e-4, "other": 1e-9})
    assert found["other"].implausible
    assert not found["other"].is_fastest
    assert not found["other"].level
    assert found["other"].time.value_s < found["fused"].time.value_s
    assert found["other"].peak_fraction > 1.1
    assert found["fused"].is_fastest


def test_where_no_time_can_be_believed_there_is_no_fastest():
    assert not any(one.is_fastest for one in three_of({"per_head": 1e-9, "fused": 1e-9}).values())


def test_only_a_baseline_of_the_same_run_is_compared_with():
    plan, old = manifest([case("fused")]), manifest([case("per_head")], run_id="an older run")
    mine = assemble(plan, [trial(case("fused"), median_s=1e-4)])
    theirs = assemble(old, [trial(case("per_head"), median_s=3e-4)])
    (alone,) = standings(mine, lambda _: plan, baselines=[*mine, *theirs])
    assert alone.speedup is None
    (both,) = standings(mine, lambda _: plan, baselines=[*mine, *[replace(theirs[0], run_id=plan.run_id)]])
    assert both.speedup == pytest.approx(3.0)


def test_work_that_is_not_known_gives_no_rate():
    (one,) = ranked([trial(case("fused"), useful_flops=0, least_bytes=0)], manifest([case("fused")])).values()
    assert (one.flops_per_s, one.bytes_per_s, one.peak_fraction) == (None, None, None)


def test_a_failed_case_stands_without_a_time():
    found = ranked([trial(case("fused")), trial(case("other"), outcome=Outcome.CRASHED)])
    assert (found["other"].time, found["other"].speedup, found["other"].implausible) == (None, None, None)
    assert found["other"].outcome is Outcome.CRASHED
    assert found["per_head"].outcome is None


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [((1.0, 2.0), (2.0, 3.0), True), ((1.0, 1.9), (2.0, 3.0), False), ((1.0, 4.0), (2.0, 3.0), True)],
)
def test_intervals_overlap_where_they_share_a_point(one, other, meet):
    first, second = (Estimate(sum(bounds) / 2, *bounds, replicates=3) for bounds in (one, other))
    assert overlap(first, second) is meet
    assert overlap(second, first) is meet
