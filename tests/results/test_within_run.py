from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.medians import Median
from results.within_run import Ratio, ratio

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=6)


def of(*times_s: float, resolution: float = 0.0) -> dict[int, Median]:
    return {n: Median(time_s, resolution) for n, time_s in enumerate(times_s)}


def test_the_ratio_is_the_geometric_mean_of_the_replicates_ratios():
    found = ratio(of(2.0, 8.0), of(1.0, 1.0))
    assert found.value == pytest.approx(4)
    assert found.replicates == 2


@given(TIMES, st.data())
def test_swapping_the_sides_inverts_the_ratio_and_its_bounds(over, data):
    under = data.draw(st.lists(st.floats(1e-6, 1.0), min_size=len(over), max_size=len(over)))
    one, other = ratio(of(*over), of(*under)), ratio(of(*under), of(*over))
    assert one.value * other.value == pytest.approx(1)
    if one.low > 1e-200 and one.high < 1e200:
        assert one.low * other.high == pytest.approx(1)


@given(TIMES)
def test_the_value_lies_in_its_interval_and_a_case_is_once_as_fast_as_itself(times):
    found = ratio(of(*times), of(*times))
    assert found == Ratio(pytest.approx(1), pytest.approx(1), pytest.approx(1), len(times))


def test_only_replicates_that_measured_both_count():
    assert ratio({0: Median(2.0, 0.0), 1: Median(99.0, 0.0)}, of(1.0)).value == pytest.approx(2)
    assert ratio({0: Median(2.0, 0.0)}, {1: Median(1.0, 0.0)}) == "no replicate has measured both"


def test_a_timers_step_widens_the_interval():
    sharp, coarse = (ratio(of(2, 2.1, resolution=r), of(1, 1, resolution=r)) for r in (0.0, 0.1))
    assert coarse.low < sharp.low < sharp.high < coarse.high


def test_one_replicate_gives_no_interval():
    assert ratio(of(2.0), of(1.0)) == Ratio(pytest.approx(2), None, None, 1)


def test_what_is_no_time_has_no_ratio():
    for wrong in (0.0, -1.0, math.nan, math.inf):
        assert "is not a time" in ratio(of(1.0, wrong), of(1.0, 1.0))
