"""Welch's interval, against SciPy where it has the same, and where nothing scatters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from results import welch
from results.verdict import Verdict, decide

logs = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def scipys(base, head, confidence):
    found = stats.ttest_ind(head, base, equal_var=False).confidence_interval(confidence)
    return (found.high - found.low) / 2


def test_with_whole_degrees_of_freedom_it_is_scipys():
    base, head = [0.0, 0.01, 0.02], [0.05, 0.06, 0.07]  # equal variances and counts: 4 degrees
    centre, margin = welch.interval(base, head, 0.99)
    assert centre == pytest.approx(0.05)
    assert margin == pytest.approx(scipys(base, head, 0.99), rel=1e-9)


@given(logs, logs, st.sampled_from([0.9, 0.99]))
def test_it_is_never_narrower_than_scipys(base, head, confidence):
    if np.var(base) + np.var(head) > 1e-9:
        _, margin = welch.interval(base, head, confidence)
        assert margin >= scipys(base, head, confidence) * (1 - 1e-6)


@given(logs, logs)
def test_swapping_the_sides_turns_the_difference_round(base, head):
    (one, margin), (other, mirrored) = welch.interval(base, head, 0.99), welch.interval(head, base, 0.99)
    assert one == pytest.approx(-other)
    assert margin == pytest.approx(mirrored)


def test_what_does_not_scatter_is_known_to_the_timers_step():
    assert welch.interval([0.1] * 3, [0.2] * 4, 0.99, wider=0.01) == (pytest.approx(0.1), 0.01)


def test_one_side_that_does_not_scatter_has_the_others_degrees_of_freedom():
    head = [0.0, 0.01, 0.02, 0.03]
    _, margin = welch.interval([0.1] * 9, head, 0.99)
    assert margin == pytest.approx(stats.t.ppf(0.995, 3) * stats.sem(head))


def test_the_smallest_scatter_does_not_vanish():
    _, margin = welch.interval([0.0, 1e-160], [0.0, 1e-160], 0.99)
    assert 0 < margin < 1e-150


@pytest.mark.parametrize(("base", "head"), [([0.1], [0.2, 0.3]), ([0.1, 0.2], [0.3]), ([0.1], [0.2])])
def test_a_single_sample_has_no_interval_and_promises_nothing(base, head):
    assert welch.interval(base, head, 0.99)[1] == math.inf
    assert welch.samples_needed(base, head, 0.99, 0.0, 3) is None


@pytest.mark.parametrize(("base", "head"), [([], [0.1]), ([0.1], [])])
def test_no_samples_are_refused(base, head):
    with pytest.raises(ValueError, match="at least one on each side"):
        welch.interval(base, head, 0.99)


def test_the_samples_needed_are_the_fewest_whose_interval_would_decide():
    base, head = [0.0, 0.03, -0.03], [0.03, 0.06, 0.0]
    count = welch.samples_needed(base, head, 0.99, 0.0, 3)
    assert count is not None

    def excludes_zero(samples):
        error = math.sqrt((np.var(base, ddof=1) + np.var(head, ddof=1)) / samples)
        return stats.t.ppf(0.995, 2 * (samples - 1)) * error < 0.03

    assert excludes_zero(count)
    assert not excludes_zero(count - 1)


def test_ninety_nine_of_a_hundred_intervals_contain_the_true_difference():
    draws = np.random.default_rng(1).normal(0, [0.01] * 3 + [0.03] * 4, (4000, 7))
    held = []
    for row in draws:
        centre, margin = welch.interval(list(row[:3]), list(row[3:]), 0.99)
        held.append(abs(centre) <= margin)
    assert np.mean(held) >= 0.985


beyond_sense = st.sampled_from([math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 1e200, 0.0, 0.03])


@given(*[st.lists(beyond_sense, min_size=1, max_size=5)] * 2)
def test_what_is_no_number_or_overflows_is_never_a_verdict(base, head):
    centre, margin = welch.interval(base, head, 0.99)
    welch.samples_needed(base, head, 0.99, 0.0, 3)
    if max(map(abs, base + head)) >= 1e200 or any(map(math.isnan, base + head)):
        sure = all(len(set(side)) == 1 and math.isfinite(sum(side)) for side in (base, head))
        assert decide(centre, margin) == Verdict.UNDECIDED or sure


def test_samples_that_overflow_need_an_unknown_number():
    assert welch.samples_needed([1e200, -1e200], [0.0, 0.1], 0.99, 0.0, 3) is None
    assert welch.samples_needed([math.nan, 0.1], [0.0, 0.1], 0.99, 0.0, 3) is None
