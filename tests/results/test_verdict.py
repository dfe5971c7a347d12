"""The rule of a verdict, case by case. How often it errs is in test_error_rates.py."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from results.verdict import (
    Verdict,
    confirmed,
    decide,
    interval,
    judge,
    log_ratios,
    needed,
)

times = st.floats(1e-7, 1e-1)
ratio_lists = st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=24)
MIRROR = {"faster": "slower", "slower": "faster", "same": "same", "undecided": "undecided"}


def test_the_interval_is_students_of_the_mean_log_ratio():
    ratios = [0.01, 0.012, 0.009, 0.013, 0.011]
    centre, margin = interval(ratios, confidence=0.99)
    low, high = stats.t.interval(0.99, 4, np.mean(ratios), stats.sem(ratios))
    assert centre - margin == pytest.approx(low, rel=1e-9)
    assert centre + margin == pytest.approx(high, rel=1e-9)


def test_a_timers_step_widens_the_interval_once_and_on_either_side():
    centre, margin = interval([0.02] * 5, resolution=0.01)
    assert centre == pytest.approx(0.02)
    assert margin == pytest.approx(-math.log(0.99))


@pytest.mark.parametrize(
    ("centre", "margin", "verdict"),
    [
        (0.0, 0.009, Verdict.SAME),
        (0.004, 0.005, Verdict.SAME),
        (0.007, 0.002, Verdict.SAME),  # surely there, and surely within ± 1 %
        (0.02, 0.01, Verdict.SLOWER),
        (-0.02, 0.01, Verdict.FASTER),
        (0.006, 0.005, Verdict.SLOWER),
        (0.0, 0.011, Verdict.UNDECIDED),
        (0.02, 0.021, Verdict.UNDECIDED),
        (0.004, 0.0061, Verdict.UNDECIDED),
        (math.nan, 0.001, Verdict.UNDECIDED),
        (0.02, math.nan, Verdict.UNDECIDED),
        (0.02, math.inf, Verdict.UNDECIDED),
    ],
)
def test_an_interval_decides(centre, margin, verdict):
    assert decide(centre, margin) == verdict


def test_a_change_of_less_than_half_a_percent_is_no_difference_however_sure():
    assert decide(math.log(1.0049), 1e-9) == Verdict.SAME
    assert decide(math.log(1.02), 1e-9) == Verdict.SLOWER


def test_the_second_look_takes_all_ten_pairs():
    noisy = [0.01, 0.05, 0.02, 0.06, 0.01]
    assert judge(noisy) == Verdict.UNDECIDED
    assert judge([*noisy, 0.03, 0.03, 0.03, 0.03, 0.03]) == Verdict.SLOWER


def test_a_verdict_of_the_first_look_stands_whatever_is_measured_later():
    assert judge([*[0.03] * 5, *[-0.2] * 5]) == Verdict.SLOWER


@pytest.mark.parametrize("more", [1, 4])
def test_nothing_is_judged_between_the_looks(more):
    noisy = [0.01, 0.05, 0.02, 0.06, 0.01]
    assert judge([*noisy, *[0.03] * more]) == Verdict.UNDECIDED


def test_nothing_is_looked_at_beyond_ten_pairs():
    wild = [0.2, -0.2] * 5
    assert judge([*wild, *[0.03] * 200]) == Verdict.UNDECIDED


@given(st.lists(st.floats(-1, 1), min_size=0, max_size=4))
def test_fewer_than_five_pairs_are_never_judged(ratios):
    assert judge(ratios) == Verdict.UNDECIDED


@pytest.mark.parametrize("count", [0, 1, 9])
def test_fewer_than_ten_fresh_pairs_confirm_nothing(count):
    assert not confirmed([0.5] * count)


def test_ten_fresh_pairs_confirm_what_is_slower_and_nothing_else():
    assert confirmed([0.03] * 10)
    assert not confirmed([-0.03] * 10)
    assert not confirmed([0.0] * 10)
    assert not confirmed([0.3, -0.3] * 5)


@pytest.mark.parametrize("count", [5, 10, 20])
def test_constant_times_are_the_same(count):
    assert judge(log_ratios([3e-6] * count, [3e-6] * count)) == Verdict.SAME


def test_constant_times_that_differ_are_different():
    assert judge(log_ratios([1e-4] * 5, [1.02e-4] * 5)) == Verdict.SLOWER


@pytest.mark.parametrize("ticks", [(94, 95), (95, 94)])
def test_two_sides_one_tick_apart_are_not_different(ticks):
    base, head = (ticks * 32e-9 for ticks in ticks)
    ratios = log_ratios([base] * 10, [head] * 10)
    assert judge(ratios, resolution=1 / min(ticks)) == Verdict.UNDECIDED
    assert judge(ratios) != Verdict.UNDECIDED  # what the widening is for


@given(st.integers(1, 10**6), st.integers(5, 10))
def test_no_timer_makes_its_own_step_a_difference(ticks, pairs):
    for one, other in ((ticks, ticks + 1), (ticks + 1, ticks)):
        verdict = judge(log_ratios([one] * pairs, [other] * pairs), resolution=1 / ticks)
        assert verdict in (Verdict.SAME, Verdict.UNDECIDED)


@pytest.mark.parametrize("resolution", [1.0, 2.0, math.inf])
def test_a_step_as_long_as_the_span_leaves_everything_open(resolution):
    assert judge([0.5] * 10, resolution) == Verdict.UNDECIDED


@pytest.mark.parametrize("wrong", [0.0, -1e-6, math.nan, math.inf, -math.inf])
def test_what_is_no_time_decides_nothing(wrong):
    good = [1e-4, 1.1e-4, 1e-4, 1.2e-4, 1e-4]
    for base, head in ((good, [*good[:4], wrong]), ([wrong, *good[1:]], good), ([wrong] * 5, [wrong] * 5)):
        ratios = log_ratios(base, head)
        assert np.isnan(ratios).any()
        assert judge(ratios) == Verdict.UNDECIDED
        assert not confirmed(np.concatenate([ratios, ratios]))


@given(ratio_lists, st.floats(0, 0.1))
def test_swapping_the_sides_mirrors_the_verdict(ratios, resolution):
    mirrored = judge([-one for one in ratios], resolution)
    assert str(mirrored) == MIRROR[str(judge(ratios, resolution))]


@given(st.lists(st.tuples(times, times), min_size=1, max_size=12), st.sampled_from([2.0**-20, 0.5, 8.0]))
def test_a_verdict_does_not_depend_on_the_unit(pairs, factor):
    base, head = (np.array(side) for side in zip(*pairs, strict=True))
    assert judge(log_ratios(base, head)) == judge(log_ratios(factor * base, factor * head))


@given(ratio_lists, st.floats(0, 0.5))
def test_a_coarser_timer_never_makes_a_difference(ratios, resolution):
    finer, coarser = judge(ratios), judge(ratios, resolution)
    if finer in (Verdict.SAME, Verdict.UNDECIDED) and coarser != finer:
        assert coarser == Verdict.UNDECIDED


def test_comparisons_are_judged_independently_of_each_other():
    table = np.array([[0.0] * 10, [0.03] * 10, [-0.03] * 10, [math.nan] * 10])
    assert list(judge(table)) == ["same", "slower", "faster", "undecided"]
    assert list(judge(table, [0.02, 0.0, 0.04, 0.0])) == ["undecided", "slower", "undecided", "undecided"]


@given(st.floats(-0.2, 0.2), st.floats(1e-4, 0.5))
def test_one_fewer_than_needed_does_not_decide(centre, spread):
    count = needed(centre, lambda n: spread / math.sqrt(n), 5)
    if count is not None and count > 5:
        assert decide(centre, spread / math.sqrt(count)) != Verdict.UNDECIDED
        assert decide(centre, spread / math.sqrt(count - 1)) == Verdict.UNDECIDED


@pytest.mark.parametrize("centre", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("margin", [0.0, 0.001, math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_undecided_in_either_place(centre, margin):
    assert decide(centre, margin) == Verdict.UNDECIDED
    assert decide(0.03, margin) == (Verdict.SLOWER if abs(margin) < 0.01 else Verdict.UNDECIDED)


def test_a_timer_whose_step_is_nan_leaves_nothing_known():
    assert judge([0.0] * 10, math.nan) == Verdict.UNDECIDED
    assert judge([0.5] * 10, math.nan) == Verdict.UNDECIDED
