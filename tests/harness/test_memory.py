"""Peak memory of one call on a CPU, against peaks added up by hand."""

from __future__ import annotations

import pytest
import torch

from harness.sensors.memory import CPU_SOURCE, MemorySensor

CPU = torch.device("cpu")
KB = 250
"""Elements of float32 in 1,000 bytes."""


def peak_of(call, device):
    return MemorySensor(device).sample(call)["memory"]


def peak_bytes(call):
    found = peak_of(call, CPU)
    assert (found.source, found.reason) == (CPU_SOURCE, None)
    return found.peak_delta_bytes


def test_one_tensor_is_its_own_bytes():
    assert peak_bytes(lambda: torch.empty(3 * KB)) == 3000


def test_an_output_counts_although_the_caller_lets_it_go():
    assert peak_bytes(lambda: (torch.empty(KB), torch.empty(2 * KB))) == 3000


def test_a_temporary_and_the_output_made_from_it_are_there_at_once():
    x = torch.ones(KB)
    assert peak_bytes(lambda: (x + x) * x) == 2000


def test_what_was_resident_before_is_not_counted():
    x, w = torch.ones(100, 100), torch.ones(100, 100)
    assert peak_bytes(lambda: x @ w) == 4 * 100 * 100


def test_memory_freed_before_more_is_taken_counts_once():
    def call():
        first = torch.empty(5 * KB)
        del first
        return torch.empty(4 * KB)

    assert peak_bytes(call) == 5000


def test_the_peak_is_the_highest_point_not_the_end_and_not_the_sum():
    def call():
        a = torch.empty(KB)  # 1,000
        b = torch.empty(4 * KB)  # 5,000
        del b  # 1,000
        c = torch.empty(2 * KB)  # 3,000
        d = torch.empty(KB)  # 4,000
        return a, c, d

    assert peak_bytes(call) == 5000


def test_scores_in_memory_are_seen_to_grow_with_the_square_of_seq_len():
    def scores_of(t):
        q = torch.ones(t, 8)
        return peak_bytes(lambda: torch.softmax(q @ q.mT, dim=-1))

    assert scores_of(64) == 2 * 4 * 64**2
    assert scores_of(128) == 4 * scores_of(64)


def test_releasing_what_was_resident_neither_lowers_the_peak_nor_raises_it():
    held = [torch.empty(8 * KB)]

    def call():
        held.clear()
        return torch.empty(KB)

    assert peak_bytes(call) == 1000


def test_a_call_without_an_allocation_has_a_reason_not_a_zero():
    x = torch.ones(KB)
    found = peak_of(lambda: x.view(10, -1), CPU)
    assert found.peak_delta_bytes is None
    assert found.reason == "PyTorch's profiler recorded no allocation"


def test_the_call_runs_exactly_once():
    calls = []

    def call():
        calls.append(1)
        return torch.empty(KB)

    peak_of(call, CPU)
    assert len(calls) == 1


def test_a_call_that_raises_leaves_the_profiler_usable():
    def call():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        peak_of(call, CPU)
    assert peak_bytes(lambda: torch.empty(KB)) == 1000
