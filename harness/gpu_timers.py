"""GPU spans between two events, with the stream held until everything to be timed is queued."""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.timers import Bracket, Call, Clock, Sample, Unmeasurable, calls_filling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.gpu import Captured, Gpu

EVENT_RESOLUTION_S = 0.5e-6
"""What CUDA documents for cudaEventElapsedTime; used when the floor's own ticks do not show a finer one."""
FLOOR_SAMPLES = 50
GRAPH_LOOP_S = 0.5e-3
MOST_REPLAYS = 50
"""A held stream takes about 1,000 launches before the host must wait for the GPU, which would wait for the host."""
UNFINISHED_S = 200e-6
UNFINISHED_SHARE = 0.2
"""A GPU busy for so long after the call's last event has work on another stream. Waking from a wait of milliseconds
alone takes a host some 50 to 100 µs."""
RELEASED_BY_TIMEOUT = "released_by_timeout"


class Bench:
    """What both GPU modes stand on: a held stream, a span, and the floor that an empty one reads.

    `floor_s` is the median that an empty bracket reads here, `resolution_s` the smallest step seen.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        empty = sorted(self._empty_s() for _ in range(FLOOR_SAMPLES))
        steps = [b - a for a, b in itertools.pairwise(empty) if b - a > 1e-9]
        self.floor_s = statistics.median(empty)
        self.resolution_s = min(steps, default=EVENT_RESOLUTION_S)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the stream until the block has queued its work between the two events."""
        self.gpu.hold()
        try:
            self.gpu.record_start()
            yield
            self.gpu.record_end()
        except BaseException:
            self.gpu.release()
            self.gpu.synchronize()  # the hold must have seen its flag before the flag is cleared again
            raise
        self.gpu.release()

    def span(self, calls: int) -> Sample:
        """Wait for the end; the time between the two events, per call."""
        self.gpu.wait()
        flag = RELEASED_BY_TIMEOUT if self.gpu.released_by_timeout() else None
        return Sample(self.gpu.span_s() / calls, flag, self.gpu.sm_clock_mhz())

    def _empty_s(self) -> float:
        self.gpu.flush()
        with self.held():
            pass
        return self.span(calls=1).span_s


class IsolatedTimer:
    """One call per event pair, L2 cold, host launch hidden behind the held stream."""

    mode = "isolated"

    def __init__(self, bench: Bench, clock: Clock = time.perf_counter_ns) -> None:
        self._bench, self._clock = bench, clock

    def bracket(self, call: Call) -> Bracket:
        """Bind to `call`, which has run before (lazy module loading would deadlock a held stream).

        Raises:
            Unmeasurable: the call waits for the GPU itself, or leaves work behind on another stream.
        """
        bracket = _IsolatedBracket(call, self._bench)
        _refuse_timeout(bracket)
        if all(self._leaves_work(bracket) for _ in range(3)):
            raise Unmeasurable("leaves work running on another stream, so its end is not the call's end")
        return bracket

    def _leaves_work(self, bracket: Bracket) -> bool:
        """Whether the GPU goes on working after the bracket's end event."""
        span_s = bracket.sample().span_s
        start = self._clock()
        self._bench.gpu.synchronize()
        return (self._clock() - start) * 1e-9 > max(UNFINISHED_S, UNFINISHED_SHARE * span_s)


class _IsolatedBracket:
    calls_per_sample = 1
    replay: Call | None = None

    def __init__(self, call: Call, bench: Bench) -> None:
        self._call, self._bench = call, bench
        self.floor_s: float | None = bench.floor_s
        self.resolution_s = bench.resolution_s

    def sample(self) -> Sample:
        self._bench.gpu.flush()
        with self._bench.held():
            self._call()
        return self._bench.span(calls=1)


class GraphTimer:
    """The call captured in a CUDA graph and replayed back to back, caches warm."""

    mode = "graph"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def bracket(self, call: Call) -> Bracket:
        """Capture `call`, which has run before.

        Raises:
            Unmeasurable: CUDA refuses to capture it; the message is CUDA's.
        """
        bracket = _GraphBracket(self._bench.gpu.capture(call), self._bench)
        _refuse_timeout(bracket)
        return bracket


class _GraphBracket:
    def __init__(self, captured: Captured, bench: Bench) -> None:
        self._captured, self._bench = captured, bench
        self.floor_s: float | None = bench.floor_s
        self.resolution_s = bench.resolution_s
        self.replay: Call | None = self._replay_once
        self.calls_per_sample = 1
        once_s = min(self.sample().span_s for _ in range(3))
        self.calls_per_sample = calls_filling(GRAPH_LOOP_S, once_s, at_most=MOST_REPLAYS)

    def sample(self) -> Sample:
        replay, calls = self._captured.replay, range(self.calls_per_sample)
        with self._bench.held():
            for _ in calls:
                replay()
        return self._bench.span(self.calls_per_sample)

    def _replay_once(self) -> object:
        if self._captured.before:
            self._captured.before()
        self._captured.replay()
        return self._captured.output


def _refuse_timeout(bracket: Bracket) -> None:
    if bracket.sample().flag == RELEASED_BY_TIMEOUT:
        raise Unmeasurable("the call waits for the GPU itself, or launches more than a held stream can queue")
