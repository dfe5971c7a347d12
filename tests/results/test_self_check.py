"""What identical sides tell of a machine: rates with their intervals, and the smallest change it could find."""

import math

import numpy as np
import pytest
from scipy import stats

from results.self_check import rate, self_check, smallest_found
from results.verdict import Verdict, decide, interval
from tests.results import builders
from tests.results.sessions import NOISY, SLOWER, STEADY, session


@pytest.mark.parametrize(("count", "total"), [(0, 20), (1, 20), (10, 20), (20, 20), (3, 400)])
def test_a_rates_interval_is_clopper_pearsons(count, total):
    known = rate(count, total)
    expected = stats.binomtest(count, total).proportion_ci(0.95, method="exact")
    assert (known.low, known.high) == pytest.approx((expected.low, expected.high))


def test_nothing_seen_of_nothing_can_be_any_share():
    known = rate(0, 0)
    assert (known.low, known.high) == (0.0, 1.0)


@pytest.mark.parametrize(("count", "total"), [(-1, 3), (4, 3)])
def test_more_than_all_is_refused(count, total):
    with pytest.raises(ValueError, match="no share"):
        rate(count, total)


@pytest.mark.parametrize("spread", [0.0005, 0.002, 0.005, 0.02, 0.3])
def test_the_smallest_change_found_is_found_in_95_percent_of_sessions(spread):
    change = math.log1p(smallest_found(spread))
    pairs = np.random.default_rng(1).normal(change, spread, (20_000, 10))
    found = (decide(*interval(pairs)) == Verdict.SLOWER).mean()
    assert found == pytest.approx(0.95, abs=0.02)


def test_pairs_without_any_noise_find_what_is_no_longer_the_same():
    assert smallest_found(0.0) == pytest.approx(0.01, rel=1e-3)


def test_a_timers_step_hides_as_much_as_it_is_long():
    assert smallest_found(0.0, wider=0.05) == pytest.approx(math.expm1(0.05), rel=1e-3)


def test_a_timer_that_sees_nothing_finds_nothing():
    assert smallest_found(0.001, wider=math.inf) == math.inf


def test_noisier_pairs_find_only_larger_changes():
    found = [smallest_found(spread) for spread in (0.005, 0.01, 0.03, 0.1)]
    assert found == sorted(found)
    assert found[0] < 0.02 < found[-1]


def test_a_session_of_identical_code_tells_its_alarms_and_what_it_can_find():
    steady = {builders.case(f"variant_{n}"): STEADY for n in range(18)}
    of = session(
        {**steady, builders.case("lucky"): [1 / one for one in SLOWER], builders.case("noisy"): NOISY * 2}
    )
    known = self_check(of)
    assert (known.false_alarms.count, known.false_alarms.total) == (2, 40)  # `lucky`, in both guarded modes
    assert (known.confirmed.count, known.confirmed.total) == (0, 40)
    assert [one.mode for one in known.sensitivity] == ["isolated", "graph"]
    (isolated, _) = known.sensitivity
    assert isolated.cases == 20
    assert 0.009 < isolated.median < 0.012
    assert isolated.worst > 0.03


def test_a_confirmed_false_alarm_is_counted_as_one():
    of = session({builders.case("fused"): (*SLOWER, *[1.0] * 5, *SLOWER, *SLOWER)})
    assert self_check(of).confirmed.count == 2


def test_fewer_than_five_pairs_say_nothing():
    known = self_check(session({builders.case("fused"): STEADY[:4]}))
    assert known.false_alarms.total == 0
    assert not known.sensitivity
