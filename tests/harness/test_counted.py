"""The process under Nsight Compute: what it has profiled, and that it ends with its run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness import counted
from harness.sensors.ncu_range import NcuRange

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def told(monkeypatch):
    """What CUDA is told, in order."""
    told: list[object] = []

    class Cudart:
        def __getattr__(self, name):
            return lambda: told.append(name)

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: told.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "cudart", Cudart)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", told.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: told.append("pop"))
    return told


def test_one_call_is_profiled_in_its_range_to_its_end_and_nothing_before_it(told):
    seen = NcuRange().sample(lambda: told.append("call"))["counters"]
    assert told == [
        "synchronize",
        "cudaProfilerStart",
        "headbench case 0",
        "call",
        "synchronize",
        "pop",
        "cudaProfilerStop",
    ]
    assert (seen.source, seen.reason) == ("headbench case 0", None)


def test_gradients_are_computed_in_the_thread_whose_range_it_is(told):
    """On a GPU autograd has a thread of its own, whose launches would be in no range and be missing from the counts."""
    found = []
    NcuRange().sample(lambda: found.append(torch._C._is_multithreading_enabled()))
    assert found == [False]
    assert torch._C._is_multithreading_enabled()


def test_a_call_that_raises_ends_its_range_and_the_next_has_a_number_of_its_own(told):
    sensor = NcuRange()

    def raises():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        sensor.sample(raises)
    assert told[-2:] == ["pop", "cudaProfilerStop"]
    assert sensor.sample(lambda: None)["counters"].source == "headbench case 1"


def test_it_watches_the_run_before_anything_else(monkeypatch):
    done = []

    class Scripted:
        def __init__(self, *, die_with_parent):
            self.job = {"parent": 4321, "plugins": [{"path": "/absent.py", "sha256": ""}]}
            assert not die_with_parent  # the profiler's thread that starts it may end at once

        def send(self, event, **facts):
            done.append(event)

    monkeypatch.setattr(counted, "Channel", Scripted)
    monkeypatch.setattr(counted, "_end_with", done.append)
    counted.main()
    assert done == [4321, "refused"]


def test_a_counted_process_ends_with_the_run_that_started_it_and_takes_the_profiler_along():
    run = subprocess.Popen(["sleep", "60"])
    body = f"from harness.counted import _end_with\n_end_with({run.pid})\nprint('ready', flush=True)\ninput()"
    profiler = subprocess.Popen(
        ["sh", "-c", '"$0" -c "$1"; exit 7', sys.executable, body],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with profiler, run:
        assert profiler.stdout is not None
        assert profiler.stdout.readline() == b"ready\n"
        run.kill()
        handle = os.pidfd_open(profiler.pid)
        ready, _, _ = select.select([handle], [], [], 20)
        os.close(handle)
        if not ready:
            os.killpg(profiler.pid, signal.SIGKILL)
        assert ready
        assert profiler.wait() == -signal.SIGKILL
