"""The doctor: the clock's check by figures that are known, and the command on this machine."""

from __future__ import annotations

import pytest

from harness.clock_check import ColdCheck, read_floor, span_s
from harness.doctor_command import _peaks
from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import Bench, IsolatedTimer
from harness.peaks import peaks_of_gpu

from .commands import headbench


def copies(cold: float, hot: float, large: float) -> ColdCheck:
    return ColdCheck(15 << 20, cold, hot, large)


def test_a_small_copy_that_is_slow_cold_and_fast_hot_proves_the_flush():
    assert copies(cold=2.9e12, hot=5.8e12, large=4.1e12).fault is None


def test_a_flush_that_leaves_data_in_the_cache_is_found():
    assert "the flush leaves data in the cache" in copies(cold=5.5e12, hot=5.8e12, large=4.1e12).fault


def test_a_hot_copy_as_slow_as_a_cold_one_proves_nothing_and_that_is_said():
    assert "cannot tell" in copies(cold=2.9e12, hot=3.0e12, large=4.1e12).fault


def test_the_floor_is_what_an_empty_bracket_reads():
    clock = ScriptedClock()
    timer = IsolatedTimer(Bench(ScriptedGpu(clock)), clock)
    found = read_floor([timer])
    assert (found.floor_s, found.sm_clock_mhz) == (0.0, 2000.0)


def test_the_span_of_a_known_kernel_is_its_cold_time():
    clock = ScriptedClock()
    gpu = ScriptedGpu(clock)
    timer = IsolatedTimer(Bench(gpu), clock)
    assert span_s(timer, lambda: gpu.kernel(20_000, 30_000)) == pytest.approx(30e-6)


def test_on_a_cpu_the_doctor_says_what_is_there_and_why_the_rest_is_not():
    done = headbench("doctor", "--device", "cpu")
    assert done.returncode == 0
    assert "none in use: eager times alone" in done.stdout
    assert "NVML watches GPUs; this run is on the CPU" in done.stdout
    assert "NVML's performance monitor watches GPUs; this run is on the CPU" in done.stdout
    assert "Nsight Compute counts on GPUs; this run is on the CPU" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_device_that_is_not_there_is_wrong_usage():
    done = headbench("doctor", "--device", "cuda:99")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.gpu
def test_on_a_gpu_cold_is_cold_and_the_floor_is_published():
    done = headbench("doctor")
    assert done.returncode == 0, done.stdout
    assert "cold is cold, hot is hot" in done.stdout
    assert "an empty bracket reads" in done.stdout


@pytest.mark.gpu
def test_on_a_gpu_the_doctor_says_what_it_reaches_and_whether_its_counters_can_be_had():
    done = headbench("doctor")
    labels = {line.split(" ", 1)[0] for line in done.stdout.splitlines()}
    assert {"processes", "ceilings", "GPM", "ncu"} <= labels
    assert "bf16 matmul 8192³: burst " in done.stdout
    assert "points apart" not in done.stdout


def test_peaks_are_told_with_where_they_come_from_and_what_is_not_known():
    h200 = {"name": "NVIDIA H200", "capability": [9, 0], "sm_count": 132, "max_sm_clock_mhz": 1980.0}
    assert _peaks(peaks_of_gpu(h200)).endswith("memory 4.80 TB/s (datasheet of H200)")
    derived = _peaks(peaks_of_gpu(h200 | {"name": "NVIDIA GH200 480GB"}))
    assert "memory unknown (derived: 132 SMs × 4096 FLOP × 1980 MHz; derived: 132 SMs × 256 FLOP" in derived
    assert "no share of peak" in _peaks({})
