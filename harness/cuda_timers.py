"""GPU spans by CUDA events, with the stream held until everything to be timed is queued."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import numpy as np
import torch

from harness.timers import (
    GRAPH_LOOP_S,
    MAX_QUEUED_LAUNCHES,
    Bracket,
    Call,
    Sample,
    Unmeasurable,
    calls_filling,
)
from kernels import loader

HOLD_LIMIT_S = 1.0
EVENT_RESOLUTION_S = 0.5e-6
"""What CUDA documents for cudaEventElapsedTime; used when the floor's own ticks do not show a finer one."""
FLOOR_SAMPLES = 50
RELEASED_BY_TIMEOUT = "released_by_timeout"


class StreamHold:
    """Flush the L2, then hold the stream until `release`: what both GPU brackets stand on.

    Raises:
        KernelError: the two small kernels cannot be compiled; the timers then say so as their reason.
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
        self.start, self.end = _timing_event(), _timing_event()
        self.floor_s, self.resolution_s = self._measure_floor()

    def flush(self) -> None:
        """Queue a read of at least twice the L2."""
        words = self._scratch.numel() // 4
        arguments = (self._scratch.data_ptr(), np.uint64(words), self._sink.data_ptr())
        loader.launch(self._module, "flush", self._blocks, 256, arguments)

    def hold(self) -> None:
        """Queue a kernel that keeps the stream busy until `release`."""
        self._host_flags[:] = 0
        address = self._flags.data_ptr()
        loader.launch(self._module, "hold", 1, 1, (address, address + 4, np.uint64(int(HOLD_LIMIT_S * 1e9))))

    def release(self) -> None:
        """Let the stream go on."""
        self._host_flags[0] = 1

    def span(self, calls: int) -> Sample:
        """Wait for the end event; the time between the two events, per call."""
        self.release()
        self.end.synchronize()
        flag = RELEASED_BY_TIMEOUT if self._host_flags[1] else None
        return Sample(self.start.elapsed_time(self.end) * 1e-3 / calls, flag)

    def _measure_floor(self) -> tuple[float, float]:
        """The empty bracket's median, and the smallest step between its readings."""
        spans = []
        for _ in range(FLOOR_SAMPLES):
            self.flush()
            self.hold()
            self.start.record()
            self.end.record()
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
            Unmeasurable: the call itself waits for the GPU, so no stream can be held around it.
        """
        bracket = _IsolatedBracket(call, self._hold)
        if bracket.sample().flag == RELEASED_BY_TIMEOUT:
            raise Unmeasurable(
                "the call waits for the GPU itself, or launches more than a held stream can queue"
            )
        return bracket


class _IsolatedBracket:
    calls_per_sample = 1

    def __init__(self, call: Call, hold: StreamHold) -> None:
        self._call, self._hold = call, hold
        self.floor_s: float | None = hold.floor_s
        self.resolution_s = hold.resolution_s

    def sample(self) -> Sample:
        hold = self._hold
        hold.flush()
        hold.hold()
        try:
            hold.start.record()
            self._call()
            hold.end.record()
        finally:
            hold.release()
        return hold.span(calls=1)


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
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                output = call()
        except Exception as error:  # whatever the call raises under capture is the reason
            _end_failed_capture()
            raise Unmeasurable(f"cannot be captured in a CUDA graph: {_first_line(error)}") from error
        return _GraphBracket(graph, output, self._hold)


class _GraphBracket:
    def __init__(self, graph: Any, output: object, hold: StreamHold) -> None:
        # The graph writes into the memory of its output, so that stays ours while it is replayed.
        self._graph, self._output, self._hold = graph, output, hold
        self.floor_s: float | None = hold.floor_s
        self.resolution_s = hold.resolution_s
        self.calls_per_sample = 1
        once_s = min(self.sample().span_s for _ in range(3))
        self.calls_per_sample = calls_filling(GRAPH_LOOP_S, once_s, at_most=MAX_QUEUED_LAUNCHES // 10)

    def sample(self) -> Sample:
        hold, replay = self._hold, self._graph.replay
        hold.hold()
        try:
            hold.start.record()
            for _ in range(self.calls_per_sample):
                replay()
            hold.end.record()
        finally:
            hold.release()
        return hold.span(self.calls_per_sample)


def _end_failed_capture() -> None:
    """PyTorch's random generator goes on believing in a capture that failed; one that succeeds sets it right."""
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")


def _timing_event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
