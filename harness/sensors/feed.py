"""A call kept running back to back, so that a sensor that watches the whole GPU sees nothing but this call.

A GPU whose queue runs empty reads too low: batches long enough to outlast a slow query of the driver are kept in
flight, and where CUDA can capture the call, it is replayed from a graph, which launches faster than a GPU works.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import torch

from harness.capture import capture
from harness.timers import Unmeasurable

if TYPE_CHECKING:
    from harness.timers import Call

BATCH_S = 20e-3
"""A query of NVML can take some 10 ms, and another batch waits behind the one that runs."""
IN_FLIGHT = 3
MOST_RUNS = 150
"""Runs in a batch: a stream takes about 1,000 launches before the host has to wait."""
GRAPH_S = 1e-3
MOST_UNROLLED = 100
TRIAL_RUNS = 3
"""Runs whose mean decides how long batches and graphs are."""


class Feed(Protocol):
    """What keeps a GPU busy; `mode` is `graph` or `eager`."""

    mode: str

    def top_up(self) -> None:
        """Queue until enough is in flight; returns at once."""

    def drain(self) -> None:
        """Wait for the end of what is queued."""

    def calls(self) -> int:
        """How many calls have ended, as far as `span_s` covers them."""

    def span_s(self) -> float | None:
        """Seconds a call took, from the first batch's end to the last's; None before two batches have ended."""


class CudaFeed:
    """Runs `call`, which has run before, on the current stream of the current device; from a graph if CUDA allows."""

    def __init__(self, call: Call) -> None:
        self.mode, self._run, self._calls_a_run = "eager", call, 1
        once_s = _once_s(call)
        with suppress(Unmeasurable):  # then it is fed as it is, and `mode` says so
            self._capture(call, once_s)
            once_s = _once_s(self._run)
        self._runs = max(1, min(MOST_RUNS, round(BATCH_S / max(once_s, 1e-6))))
        self._ends: deque[Any] = deque()
        self._first: Any = None
        self._last: Any = None
        self._batches = 0

    def top_up(self) -> None:
        """Queue batches until `IN_FLIGHT` of them have not ended."""
        while self._ends and self._ends[0].query():
            self._ended(self._ends.popleft())
        while len(self._ends) < IN_FLIGHT:
            for _ in range(self._runs):
                self._run()
            end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            end.record()
            self._ends.append(end)

    def drain(self) -> None:
        """Wait for the end of what is queued."""
        while self._ends:
            self._ends[0].synchronize()
            self._ended(self._ends.popleft())

    def calls(self) -> int:
        """Calls between the end of the first batch and that of the last."""
        return self._batches * self._runs * self._calls_a_run

    def span_s(self) -> float | None:
        """Seconds a call took in these batches."""
        if not self._batches:
            return None
        return float(self._first.elapsed_time(self._last)) * 1e-3 / self.calls()

    def _ended(self, end: Any) -> None:
        if self._first is None:
            self._first = end
        else:
            self._last = end
            self._batches += 1

    def _capture(self, call: Call, once_s: float) -> None:
        """Several calls a graph, so that launching graphs is no work either."""
        captured, calls = capture(call), 1
        quickest_s = min(once_s, _once_s(captured.replay))
        if (several := max(1, min(MOST_UNROLLED, round(GRAPH_S / max(quickest_s, 1e-6))))) > 1:
            captured, calls = capture(call, several), several
        self._held = captured
        self.mode, self._run, self._calls_a_run = "graph", captured.replay, calls


def _once_s(call: Call) -> float:
    """About how long one call takes back to back."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(TRIAL_RUNS):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / TRIAL_RUNS
