"""How a call is captured, on a scripted CUDA: what is captured in which graph, and what the call is left as."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from harness import capture as module
from harness.capture import capture
from harness.timers import Unmeasurable


@pytest.fixture
def told(monkeypatch):
    """What happens, in order; a graph is named by the order in which it was made, its replay runs what it captured."""
    told: list[str] = []
    made: list[object] = []

    class Graph:
        def __init__(self):
            made.append(self)
            self.name = f"graph {len(made)}"

        def pool(self):
            return f"pool of {self.name}"

        def replay(self):
            told.append(f"replay {self.name}")

    @contextmanager
    def captured(graph, pool=None):
        told.append(f"capture {graph.name}" + (f" in {pool}" if pool else ""))
        yield
        told.append(f"end {graph.name}")

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "stream")
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", captured)
    monkeypatch.setattr(module, "_end_failed_capture", lambda stream: told.append(f"undo on {stream}"))
    return told


class Backward:
    """A call with a forward that it needs."""

    def __init__(self, told, fails=False):
        self._told, self._fails = told, fails

    def before(self):
        self._told.append("forward")

    def __call__(self):
        self._told.append("backward")
        if self._fails:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return (torch.ones(1),)


def test_a_plain_call_is_captured_in_one_graph_as_often_as_asked(told):
    captured = capture(lambda: told.append("call"), times=3)
    assert told == ["capture graph 1", "call", "call", "call", "end graph 1"]
    assert captured.before is None
    captured.replay()
    assert told[-1] == "replay graph 1"


def test_a_backwards_forward_is_captured_first_in_the_same_memory_and_run_again_outside(told):
    """Outside: or the call would go on with what the graph overwrites, on the stream of the capture."""
    captured = capture(Backward(told))
    assert told == [
        "capture graph 2",
        "forward",
        "end graph 2",
        "capture graph 1 in pool of graph 2",
        "backward",
        "end graph 1",
        "replay graph 2",  # what it saves must be there before the backward is timed
        "forward",
    ]
    captured.before()
    captured.replay()
    assert told[-2:] == ["replay graph 2", "replay graph 1"]


def test_what_cannot_be_captured_says_why_and_the_call_goes_on_outside(told):
    with pytest.raises(Unmeasurable, match=r"graph: operation not permitted when stream is capturing$"):
        capture(Backward(told, fails=True))
    assert told[-2:] == ["undo on stream", "forward"]


def test_the_output_that_a_graph_writes_has_no_record_of_its_gradients(told):
    """It would keep the forward, and nodes of the capture's stream, for as long as the graph lives."""
    x = torch.ones(2, requires_grad=True)
    captured = capture(lambda: (x * 2, [x * 3]))
    assert [one.requires_grad for one in (captured.output[0], captured.output[1][0])] == [False, False]
    assert captured.output[1][0].tolist() == [3, 3]
