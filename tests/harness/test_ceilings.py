"""What a GPU reaches at most: a matmul of a known time and clock, rested and back to back, to the last digit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from harness import ceilings
from harness.ceilings import REST_S, square_matmul, time_matmul
from harness.fakes import ScriptedClock, ScriptedGpu
from harness.gpu_timers import Bench, IsolatedTimer
from harness.sensors import window

SECOND = 1e9
HOT_NS, COLD_NS = 1_400_000, 1_500_000
RESTING_S = REST_S
TIRED_S = 0.05
"""A busy GPU holds its highest clock for so long."""
FULL_MHZ, TIRED_MHZ = 2000.0, 1600.0
FLOPS = 2 * 8192**3


class TiringGpu(ScriptedGpu):
    """Runs at four fifths of its clock once it has been busy for a while without a rest of `RESTING_S`."""

    def __init__(self, clock):
        super().__init__(clock, full_mhz=FULL_MHZ, sm_clock=self._mhz_at)
        self._busy_since_ns = 0.0

    def matmul(self):
        self.kernel(HOT_NS, COLD_NS)

    def _mhz_at(self, ns):
        return TIRED_MHZ if ns - self._busy_since_ns > TIRED_S * SECOND else FULL_MHZ

    def _launch(self, run):
        if self._clock.now - self._free_at >= RESTING_S * SECOND:
            self._busy_since_ns = self._clock.now
        super()._launch(run)


class ScriptedFeed:
    """Runs one call each time it is topped up, and waits for it."""

    mode = "eager"

    def __init__(self, call, gpu, clock):
        self._call, self._gpu, self._clock = call, gpu, clock
        self._spans_ns = []

    def top_up(self):
        start = self._clock.now
        self._call()
        self._gpu.synchronize()
        self._spans_ns.append(self._clock.now - start)

    def drain(self):
        pass

    def calls(self):
        return len(self._spans_ns) - 1

    def span_s(self):
        return sum(self._spans_ns[1:]) / SECOND / self.calls() if self.calls() > 0 else None


@pytest.fixture
def machine(monkeypatch):
    """A GPU that tires, its isolated timer, and everything that sleeps or reads a clock on its clock."""
    clock = ScriptedClock()
    gpu = TiringGpu(clock)

    def sleep(seconds):
        clock.advance(seconds * SECOND)

    monkeypatch.setattr(
        window, "time", SimpleNamespace(time=lambda: clock.now / SECOND, sleep=lambda _: None)
    )
    return SimpleNamespace(
        gpu=gpu,
        clock=clock,
        time=lambda call=gpu.matmul: time_matmul(
            call,
            8192,
            IsolatedTimer(Bench(gpu), clock),
            lambda fed: ScriptedFeed(fed, gpu, clock),
            sleep,
        ),
    )


def test_burst_is_one_cold_matmul_on_a_rested_gpu_and_its_clock_the_one_measured_with_it(machine):
    found = machine.time()
    assert found.burst_flops_per_s == pytest.approx(FLOPS / (COLD_NS * 1e-9))
    assert found.burst_clock_mhz == FULL_MHZ
    assert (found.size, found.reason) == (8192, None)


def test_sustained_is_matmuls_back_to_back_at_the_clock_that_this_settles_to(machine):
    found = machine.time()
    launch_ns = 5_000
    tired_s = (HOT_NS * FULL_MHZ / TIRED_MHZ + launch_ns) * 1e-9
    assert found.sustained_flops_per_s == pytest.approx(FLOPS / tired_s)
    assert found.sustained_clock_mhz == TIRED_MHZ


def test_a_gpu_that_never_tires_sustains_its_burst_clock(machine):
    machine.gpu._sm_clock = lambda _: FULL_MHZ
    found = machine.time()
    assert found.burst_clock_mhz == found.sustained_clock_mhz == FULL_MHZ


def test_one_slow_sample_among_the_bursts_moves_nothing(machine):
    slow = iter([False] * 10 + [True] + [False] * 10**6)
    expected = machine.time().burst_flops_per_s

    def call():
        machine.gpu.matmul()
        if next(slow):
            machine.gpu.kernel(10 * COLD_NS)

    assert machine.time(call).burst_flops_per_s == pytest.approx(expected)


def test_without_the_rests_the_burst_would_be_a_tired_gpus(machine, monkeypatch):
    monkeypatch.setattr(ceilings, "REST_S", 0.01)
    for _ in range(100):
        machine.gpu.matmul()
    machine.gpu.synchronize()
    assert machine.time().burst_clock_mhz == TIRED_MHZ


def test_a_feed_that_ends_no_batch_is_a_reason_beside_the_burst(machine, monkeypatch):
    monkeypatch.setattr(ScriptedFeed, "span_s", lambda _: None)
    found = machine.time()
    assert found.sustained_flops_per_s is None
    assert found.reason == "fewer than two batches of matmuls ended in 1 s"
    assert found.burst_flops_per_s > 0


def test_the_matmul_multiplies_random_matrices_of_the_size_and_dtype_into_its_own_memory():
    call = square_matmul(64, torch.bfloat16, "cpu")
    left, right = call.args
    out = call()
    assert out is call.keywords["out"]
    assert (out.shape, out.dtype) == ((64, 64), torch.bfloat16)
    assert left.std() > 0.9
    torch.testing.assert_close(out, left @ right)


@pytest.fixture
def no_gpu(monkeypatch):
    """Matmuls that are made on nothing: what is asked for is noted, and fails as it is told."""
    asked = []

    def fail_with(error):
        def make(size, dtype, device):
            asked.append((size, dtype, torch.get_float32_matmul_precision()))
            raise error

        monkeypatch.setattr(ceilings, "square_matmul", make)
        return asked

    return fail_with


def test_a_matmul_that_does_not_fit_is_its_reason_and_costs_the_other_dtypes_nothing(no_gpu):
    asked = no_gpu(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256 MiB"))
    before = torch.get_float32_matmul_precision()
    for dtype in ("bf16", "tf32", "fp32"):
        found = ceilings._matmul(dtype, None)
        assert found.reason.startswith("CUDA out of memory")
        assert (found.burst_flops_per_s, found.sustained_flops_per_s) == (None, None)
    assert asked == [
        (8192, torch.bfloat16, "highest"),
        (8192, torch.float32, "high"),
        (4096, torch.float32, "highest"),
    ]
    assert torch.get_float32_matmul_precision() == before


def test_a_lost_context_is_no_reason_but_the_end(no_gpu):
    no_gpu(RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        ceilings._matmul("bf16", None)


@pytest.mark.gpu
def test_on_a_gpu_burst_is_at_least_what_is_sustained_and_neither_beats_the_highest_clock():
    from harness.cuda_gpu import gpu_timers
    from harness.environment import capture
    from results.schema import Ceilings

    peaks = capture("cuda")["peaks"]
    found = ceilings.measure(["bf16", "fp32"], gpu_timers())
    assert Ceilings.from_json(found.to_json()) == found
    for dtype, matmul in found.matmuls.items():
        assert matmul.reason is None
        assert matmul.burst_flops_per_s >= 0.97 * matmul.sustained_flops_per_s
        assert matmul.burst_clock_mhz >= 0.99 * matmul.sustained_clock_mhz
        if dtype in peaks:
            at_clock = peaks[dtype]["flops_per_s"] * matmul.sustained_clock_mhz / peaks[dtype]["clock_mhz"]
            assert 0.5 * at_clock < matmul.sustained_flops_per_s < 1.02 * at_clock
    assert found.copy_bytes_per_s > 1e11
