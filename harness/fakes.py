"""Scripted stand-ins that the real timers, rounds and groups run on unchanged, so that every figure is known exactly.

A variant's author can use them, too: to see what a timer says of launches, gaps and caches without a GPU.

    clock = ScriptedClock()
    gpu = ScriptedGpu(clock, launch_ns=5_000)
    bracket = IsolatedTimer(Bench(gpu), clock).bracket(lambda: gpu.kernel(hot_ns=40_000, cold_ns=55_000))
    bracket.sample().span_s     # 55 µs: cold, and no launch in it
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, cycle, repeat
from typing import TYPE_CHECKING

from harness.gpu import Captured
from harness.timers import Sample, Unmeasurable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.timers import Call

HOLD_LIMIT_NS = 1_000_000_000
MOST_QUEUED = 1_000
"""A real stream takes about so many launches before the host must wait for the GPU."""


@dataclass
class ScriptedClock:
    """Stands still until `advance`; reads in whatever unit it is advanced in."""

    now: float = 0

    def __call__(self) -> float:
        """What it shows."""
        return self.now

    def advance(self, by: float) -> None:
        """Let time pass."""
        self.now += by


class ScriptedGpu:
    """A GPU with one stream, an L2 cache and a clock, on a host clock in whole nanoseconds.

    A launch costs the host `launch_ns`; the kernel starts when the stream is free, and never before it was
    launched. The first kernel after a flush runs cold, later ones hot. Everything scales with the SM clock:
    times are given for `full_mhz`, and `sm_clock` says what it is at a given time. Events read in steps of
    `tick_ns`. The two clock stamps are exact.
    """

    def __init__(
        self,
        clock: ScriptedClock,
        launch_ns: int = 5_000,
        tick_ns: int = 1,
        full_mhz: float = 2000.0,
        sm_clock: Callable[[float], float] | None = None,
    ) -> None:
        self._clock, self._launch_ns, self._tick_ns, self._full_mhz = clock, launch_ns, tick_ns, full_mhz
        self._sm_clock = sm_clock or (lambda _ns: full_mhz)
        self._free_at = 0.0
        self._held: list[Callable[[], None]] | None = None
        self._captured: list[tuple[int, int]] | None = None
        self._cold = False
        self._timed_out = False
        self._start = self._end = 0.0
        self.launches = 0

    def kernel(self, hot_ns: int, cold_ns: int | None = None) -> None:
        """Launch a kernel that takes so long from a warm or, where it matters, from a cold cache."""
        cold_ns = hot_ns if cold_ns is None else cold_ns
        if self._captured is not None:
            self._captured.append((hot_ns, cold_ns))
            return
        self.launches += 1
        self._launch(lambda: self._run(hot_ns, cold_ns))

    def flush(self) -> None:
        """Empty the cache; takes no time."""
        self._queue(lambda: setattr(self, "_cold", True))

    def hold(self) -> None:
        """Queue everything from here on until `release`."""
        self._launch(lambda: None)
        self._held, self._timed_out = [], False

    def release(self) -> None:
        """Run what was queued meanwhile, from now on."""
        self._let_go(self._clock.now)

    def released_by_timeout(self) -> bool:
        """Whether the host waited while the stream was held."""
        return self._timed_out

    def record_start(self) -> None:
        """The time at which the stream is free next."""
        self._queue(lambda: setattr(self, "_start", self._ready_at()))

    def record_end(self) -> None:
        """The time at which what was queued has ended."""
        self._queue(lambda: setattr(self, "_end", self._ready_at()))

    def stamp(self) -> None:
        """As `record_start`, where no hold precedes it."""
        self.record_start()

    def wait(self) -> None:
        """The host's clock goes on until the stream is free."""
        self.synchronize()

    def synchronize(self) -> None:
        """As `wait`; while the stream is held it lasts until the hold gives up."""
        if self._held is not None:
            self._timed_out = True
            self._let_go(self._clock.now + HOLD_LIMIT_NS)
        self._clock.now = max(self._clock.now, self._free_at)

    def span_s(self) -> float:
        """Seconds between the events, in whole ticks."""
        ticks = self._end // self._tick_ns - self._start // self._tick_ns
        return ticks * self._tick_ns * 1e-9

    def sm_clock_mhz(self) -> float | None:
        """The clock at the end event."""
        return self._sm_clock(self._end)

    def capture(self, call: Call) -> Captured:
        """`call`'s kernels as a graph: one launch, no gaps between them.

        A replay computes anew and puts what comes out in the place of the captured output, as memory would hold
        it; so `call` returns a tuple or a list, or nothing.

        Raises:
            Unmeasurable: `call` waits for the GPU.
        """
        output, _ = self._recorded(call)

        def replay() -> None:
            output[:], kernels = self._recorded(call)
            self._launch(lambda: self._run_all(kernels))

        return Captured(replay, output)

    def wait_in_call(self) -> None:
        """What a call does that synchronises: impossible under capture, and the end of a hold.

        Raises:
            Unmeasurable: under capture.
        """
        if self._captured is not None:
            raise Unmeasurable("cannot be captured in a CUDA graph: it waits for the GPU")
        self.synchronize()

    def _recorded(self, call: Call) -> tuple[list[object], list[tuple[int, int]]]:
        kernels: list[tuple[int, int]] = []
        self._captured = kernels
        try:
            output = call()
        finally:
            self._captured = None
        return (list(output) if isinstance(output, tuple | list) else []), kernels

    def _launch(self, run: Callable[[], None]) -> None:
        if self._held is not None and len(self._held) >= MOST_QUEUED:
            self.synchronize()
        self._clock.advance(self._launch_ns)
        self._queue(run)

    def _queue(self, run: Callable[[], None]) -> None:
        if self._held is not None:
            self._held.append(run)
        else:
            run()

    def _let_go(self, at_ns: float) -> None:
        queued, self._held = self._held or [], None
        self._free_at = max(self._free_at, at_ns)
        for run in queued:
            run()

    def _ready_at(self) -> float:
        return max(self._free_at, self._clock.now)

    def _run_all(self, kernels: list[tuple[int, int]]) -> None:
        for kernel in kernels:
            self._run(*kernel)

    def _run(self, hot_ns: int, cold_ns: int) -> None:
        start = self._ready_at()
        slower = self._full_mhz / self._sm_clock(start)
        self._free_at = start + (cold_ns if self._cold else hot_ns) * slower
        self._cold = False


class ScriptedBracket:
    """Samples are the next spans of a stream, each of which takes its span on the clock; some carry a flag."""

    calls_per_sample = 1
    resolution_s = 1e-9
    floor_s: float | None = 2e-6
    replay = None

    def __init__(
        self,
        clock: ScriptedClock,
        spans_s: Iterator[float],
        flags: dict[int, str] | None = None,
        on_sample: Callable[[], None] = lambda: None,
        sm_clock_mhz: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._clock, self._spans_s, self._flags, self._on_sample = clock, spans_s, flags or {}, on_sample
        self._sm_clock_mhz = sm_clock_mhz
        self._taken = 0

    def sample(self) -> Sample:
        """The next of the stream."""
        self._on_sample()
        span_s = next(self._spans_s)
        self._clock.advance(span_s)
        self._taken += 1
        return Sample(span_s, self._flags.get(self._taken - 1), self._sm_clock_mhz())


def constant(span_s: float) -> Iterator[float]:
    """The same, for ever."""
    return repeat(span_s)


def bimodal(fast_s: float, slow_s: float) -> Iterator[float]:
    """The two in turns."""
    return cycle((fast_s, slow_s))


def drifting(start_s: float, step_s: float) -> Iterator[float]:
    """Longer by a step each time."""
    return (start_s + index * step_s for index in count())
