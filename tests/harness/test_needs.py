"""Time shared by need: exact where it is known, fair where it is short."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.needs import Need, shares


def test_where_nothing_is_known_every_case_counts_alike():
    assert shares(12.0, [Need(1), Need(3), Need(2)]) == pytest.approx([2.0, 6.0, 4.0])


def test_what_one_does_not_need_goes_to_those_that_need_more():
    easy, hard, harder = Need(1, 0.5, 1.0), Need(1, 0.5, 100.0), Need(1, 0.5, 200.0)
    assert shares(11.5, [hard, easy, harder]) == pytest.approx([5.0, 1.5, 5.0])


def test_enough_for_all_is_not_spent_beyond_what_is_wanted():
    assert shares(1000.0, [Need(4, 1.0, 2.0), Need(1, 0.5, 3.0)]) == pytest.approx([3.0, 3.5])


def test_too_little_leaves_the_checking_which_cannot_be_left_out():
    assert shares(1.0, [Need(1, 2.0, 5.0), Need(1, 3.0, 5.0)]) == [2.0, 3.0]
    assert shares(-5.0, [Need(2)]) == [0.0]


def test_no_group_needs_nothing():
    assert shares(5.0, []) == []


wanted = st.one_of(st.floats(0, 1e4), st.just(math.inf))
a_need = st.builds(Need, st.integers(1, 20), st.floats(0, 10), wanted)


@given(total_s=st.floats(-10, 1e4), needs=st.lists(a_need, min_size=1, max_size=8))
def test_nobody_gets_more_than_wanted_and_all_is_spent_if_anybody_wants_more(total_s, needs):
    given_s = [share - need.fixed_s for share, need in zip(shares(total_s, needs), needs, strict=True)]
    left_s = max(total_s - sum(need.fixed_s for need in needs), 0.0)
    assert all(-1e-6 <= seconds <= need.wanted_s + 1e-6 for seconds, need in zip(given_s, needs, strict=True))
    if any(seconds < need.wanted_s - 1e-6 for seconds, need in zip(given_s, needs, strict=True)):
        assert sum(given_s) == pytest.approx(left_s, abs=1e-5)


@given(total_s=st.floats(0, 1e4), needs=st.lists(a_need, min_size=2, max_size=8))
def test_who_gets_less_than_wanted_has_no_less_a_weight_than_anybody(total_s, needs):
    given_s = [share - need.fixed_s for share, need in zip(shares(total_s, needs), needs, strict=True)]
    levels = [seconds / need.weight for seconds, need in zip(given_s, needs, strict=True)]
    for seconds, need, level in zip(given_s, needs, levels, strict=True):
        if seconds < need.wanted_s - 1e-6:
            assert level >= max(levels) - 1e-5
