import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, sem
from scipy.stats import t as student

from results.statistics import (
    Estimate,
    estimate,
    mean_half_width,
    median_interval,
    pooled,
    relative_half_width,
    relative_iqr,
    t_quantile,
)

times = st.floats(1e-9, 1e3)
some_times = st.lists(times, min_size=1, max_size=12)


def test_an_estimate_is_the_geometric_mean_with_a_t_interval_on_logs():
    known = estimate([1.0, 2.0, 4.0])
    margin = student.ppf(0.975, 2) * math.log(2) / math.sqrt(3)
    assert known.value_s == pytest.approx(2.0)
    assert known.low_s == pytest.approx(2.0 * math.exp(-margin))
    assert known.high_s == pytest.approx(2.0 * math.exp(margin))
    assert known.replicates == 3


def test_one_replicate_has_no_interval():
    known = estimate([3e-4], relative_resolution=0.1)
    assert known.value_s == pytest.approx(3e-4)
    assert (known.low_s, known.high_s) == (None, None)


def test_equal_medians_are_known_to_the_timers_resolution():
    known = estimate([2e-4] * 3, relative_resolution=0.01)
    assert known.low_s == pytest.approx(0.99 * 2e-4)
    assert known.high_s == pytest.approx(1.01 * 2e-4)


def test_two_wildly_unequal_medians_keep_a_finite_interval():
    known = estimate([1e-9, 1e3])
    assert known.low_s is not None
    assert known.high_s is not None
    assert 0 <= known.low_s < known.value_s < known.high_s < math.inf


@pytest.mark.parametrize("wrong", [0.0, -1e-6, math.nan, math.inf])
def test_a_median_that_is_no_time_is_named(wrong):
    with pytest.raises(ValueError, match=f"{wrong} s is not a time"):
        estimate([1e-4, wrong])


def test_no_medians_are_refused():
    with pytest.raises(ValueError, match="at least one replicate"):
        estimate([])


@given(some_times, st.floats(0, 0.5))
def test_an_interval_contains_its_estimate(medians, resolution):
    known = estimate(medians, resolution)
    if len(medians) > 1:
        assert known.low_s <= known.value_s <= known.high_s


@given(some_times, st.floats(1e-3, 1e3))
def test_an_estimate_scales_with_its_medians(medians, factor):
    one, scaled = estimate(medians, 0.01), estimate([factor * each for each in medians], 0.01)
    assert scaled.value_s == pytest.approx(factor * one.value_s)
    if len(medians) > 1:
        assert scaled.low_s == pytest.approx(factor * one.low_s, rel=1e-6)
        assert scaled.high_s == pytest.approx(factor * one.high_s, rel=1e-6)


@given(st.lists(times, min_size=2, max_size=8), st.randoms())
def test_an_estimate_ignores_the_order_of_replicates(medians, random):
    shuffled = random.sample(medians, len(medians))
    assert estimate(shuffled) == estimate(medians)


@pytest.mark.parametrize("replicates", [2, 3, 5, 10])
def test_nineteen_of_twenty_intervals_contain_the_true_time(replicates):
    medians = np.exp(np.random.default_rng(7).normal(math.log(1e-4), 0.01, size=(3000, replicates)))
    held = [known.low_s <= 1e-4 <= known.high_s for known in (estimate(list(row)) for row in medians)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)  # three standard errors of 3,000 trials


def test_the_half_width_of_an_estimate_is_half_its_interval_over_its_value():
    assert Estimate(2.0, 1.9, 2.3, replicates=3).half_width == pytest.approx(0.1)


def test_one_replicate_has_no_half_width():
    assert estimate([2.0]).half_width is None


def test_a_median_interval_is_made_of_the_binomials_order_statistics():
    # For 10 samples the textbook's 95 % interval reaches from the 2nd to the 9th: P = 0.9785.
    assert median_interval([float(i) for i in range(10, 0, -1)]) == (2.0, 9.0)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_a_median_interval_is_the_narrowest_that_holds_its_confidence(confidence):
    allowed = (1 - confidence) / 2 * (1 + 1e-9)
    for count in (*range(1, 80), 1000, 20_001):
        low, high = median_interval(range(count), confidence)
        assert high == count - 1 - low
        assert binom.cdf(low, count, 0.5) <= allowed or low == 0
        assert binom.cdf(low + 1, count, 0.5) > allowed or low + 1 > high - 1


@pytest.mark.parametrize("count", [1, 2, 5])
def test_too_few_samples_give_their_minimum_and_maximum(count):
    samples = [3.0, 1.0, 2.0, 5.0, 4.0][:count]
    assert median_interval(samples) == (min(samples), max(samples))


def test_no_samples_have_no_median():
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


@pytest.mark.parametrize(("count", "covered"), [(3, 0.75), (5, 0.9375), (6, 0.96875)])
def test_the_range_of_few_samples_holds_the_median_less_often_than_its_confidence_says(count, covered):
    sides = itertools.product((-1.0, 1.0), repeat=count)  # each sample is as likely below the median as above
    held = [low < 0 < high for low, high in map(median_interval, sides)]
    assert sum(held) / len(held) == covered


def test_a_median_interval_holds_its_confidence_for_a_skewed_distribution():
    draws = np.random.default_rng(11).exponential(1.0, size=(2000, 25))
    held = [low <= math.log(2) <= high for low, high in (median_interval(list(row)) for row in draws)]
    assert np.mean(held) >= 0.945


def test_the_relative_half_width_is_half_the_interval_over_the_median():
    assert relative_half_width([float(i) for i in range(1, 11)]) == pytest.approx((9 - 2) / 2 / 5.5)


def test_equal_samples_are_known_exactly():
    assert relative_half_width([2e-6] * 20) == 0


@pytest.mark.parametrize("samples", [[], [1e-6], [0.0, 0.0, 0.0]])
def test_what_says_nothing_of_its_median_is_known_to_infinity(samples):
    assert relative_half_width(samples) == math.inf


@given(st.lists(times, min_size=2, max_size=50), st.floats(1e-3, 1e3))
def test_the_relative_half_width_has_no_scale(samples, factor):
    assert relative_half_width([factor * each for each in samples]) == pytest.approx(
        relative_half_width(samples), rel=1e-6
    )


@given(st.lists(times, min_size=1, max_size=30))
def test_the_relative_iqr_agrees_with_numpy(samples):
    low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75])
    assert relative_iqr(samples) == pytest.approx((high - low) / middle, rel=1e-6, abs=1e-12)


def test_pooled_samples_count_and_keep_the_spread_within_a_process():
    known = pooled([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [4.0, 4.0, 4.0, 5.0, 3.0]])
    assert known.samples == 11
    assert known.replicates == 3
    assert known.value_s == pytest.approx((2 * 2 * 4) ** (1 / 3))
    assert known.within_spread == 0  # the replicates' spreads are 0.5, 0 and 0


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, 0.995, 0.9999])
def test_students_t_is_scipys_to_ten_digits(confidence):
    for degrees in (*range(1, 40), 99, 100, 299, 300, 301, 302, 999, 1000):
        assert t_quantile(confidence, degrees) == pytest.approx(
            student.ppf((1 + confidence) / 2, degrees), rel=1e-10
        )


def test_a_means_half_width_is_the_t_intervals_of_scipy_relative_to_the_mean():
    values = [1.0, 1.02, 0.97, 1.05]
    low, high = student.interval(0.95, 3, loc=np.mean(values), scale=sem(values))
    assert mean_half_width(values) == pytest.approx((high - low) / 2 / np.mean(values))


def test_one_value_tells_no_scatter_and_a_mean_of_zero_no_share():
    assert mean_half_width([1.0]) == mean_half_width([]) == 0.0
    assert mean_half_width([0.0, 0.0]) == math.inf
