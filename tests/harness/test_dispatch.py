"""Kernels by name, and busy as a union: what runs side by side counts once, what has one name is added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sensors.dispatch import LONGEST_NAME, summary, union_ns


def test_kernels_side_by_side_count_once():
    assert union_ns([(0, 10), (2, 5), (8, 14), (20, 21)]) == 15


def test_kernels_end_to_end_leave_no_gap_and_count_whole():
    assert union_ns([(10, 20), (0, 10)]) == 20


intervals = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50)).map(lambda at: (at[0], sum(at))))


@given(intervals)
def test_the_union_is_what_counting_every_nanosecond_gives(some):
    assert union_ns(some) == len({ns for start, end in some for ns in range(start, end)})


def test_twelve_kernels_of_one_name_are_twelve_launches_of_one_call_and_not_twelve_repetitions():
    one_call = [("gemm", start, start + 100) for start in range(0, 2400, 200)]
    found = summary(one_call, calls=1)
    assert found.launches == 12
    assert found.busy_s == pytest.approx(12 * 100e-9)
    (kernel,) = found.kernels
    assert (kernel.name, kernel.launches, kernel.summed_s) == ("gemm", 12, pytest.approx(1.2e-6))


def test_figures_are_per_call_and_the_kernel_that_takes_longest_comes_first():
    intervals = [("copy", 0, 10), ("attention", 20, 220), ("copy", 300, 310), ("attention", 320, 520)]
    found = summary(intervals, calls=2)
    assert (found.launches, found.calls) == (2, 2)
    assert [(k.name, k.launches) for k in found.kernels] == [("attention", 1), ("copy", 1)]
    assert found.busy_s == pytest.approx(210e-9)


def test_nothing_recorded_is_a_reason_and_not_zero_launches():
    found = summary([], calls=3)
    assert (found.launches, found.busy_s) == (None, None)
    assert found.reason == "the profiler recorded no kernel"


def test_a_templates_endless_name_is_cut():
    (kernel,) = summary([("x" * 5000, 0, 1)], calls=1).kernels
    assert len(kernel.name) == LONGEST_NAME
