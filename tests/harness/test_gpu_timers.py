"""The real timers on a scripted GPU: each mode reads exactly what it claims to, to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import EVENT_RESOLUTION_S, RELEASED_BY_TIMEOUT, Bench, GraphTimer, IsolatedTimer
from harness.timers import EagerTimer, Unmeasurable

NS = 1e-9


class Machine:
    """A scripted GPU, and the three timers on it."""

    def __init__(self, **facts) -> None:
        self.clock = ScriptedClock()
        self.gpu = ScriptedGpu(self.clock, **facts)
        bench = Bench(self.gpu)
        self.timers = {
            "isolated": IsolatedTimer(bench, self.clock),
            "eager": EagerTimer(self.gpu.synchronize, self.clock, self.gpu),
            "graph": GraphTimer(bench),
        }

    def span_ns(self, mode, call) -> float:
        return self.timers[mode].bracket(call).sample().span_s / NS

    def kernels(self, *kernels):
        """A call that launches kernels of (hot_ns, cold_ns) one after the other."""
        return lambda: [self.gpu.kernel(*kernel) for kernel in kernels]


def test_one_kernel_reads_cold_in_isolation_hot_in_a_graph_and_hot_in_a_loop():
    machine = Machine(launch_ns=5_000)
    call = machine.kernels((40_000, 55_000))
    assert machine.span_ns("isolated", call) == pytest.approx(55_000)
    assert machine.span_ns("graph", call) == pytest.approx(40_000)
    # One launch is paid before the GPU starts; the others hide behind the kernels.
    loop = machine.timers["eager"].bracket(call)
    assert loop.calls_per_sample == 44  # 2 ms of 45 µs, a launch and a kernel
    assert loop.sample().span_s / NS == pytest.approx(40_000 + 5_000 / 44)


def test_launches_are_in_eager_alone():
    machine = Machine(launch_ns=5_000)
    call = machine.kernels(*[(1_000, 1_000)] * 36)
    assert machine.span_ns("isolated", call) == pytest.approx(36_000)
    assert machine.span_ns("graph", call) == pytest.approx(36_000)
    assert machine.span_ns("eager", call) == pytest.approx(36 * 5_000, rel=0.001)


@given(
    kernels=st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**5)), min_size=1, max_size=20),
    launch_ns=st.integers(100, 20_000),
)
def test_whatever_the_kernels_and_the_host_isolated_is_their_sum_cold_and_graph_hot(kernels, launch_ns):
    machine = Machine(launch_ns=launch_ns)
    call = machine.kernels(*[(hot, hot + extra) for hot, extra in kernels])
    hot_ns = sum(hot for hot, _ in kernels)
    assert machine.span_ns("isolated", call) == pytest.approx(hot_ns + kernels[0][1])
    assert machine.span_ns("graph", call) == pytest.approx(hot_ns)
    assert machine.span_ns("eager", call) >= max(hot_ns, launch_ns * len(kernels)) * 0.999


def test_an_empty_call_reads_the_floor_which_is_published_and_never_subtracted():
    machine = Machine()
    bracket = machine.timers["isolated"].bracket(lambda: None)
    assert bracket.sample().span_s == bracket.floor_s == 0.0
    assert bracket.resolution_s == EVENT_RESOLUTION_S
    assert machine.span_ns("isolated", machine.kernels((3_000,))) == pytest.approx(3_000)


def test_events_that_tick_round_a_short_span_to_their_tick():
    machine = Machine(tick_ns=32)
    call = machine.kernels((3_100,))
    spans = {round(machine.span_ns("isolated", call)) for _ in range(20)}
    assert spans <= {3072, 3104}
    assert machine.span_ns("graph", call) == pytest.approx(3_100, abs=1)  # fifty replays share one tick


def test_a_call_that_waits_for_the_gpu_is_refused_by_both_gpu_modes_and_timed_by_the_loop():
    machine = Machine()

    def waits():
        machine.gpu.kernel(10_000)
        machine.gpu.wait_in_call()

    with pytest.raises(Unmeasurable, match="waits for the GPU itself"):
        machine.timers["isolated"].bracket(waits)
    with pytest.raises(Unmeasurable, match="cannot be captured"):
        machine.timers["graph"].bracket(waits)
    assert machine.span_ns("eager", waits) == pytest.approx(15_000)


def test_more_launches_than_a_held_stream_takes_are_refused_where_a_naive_timer_would_wait_for_itself():
    machine = Machine()
    with pytest.raises(Unmeasurable, match="launches more than a held stream can queue"):
        machine.timers["isolated"].bracket(machine.kernels(*[(1_000,)] * 2_000))


def test_a_hold_that_gave_up_flags_its_sample():
    machine = Machine()
    wait = False

    def sometimes_waits():
        machine.gpu.kernel(10_000)
        if wait:
            machine.gpu.wait_in_call()

    bracket = machine.timers["isolated"].bracket(sometimes_waits)
    assert bracket.sample().flag is None
    wait = True
    assert bracket.sample().flag == RELEASED_BY_TIMEOUT
    wait = False
    assert bracket.sample().flag is None


def test_a_call_that_raises_leaves_a_stream_that_can_be_used():
    machine = Machine()

    def fails():
        machine.gpu.kernel(10_000)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        machine.timers["isolated"].bracket(fails)
    assert machine.span_ns("isolated", machine.kernels((7_000,))) == pytest.approx(7_000)


def test_a_clock_that_drops_lengthens_the_span_and_is_told_with_every_sample():
    machine = Machine(full_mhz=2000.0, sm_clock=lambda ns: 2000.0 if ns < 50e6 else 1600.0)
    brackets = {mode: timer.bracket(machine.kernels((40_000,))) for mode, timer in machine.timers.items()}
    for bracket in brackets.values():
        assert bracket.sample().sm_clock_mhz == 2000.0
    machine.clock.now = 60e6
    for bracket in brackets.values():
        sample = bracket.sample()
        assert sample.sm_clock_mhz == 1600.0
        assert sample.span_s * sample.sm_clock_mhz * 1e6 == pytest.approx(80_000, rel=0.01)  # cycles stay


def test_what_a_graph_needs_replayed_before_it_is_replayed_to_verify_and_not_timed():
    """As the forward of a captured backward, whose time would be in every sample."""
    machine = Machine(launch_ns=5_000)
    call = machine.kernels((40_000,))
    told = []

    def capture(of):
        captured = ScriptedGpu.capture(machine.gpu, of)
        return replace(captured, before=lambda: told.append("before"))

    machine.gpu.capture = capture
    bracket = machine.timers["graph"].bracket(call)
    assert bracket.sample().span_s / NS == pytest.approx(40_000)
    assert told == []
    assert bracket.replay() == [None]
    assert told == ["before"]
