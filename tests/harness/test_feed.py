"""What keeps a GPU busy with one call: batches in flight, replays of a graph where there can be one."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch

from harness.gpu import Captured
from harness.sensors import feed
from harness.sensors.feed import BATCH_S, IN_FLIGHT, MOST_RUNS, CudaFeed
from harness.timers import Unmeasurable


class ScriptedStream:
    """A GPU that works through what was queued as its clock is moved on; launching takes no time."""

    def __init__(self, monkeypatch, once_s: float, *, capturable: bool = True) -> None:
        self.once_s, self.now_s, self.queued_s = once_s, 0.0, 0.0
        self.launches = 0
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: ScriptedEvent(self))
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(feed, "time", SimpleNamespace(perf_counter=lambda: self.now_s))
        monkeypatch.setattr(feed, "capture", self.capture if capturable else refuse)

    def call(self) -> None:
        self.launches += 1
        self.queued_s = max(self.queued_s, self.now_s) + self.once_s

    def synchronize(self) -> None:
        self.now_s = max(self.now_s, self.queued_s)

    def capture(self, call, times=1):
        before, launches = self.queued_s, self.launches
        for _ in range(times):
            call()
        took, kernels = self.queued_s - max(before, self.now_s), self.launches - launches
        self.queued_s = before

        def replay() -> None:
            self.launches += kernels
            self.queued_s = max(self.queued_s, self.now_s) + took

        return Captured(replay, None)


def refuse(*_):
    raise Unmeasurable("cannot be captured in a CUDA graph: it waits")


class ScriptedEvent:
    """Ends when the stream has come to where it was recorded."""

    def __init__(self, stream: ScriptedStream) -> None:
        self._stream = stream

    def record(self) -> None:
        self.at_s = self._stream.queued_s

    def query(self) -> bool:
        return self.at_s <= self._stream.now_s

    def synchronize(self) -> None:
        self._stream.now_s = max(self._stream.now_s, self.at_s)

    def elapsed_time(self, later) -> float:
        return (later.at_s - self.at_s) * 1e3


@pytest.mark.parametrize("once_s", [2e-6, 1e-4, 3e-3, 0.5])
def test_the_queue_outlasts_a_slow_query_of_the_driver_whatever_a_call_takes(monkeypatch, once_s):
    stream = ScriptedStream(monkeypatch, once_s)
    busy = CudaFeed(stream.call)
    for _ in range(20):
        busy.top_up()
        assert stream.queued_s - stream.now_s > 1.9 * BATCH_S
        stream.now_s += BATCH_S  # a query of NVML takes as long
    busy.drain()
    assert busy.span_s() == pytest.approx(once_s)
    assert busy.calls() > 0


def test_a_short_call_is_unrolled_into_graphs_that_take_longer_than_their_launch(monkeypatch):
    stream = ScriptedStream(monkeypatch, once_s=10e-6)
    busy = CudaFeed(stream.call)
    assert busy.mode == "graph"
    before = stream.launches
    busy.top_up()
    assert (stream.launches - before) / IN_FLIGHT == pytest.approx(BATCH_S / 10e-6)


def test_a_call_that_cuda_does_not_capture_is_fed_as_it_is_and_says_so(monkeypatch):
    stream = ScriptedStream(monkeypatch, once_s=1e-3, capturable=False)
    busy = CudaFeed(stream.call)
    assert busy.mode == "eager"
    busy.top_up()
    busy.drain()
    assert busy.span_s() == pytest.approx(1e-3)


@pytest.mark.parametrize(("once_s", "runs"), [(0.0, MOST_RUNS), (1e-9, MOST_RUNS), (1e-3, 20), (10.0, 1)])
def test_a_batch_is_bounded_both_ways(monkeypatch, once_s, runs):
    stream = ScriptedStream(monkeypatch, once_s, capturable=False)
    busy = CudaFeed(stream.call)
    before = stream.launches
    busy.top_up()
    in_flight = IN_FLIGHT if once_s else 1  # what takes no time has ended at once, and only then is looked at
    assert (stream.launches - before) / runs in (IN_FLIGHT, in_flight)


def test_before_two_batches_have_ended_the_time_of_a_call_is_not_known(monkeypatch):
    stream = ScriptedStream(monkeypatch, once_s=1.0, capturable=False)
    busy = CudaFeed(stream.call)
    assert busy.span_s() is None
    busy.top_up()
    assert (busy.span_s(), busy.calls()) == (None, 0)


@pytest.mark.gpu
def test_on_a_gpu_small_kernels_are_fed_faster_than_they_run(monkeypatch):
    """A naive loop of eager launches leaves the GPU waiting: it takes several times as long a call."""
    with torch.inference_mode():
        x = torch.randn(1024, 768, device="cuda", dtype=torch.bfloat16)
        weights = [torch.randn(768, 64, device="cuda", dtype=torch.bfloat16) for _ in range(36)]

        def call() -> None:
            for weight in weights:
                x @ weight

        call()
        spans = {}
        for capturing in (feed.capture, refuse):
            monkeypatch.setattr(feed, "capture", capturing)
            busy = CudaFeed(call)
            end = time.time() + 0.4
            while time.time() < end:
                busy.top_up()
                time.sleep(5e-3)
            busy.drain()
            spans[busy.mode] = busy.span_s()
    assert spans["graph"] < spans["eager"] / 2
    assert spans["graph"] < 250e-6


@pytest.mark.gpu
def test_on_a_gpu_a_call_that_waits_for_its_result_is_fed_eagerly():
    with torch.inference_mode():
        x = torch.randn(1024, 1024, device="cuda")
        busy = CudaFeed(lambda: (x @ x).sum().item())
        busy.top_up()
        busy.drain()
    assert busy.mode == "eager"
    assert busy.span_s() > 0
