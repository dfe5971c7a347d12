"""The timed brackets: one small object per timing mode, each asking one question.

    isolated  how long does the GPU need for one call, caches cold, launches hidden?
    eager     what does a Python caller wait for, launches included?
    graph     how long does one replay take when the call is captured in a CUDA graph and replayed back to back?

A timer is made once per process; `bracket(call)` binds it to one call; `bracket.sample()` takes one sample.
Nothing but the call stands between the two clock readings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.gpu import Gpu

Call = Callable[[], object]
Clock = Callable[[], int]

EAGER_LOOP_S = 2e-3
"""An eager sample loops for about this long, so that its one synchronise at the end weighs little."""


class Unmeasurable(Exception):
    """This call cannot be timed in this mode; the message says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: seconds per call, what was odd about it, if anything, and the mean SM clock, where it is known."""

    span_s: float
    flag: str | None = None
    sm_clock_mhz: float | None = None


class Bracket(Protocol):
    """One call ready to be timed in one mode.

    `floor_s` is what an empty bracket reads, where that is known. `replay` runs the bracket's own copy of the
    call and returns its output, where it has one (a captured graph): what is timed must be verified too.
    """

    calls_per_sample: int
    resolution_s: float
    floor_s: float | None
    replay: Call | None

    def sample(self) -> Sample:
        """Take one sample."""


class Timer(Protocol):
    """One timing mode on one device."""

    mode: str

    def bracket(self, call: Call) -> Bracket:
        """Bind the timer to a call.

        Raises:
            Unmeasurable: the call cannot be timed in this mode.
        """


class EagerTimer:
    """Host clock around a loop of calls, one synchronise at its end; on any device."""

    mode = "eager"

    def __init__(
        self, synchronize: Call, clock: Clock = time.perf_counter_ns, gpu: Gpu | None = None
    ) -> None:
        self._synchronize, self._clock, self._gpu = synchronize, clock, gpu

    def bracket(self, call: Call) -> Bracket:
        """Bind to `call`, which has run before: its next runs decide how many make one sample."""
        return _EagerBracket(call, self._synchronize, self._clock, self._gpu)


class _EagerBracket:
    floor_s: float | None = None
    replay: Call | None = None
    resolution_s = time.get_clock_info("perf_counter").resolution

    def __init__(self, call: Call, synchronize: Call, clock: Clock, gpu: Gpu | None) -> None:
        self._call, self._synchronize, self._clock, self._gpu = call, synchronize, clock, gpu
        self.calls_per_sample = 1
        once_s = min(self.sample().span_s for _ in range(2))
        self.calls_per_sample = calls_filling(EAGER_LOOP_S, once_s)

    def sample(self) -> Sample:
        call, calls = self._call, range(self.calls_per_sample)
        if self._gpu:
            self._gpu.stamp()
        self._synchronize()
        start = self._clock()
        for _ in calls:
            call()
        self._synchronize()
        span_s = (self._clock() - start) * 1e-9 / self.calls_per_sample
        return Sample(span_s, sm_clock_mhz=self._sm_clock_mhz())

    def _sm_clock_mhz(self) -> float | None:
        if self._gpu is None:
            return None
        self._gpu.record_end()
        self._gpu.wait()
        return self._gpu.sm_clock_mhz()


def calls_filling(seconds: float, once_s: float, at_most: int = 200) -> int:
    """How many calls of `once_s` fill `seconds`: at least 1, and a bounded number when the clock reads 0."""
    if once_s <= 0:
        return at_most
    return max(1, round(min(at_most, seconds / once_s)))
