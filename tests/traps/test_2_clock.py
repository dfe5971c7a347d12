"""What a clock reads where there is little or nothing to read, where the cache helps, and where the GPU is slow."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from statistics import median

import pytest

import results
from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import Bench, GraphTimer, IsolatedTimer
from harness.peaks import peaks_of
from reports.remarks import FLOOR_SHARE
from results.ranking import standings
from results.record import assemble
from tests.harness.scripted_machine import ScriptedMachine
from tests.results import builders

FLOOR_NS = 1_600


class Flooring(ScriptedGpu):
    """A GPU whose events lie 1.6 µs apart when nothing is between them, as a real one's do."""

    def span_s(self) -> float:
        return super().span_s() + FLOOR_NS * 1e-9


def rows_of(machine: ScriptedMachine, **kernels):
    """Each variant of known kernels, measured and ranked; nothing in it may be infinite, negative or no number."""
    for name, its_kernels in kernels.items():
        machine.scripted(name, *its_kernels)
    found = machine.measure(seconds=0.5)
    for trial in machine.trials:
        json.dumps(trial.to_json(), allow_nan=False)
        assert all(span >= 0 for timing in trial.timings.values() for span in timing.span_s)
    for row in found.values():
        rates = (row.flops_per_s, row.bytes_per_s, row.peak_fraction, row.speedup, row.cycles)
        assert all(0 < rate < math.inf for rate in rates if rate is not None)
    return found


def test_an_empty_callable_reads_a_floor_with_its_bound_and_nothing_is_subtracted():
    """A naive tool subtracts what an empty bracket reads, and divides the work by what is left: nothing."""
    found = rows_of(ScriptedMachine(gpu=Flooring), empty=(), tiny=((40, 40),), heavy=((90_000, 90_000),))
    sampling = {name: row.record.sampling["isolated"] for name, row in found.items()}
    assert found["empty"].time.value_s == pytest.approx(FLOOR_NS * 1e-9)
    assert sampling["empty"].floor_s == pytest.approx(FLOOR_NS * 1e-9)
    assert found["empty"].time.value_s - sampling["empty"].floor_s <= 0, "no time is left to divide by"
    assert sampling["empty"].floor_share == pytest.approx(1)
    assert sampling["tiny"].floor_share > FLOOR_SHARE, "the report says that the kernel is shorter than shown"
    assert sampling["heavy"].floor_share < FLOOR_SHARE
    assert found["heavy"].is_fastest is False


def test_a_kernel_below_the_timers_resolution_has_a_reason_or_a_time_known_to_no_better_than_a_step():
    """A naive tool divides by the zero that it reads, or believes the one step."""
    machine = ScriptedMachine(tick_ns=500)
    found = rows_of(machine, empty=(), tiny=((40, 40),), short=((700, 700),))
    assert set(machine.trials[0].timings["isolated"].span_s) == {0.0}
    for name in ("empty", "tiny"):
        record = found[name].record
        assert "isolated" not in record.estimates
        assert record.mode_reasons["isolated"] == "shorter than the timer's step of 500 ns"
        assert (found[name].flops_per_s, found[name].speedup) == (None, None)
    assert found["tiny"].record.estimates["eager"].value_s > 0, "its launch alone takes longer"
    short = next(trial for trial in machine.trials if trial.case.variant == "short")
    again = [short, replace(short, replicate=1)]
    (record,) = assemble(builders.manifest([short.case], replicates=2), again)
    estimate = record.estimates["isolated"]
    assert estimate.value_s == pytest.approx(500e-9)
    assert (estimate.low_s, estimate.high_s) == pytest.approx((0.0, 1e-6)), "one step either way"


COPIED = 24_000_000
DRAM = peaks_of("NVIDIA H200")["memory"]["bytes_per_s"]


def rate(span_s: float) -> float:
    """Bytes read and written a second."""
    return 2 * COPIED / span_s


def test_a_working_set_that_fits_l2_is_cold_at_or_under_dram_peak_hot_above_it_and_both_are_labelled():
    """A naive tool repeats the call between two events, and reports the cache's bandwidth as the memory's."""
    clock = ScriptedClock()
    gpu = ScriptedGpu(clock)
    bench = Bench(gpu)

    def copy():
        gpu.kernel(hot_ns=6_000, cold_ns=12_000)

    def naive() -> float:
        with bench.held():
            copy()
        return bench.span(calls=1).span_s

    naive()
    assert rate(median(naive() for _ in range(20))) > 1.5 * DRAM
    timers = {"isolated": IsolatedTimer(bench, clock), "graph": GraphTimer(bench)}
    brackets = {mode: timer.bracket(copy) for mode, timer in timers.items()}
    spans = {mode: [bracket.sample().span_s for _ in range(20)] for mode, bracket in brackets.items()}
    timings = {mode: builders.timing(used_s=tuple(its_spans)) for mode, its_spans in spans.items()}
    trial = builders.trial(timings=timings, least_bytes=2 * COPIED)
    manifest = builders.manifest([trial.case], replicates=1)
    (row,) = standings(assemble(manifest, [trial]), lambda _: manifest)
    assert row.mode == "isolated", "what is ranked is cold"
    assert row.bytes_per_s <= DRAM < rate(row.record.estimates["graph"].value_s)
    assert row.implausible is None, "a cache may be faster than DRAM"


@pytest.mark.gpu
def test_on_a_gpu_the_l2_lends_its_speed_to_whoever_does_not_flush():
    """A naive tool repeats the call between two events."""
    import torch

    from harness import clock_check
    from harness.cuda_gpu import CudaGpu

    with torch.inference_mode():
        gpu = CudaGpu()
        bench = Bench(gpu)
        timers = [IsolatedTimer(bench), GraphTimer(bench)]
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        check = clock_check.check_cold(timers, l2_bytes)
        source = torch.randint(0, 255, (check.small_bytes,), device="cuda", dtype=torch.uint8)
        target = torch.empty_like(source)

        def naive() -> float:
            with bench.held():
                target.copy_(source)
            return bench.span(calls=1).span_s

        naive()
        naive_rate = 2 * check.small_bytes / median(naive() for _ in range(30))
    assert check.fault is None
    assert check.cold_bytes_per_s <= clock_check.TOLERANCE * check.large_bytes_per_s
    assert naive_rate > clock_check.TELLING * check.cold_bytes_per_s
    if peaks := peaks_of(torch.cuda.get_device_name()):
        assert check.cold_bytes_per_s <= clock_check.TOLERANCE * peaks["memory"]["bytes_per_s"]


def test_throttled_throughout_is_a_time_and_not_an_empty_row(tmp_path):
    """A naive tool drops throttled samples, and shows an empty row, or NaN, for the case that heats the GPU most."""
    throttled = builders.timing(1.4e-4, flags={"throttled": list(range(10))}, sm_clock_mhz=(1300.0,))
    trial = builders.trial(timings={"isolated": throttled})
    left = [span for index, span in enumerate(throttled.span_s) if index not in throttled.flags["throttled"]]
    assert left == []
    path = builders.stored(tmp_path, builders.manifest([trial.case], replicates=1), [trial])
    run = results.read(path)
    (record,) = run.records()
    assert record.estimates["isolated"].value_s == pytest.approx(1.4e-4)
    assert record.sampling["isolated"].throttled_share == 1.0
    assert record.sampling["isolated"].sm_clock_mhz == 1300.0
    (row,) = run.frame().to_dict("records")
    assert row["isolated_s"] == pytest.approx(1.4e-4)


def test_a_gpu_that_is_held_down_from_its_first_sample_on_shows_the_clock_and_the_cause():
    """A naive tool compares with the highest clock it saw, which here is the lowered one, and finds nothing odd."""
    machine = ScriptedMachine(sm_clock=lambda _: 1440.0, clock_event_reasons=0x4, instant_power_mw=699_000)
    row = rows_of(machine, heavy=((400_000, 400_000),))["heavy"]
    sampling = row.record.sampling["isolated"]
    assert row.time.value_s == pytest.approx(400e-6 * 2000 / 1440)
    assert (sampling.throttled_share, sampling.clock_events) == (0.0, ("power cap",))
    assert (sampling.sm_clock_mhz, sampling.power_w) == (1440.0, 699.0)
    assert row.held_fraction > row.peak_fraction
