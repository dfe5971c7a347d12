"""The eager bracket under a scripted clock: exactly the time that passed, and nothing else inside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fakes import ScriptedClock
from harness.timers import EAGER_LOOP_S, EagerTimer, calls_filling


class Machine:
    """A host clock in nanoseconds, a call and a synchronise that take known times, and what happened in order."""

    def __init__(self, call_ns: int, wait_ns: int = 0) -> None:
        self.clock = ScriptedClock()
        self.call_ns, self.wait_ns = call_ns, wait_ns
        self.log: list[str] = []
        self._queued = False

    def call(self) -> None:
        self.log.append("call")
        self._queued = True
        self.clock.advance(self.call_ns)

    def synchronize(self) -> None:
        self.log.append("wait")
        self.clock.advance(self.wait_ns if self._queued else 0)
        self._queued = False

    def read(self) -> int:
        self.log.append("read")
        return self.clock.now

    def bracket(self):
        return EagerTimer(self.synchronize, self.read).bracket(self.call)


@pytest.mark.parametrize("call_ns", [123_000_000, 5_000_000, 1])
def test_a_call_of_a_known_time_reads_exactly_that_time(call_ns):
    bracket = Machine(call_ns).bracket()
    assert bracket.sample().span_s == pytest.approx(call_ns * 1e-9, rel=1e-12)
    assert bracket.sample().flag is None


def test_a_sample_is_read_from_the_clock_around_the_whole_loop():
    readings = iter([0, 100_000, 0, 50_000, 1_000, 2_001_040])
    calls = []
    bracket = EagerTimer(lambda: None, lambda: next(readings)).bracket(lambda: calls.append(1))
    # The faster of the first two took 50 µs: forty fill 2 ms.
    assert bracket.calls_per_sample == 40
    del calls[:]
    assert bracket.sample().span_s == pytest.approx(50_001e-9, rel=1e-12)
    assert len(calls) == 40


def test_a_loop_makes_exactly_its_calls_between_the_readings_and_synchronises_before_and_after():
    machine = Machine(call_ns=200_000)
    bracket = machine.bracket()
    assert bracket.calls_per_sample == 10
    machine.log.clear()
    bracket.sample()
    assert machine.log == ["wait", "read", *["call"] * 10, "wait", "read"]


def test_the_wait_for_queued_work_is_part_of_the_time_shared_by_the_calls_of_the_loop():
    machine = Machine(call_ns=100_000, wait_ns=300_000)  # one call alone reads 400 µs: five fill 2 ms
    bracket = machine.bracket()
    assert bracket.calls_per_sample == 5
    assert bracket.sample().span_s == pytest.approx((100_000 + 300_000 / 5) * 1e-9)


def test_work_queued_before_the_sample_is_not_part_of_it():
    machine = Machine(call_ns=4_000_000, wait_ns=1_000_000)
    bracket = machine.bracket()
    machine.call()
    assert bracket.sample().span_s == pytest.approx(5e-3)


def test_a_clock_that_stands_still_gives_zero_and_a_bounded_loop():
    bracket = Machine(call_ns=0).bracket()
    assert bracket.calls_per_sample == 200
    assert bracket.sample().span_s == 0.0


def test_a_call_that_raises_is_not_swallowed():
    def call():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        EagerTimer(lambda: None).bracket(call)


@pytest.mark.parametrize(
    ("once_s", "calls"),
    [(0.0, 200), (-1e-9, 200), (5e-324, 200), (1e-9, 200), (1e-5, 200), (1e-4, 20), (1e-3, 2), (1.0, 1)],
)
def test_calls_fill_the_time_between_one_and_the_bound(once_s, calls):
    assert calls_filling(EAGER_LOOP_S, once_s) == calls


@given(seconds=st.floats(0, 1e9), once_s=st.floats(allow_nan=False), at_most=st.integers(1, 10**6))
def test_there_is_always_at_least_one_call_and_never_more_than_the_bound(seconds, once_s, at_most):
    assert 1 <= calls_filling(seconds, once_s, at_most) <= at_most


def test_the_real_clock_on_a_cpu_reads_seconds():
    bracket = EagerTimer(synchronize=lambda: None).bracket(lambda: sum(range(1000)))
    assert 1e-7 < bracket.sample().span_s < 0.1
    assert bracket.resolution_s <= 1e-6
