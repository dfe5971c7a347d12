"""Memory that was there before, and one case's fault that must stay its own."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

import results
from harness.sensors.memory import MemorySensor
from results.schema import Outcome
from tests.harness.commands import headbench, only_run

from .groups import CPU

KB = 250
"""Elements of float32 in 1,000 bytes."""


def peak_of(call, device):
    return MemorySensor(device).sample(call)["memory"]


class Allocator:
    """CUDA's caching allocator, as far as PyTorch tells of it: bytes now, and at most since the last reset."""

    def __init__(self, monkeypatch) -> None:
        self.now = self.most = 0
        told = {
            "synchronize": lambda: None,
            "reset_peak_memory_stats": self._reset,
            "memory_allocated": lambda: self.now,
            "max_memory_allocated": lambda: self.most,
            "memory_reserved": lambda: 2 * self.most,
        }
        for name, function in told.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def take(self, size: int) -> None:
        self.now += size
        self.most = max(self.most, self.now)

    def free(self, size: int) -> None:
        self.now -= size

    def _reset(self) -> None:
        self.most = self.now


class Garbage:
    """Unreachable from the start, and freed only when somebody collects."""

    def __init__(self, allocator: Allocator, size: int) -> None:
        self.itself, self._allocator, self._size = self, allocator, size
        allocator.take(size)

    def __del__(self) -> None:
        self._allocator.free(self._size)


def test_peak_memory_is_a_delta_with_the_resident_beside_it(monkeypatch):
    """A naive tool reports the allocator's peak, inputs and weights and yesterday's peak included."""
    allocator = Allocator(monkeypatch)
    allocator.take(9_000)
    allocator.free(8_000)  # what was once there is no part of this call

    def call():
        allocator.take(300)
        allocator.take(200)
        allocator.free(300)

    call()
    naive = torch.cuda.max_memory_allocated()
    assert naive == 9_000
    allocator.free(200)
    found = peak_of(call, torch.device("cuda"))
    assert (found.peak_delta_bytes, found.resident_bytes, found.reserved_bytes) == (500, 1_000, 3_000)


def test_garbage_that_happens_to_be_collected_in_the_middle_hides_nothing_of_the_peak(monkeypatch):
    """A naive tool lets the collector run: memory that is freed meanwhile makes room for as much of the peak."""
    allocator = Allocator(monkeypatch)

    def call():
        for _ in range(2_000):  # so many objects that an enabled collector sets in
            [].append([])
            kept.append([])
        allocator.take(500)

    def delta(measure) -> int:
        kept.clear()
        gc.collect()
        Garbage(allocator, 400)
        return measure()

    def naive() -> int:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before

    kept: list[list[int]] = []
    assert delta(naive) < 500
    allocator.free(500)
    assert delta(lambda: peak_of(call, torch.device("cuda")).peak_delta_bytes) == 500
    assert gc.isenabled()


def test_on_a_cpu_too_what_was_resident_is_no_part_of_the_peak():
    """A naive tool asks the system for the process's resident set, which holds the interpreter and the inputs."""
    resident = torch.ones(4_000 * KB)
    assert peak_of(lambda: resident[: 2 * KB].neg(), CPU).peak_delta_bytes == 2_000


@pytest.mark.gpu
def test_on_a_gpu_peak_memory_is_a_delta_whatever_is_resident():
    """A naive tool reports `max_memory_allocated`, which holds a gigabyte of inputs here."""
    cuda = torch.device("cuda")
    resident = torch.ones(1 << 28, device=cuda)
    taken = 1 << 20
    torch.ones(taken, device=cuda)
    found = peak_of(lambda: resident[: taken // 4].neg(), cuda)
    assert torch.cuda.max_memory_allocated() > 100 * taken
    assert found.peak_delta_bytes == taken
    assert found.resident_bytes >= resident.nbytes


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """One run at two shapes, at one of which three of its variants fail."""
    out = tmp_path_factory.mktemp("faults")
    variants = "too_large,crashes_when_large,hangs_when_large,sdpa"
    done = headbench(
        *("run", "--stage", "attention", "--variant", variants, "--seq-len", "16,32", "--d-model", 32),
        *(
            "--n-head",
            2,
            "--batch",
            1,
            "--device",
            "cpu",
            "--budget",
            "1s",
            "--replicates",
            1,
            "--silence",
            "3s",
        ),
        *("--plugin", Path(__file__).parent / "shape_faults.py", "--out", out),
    )
    run = results.read(only_run(out))
    return done, {(record.case.variant, record.case.seq_len): record for record in run.records()}


def test_out_of_memory_at_one_shape_is_that_cases_and_the_rest_go_on(faults):
    """A naive tool ends the sweep at the first allocation that fails, or skips the variant at every shape."""
    _, records = faults
    assert records["too_large", 32].outcome is Outcome.OUT_OF_MEMORY
    assert "can't allocate memory" in records["too_large", 32].reason
    assert records["too_large", 16].estimates["eager"].value_s > 0


def test_a_crash_or_a_hang_in_one_variant_is_its_own_with_the_message_and_the_rest_go_on(faults):
    """A naive tool measures in one process, and takes every result along, or waits for ever."""
    done, records = faults
    crashed, hung = (records[name, 32] for name in ("crashes_when_large", "hangs_when_large"))
    assert (crashed.outcome, hung.outcome) == (Outcome.CRASHED, Outcome.TIMED_OUT)
    assert "SIGSEGV" in crashed.reason
    assert "no sign of life for 3 s" in hung.reason
    assert done.returncode == 1
    for name in ("crashes_when_large", "hangs_when_large"):
        assert records[name, 16].outcome is Outcome.OK, "the other shape of the same variant is measured"
    for seq_len in (16, 32):
        assert records["sdpa", seq_len].estimates["eager"].value_s > 0
    assert len(records) == 8
