"""GPU spans by CUDA events, with the stream held until everything to be timed is queued."""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.timers import Bracket, Call, EagerTimer, Sample, Timer, Unmeasurable, calls_filling
from kernels import loader

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD_LIMIT_S = 1.0
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


def gpu_timers() -> list[Timer]:
    """The three modes on the current device.

    Raises:
        KernelError: the kernels that flush and hold cannot be compiled.
    """
    hold = StreamHold()
    return [IsolatedTimer(hold), EagerTimer(synchronize=torch.cuda.synchronize), GraphTimer(hold)]


class StreamHold:
    """Flushes the L2, and holds the stream while a bracket is being queued: what both GPU modes stand on.

    `floor_s` is the median that an empty bracket reads here, `resolution_s` the smallest step seen.
    """

    def __init__(self) -> None:
        self._module = loader.load("timing")
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._scratch = torch.zeros(2 * device.L2_cache_size // 16 * 4, dtype=torch.int32, device="cuda")
        self._sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._blocks = 4 * device.multi_processor_count
        # Pinned memory has one address on host and GPU (unified addressing), so the GPU sees the host's store.
        self._flags = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._host_flags = self._flags.numpy()
        self._stream = torch.cuda.current_stream()
        self._start, self._end = _timing_event(), _timing_event()
        self.floor_s, self.resolution_s = self._measure_floor()

    def flush(self) -> None:
        """Queue a read of at least twice the L2."""
        words = self._scratch.numel() // 4
        arguments = (self._scratch.data_ptr(), np.uint64(words), self._sink.data_ptr())
        loader.launch(self._module, "flush", self._blocks, 256, arguments)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the stream until the block has queued its work between the two events."""
        self._host_flags[:] = 0
        address = self._flags.data_ptr()
        loader.launch(self._module, "hold", 1, 1, (address, address + 4, np.uint64(int(HOLD_LIMIT_S * 1e9))))
        try:
            self._start.record(self._stream)
            yield
            self._end.record(self._stream)
        except BaseException:
            self._host_flags[0] = 1
            torch.cuda.synchronize()  # the hold must have seen its flag before the flag is cleared again
            raise
        self._host_flags[0] = 1

    def span(self, calls: int) -> Sample:
        """Wait for the end event; the time between the two events, per call."""
        self._end.synchronize()
        flag = RELEASED_BY_TIMEOUT if self._host_flags[1] else None
        return Sample(self._start.elapsed_time(self._end) * 1e-3 / calls, flag)

    def _measure_floor(self) -> tuple[float, float]:
        spans = []
        for _ in range(FLOOR_SAMPLES):
            self.flush()
            with self.held():
                pass
            spans.append(self.span(calls=1).span_s)
        ticks = sorted(set(spans))
        steps = [b - a for a, b in itertools.pairwise(ticks) if b - a > 1e-9]
        return statistics.median(spans), min(steps, default=EVENT_RESOLUTION_S)


class IsolatedTimer:
    """One call per event pair, L2 cold, host launch hidden behind the held stream."""

    mode = "isolated"

    def __init__(self, hold: StreamHold) -> None:
        self._hold = hold

    def bracket(self, call: Call) -> Bracket:
        """Bind to `call`, which has run before (lazy module loading would deadlock a held stream).

        Raises:
            Unmeasurable: the call waits for the GPU itself, or leaves work behind on another stream.
        """
        bracket = _IsolatedBracket(call, self._hold)
        _refuse_timeout(bracket)
        if all(_leaves_work(bracket) for _ in range(3)):
            raise Unmeasurable("leaves work running on another stream, so its end is not the call's end")
        return bracket


class _IsolatedBracket:
    calls_per_sample = 1
    replay: Call | None = None

    def __init__(self, call: Call, hold: StreamHold) -> None:
        self._call, self._hold = call, hold
        self.floor_s: float | None = hold.floor_s
        self.resolution_s = hold.resolution_s

    def sample(self) -> Sample:
        self._hold.flush()
        with self._hold.held():
            self._call()
        return self._hold.span(calls=1)


class GraphTimer:
    """The call captured in a CUDA graph and replayed back to back, caches warm."""

    mode = "graph"

    def __init__(self, hold: StreamHold) -> None:
        self._hold = hold

    def bracket(self, call: Call) -> Bracket:
        """Capture `call`, which has run before.

        Raises:
            Unmeasurable: CUDA refuses to capture it; the message is CUDA's.
        """
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                output = call()
        except Exception as error:  # whatever the call raises under capture is the reason
            _end_failed_capture(stream)
            raise Unmeasurable(f"cannot be captured in a CUDA graph: {_first_line(error)}") from error
        bracket = _GraphBracket(graph, output, self._hold)
        _refuse_timeout(bracket)
        return bracket


class _GraphBracket:
    def __init__(self, graph: Any, output: object, hold: StreamHold) -> None:
        # The graph writes into the memory of its output, so that stays ours while it is replayed.
        self._graph, self._output, self._hold = graph, output, hold
        self.floor_s: float | None = hold.floor_s
        self.resolution_s = hold.resolution_s
        self.replay: Call | None = self._replay_once
        self.calls_per_sample = 1
        once_s = min(self.sample().span_s for _ in range(3))
        self.calls_per_sample = calls_filling(GRAPH_LOOP_S, once_s, at_most=MOST_REPLAYS)

    def sample(self) -> Sample:
        replay, calls = self._graph.replay, range(self.calls_per_sample)
        with self._hold.held():
            for _ in calls:
                replay()
        return self._hold.span(self.calls_per_sample)

    def _replay_once(self) -> object:
        self._graph.replay()
        return self._output


def _refuse_timeout(bracket: Bracket) -> None:
    if bracket.sample().flag == RELEASED_BY_TIMEOUT:
        raise Unmeasurable("the call waits for the GPU itself, or launches more than a held stream can queue")


def _leaves_work(bracket: Bracket) -> bool:
    """Whether the GPU goes on working after the bracket's end event."""
    span_s = bracket.sample().span_s
    start = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - start > max(UNFINISHED_S, UNFINISHED_SHARE * span_s)


def _end_failed_capture(stream: torch.cuda.Stream) -> None:
    """Undo what PyTorch leaves behind when a capture fails.

    The capture's own stream stays the current one, and the random generator goes on believing in the capture
    until another one succeeds.
    """
    torch.cuda.set_stream(stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")


def _timing_event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
