"""On a real GPU: cold is cold, launches are hidden or shown, NVML watches the right device, faults stay alone."""

from __future__ import annotations

import statistics
from itertools import repeat

import pytest
import torch

import results
from results.schema import Outcome

from .commands import PLUGINS, headbench, only_run

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def timers():
    from harness.cuda_gpu import gpu_timers

    with torch.inference_mode():
        yield {timer.mode: timer for timer in gpu_timers()}


def median_s(timer, call, samples: int = 30) -> float:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    bracket = timer.bracket(call)
    spans = [bracket.sample().span_s for _ in repeat(None, samples)]
    return statistics.median(spans)


def test_isolated_is_cold_and_graph_is_hot_when_the_working_set_fits_the_l2(timers):
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    source = torch.randn(l2_bytes // 4 // 4, device="cuda")
    target = torch.empty_like(source)
    cold, hot = (median_s(timers[mode], lambda: target.copy_(source)) for mode in ("isolated", "graph"))
    assert cold > 1.3 * hot


def test_a_large_copy_is_the_same_cold_or_hot_and_below_the_datasheets_bandwidth(timers):
    from harness.peaks import peaks_of

    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    source = torch.randn(8 * l2_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    cold, hot = (median_s(timers[mode], lambda: target.copy_(source)) for mode in ("isolated", "graph"))
    assert cold == pytest.approx(hot, rel=0.1)
    if peaks := peaks_of(torch.cuda.get_device_name(0)):
        assert 2 * 8 * l2_bytes / cold < 1.02 * peaks["memory"]["bytes_per_s"]


def test_an_empty_call_reads_the_published_floor(timers):
    isolated = timers["isolated"]
    bracket = isolated.bracket(lambda: None)
    assert bracket.floor_s is not None
    assert 0 < bracket.floor_s < 20e-6
    assert 0 < bracket.resolution_s <= 0.5e-6
    assert median_s(isolated, lambda: None) == pytest.approx(bracket.floor_s, abs=1e-6)


def test_launches_show_in_eager_and_are_gone_in_graph(timers):
    x = torch.randn(64, device="cuda")

    def many_launches():
        for _ in range(100):
            x.mul_(1.0)

    eager, graph = (median_s(timers[mode], many_launches) for mode in ("eager", "graph"))
    assert eager > 1.5 * graph


def test_isolated_does_not_see_the_host_between_launches(timers):
    x = torch.randn(64, device="cuda")

    def slow_python():
        x.mul_(1.0)
        sum(range(200_000))
        x.mul_(1.0)

    assert median_s(timers["isolated"], slow_python) < 50e-6
    assert median_s(timers["eager"], slow_python) > 500e-6


def test_a_call_that_waits_for_the_gpu_is_refused_with_the_reason_and_leaves_no_harm(timers):
    from harness.timers import Unmeasurable

    def waits():
        torch.cuda.synchronize()

    for mode in ("isolated", "graph"):
        with pytest.raises(Unmeasurable, match=r"waits for the GPU|cannot be captured"):
            timers[mode].bracket(waits)
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.randn(4, device="cuda")
    x = torch.randn(64, device="cuda")
    assert median_s(timers["graph"], lambda: x.mul_(1.0)) > 0


def test_work_left_on_another_stream_is_refused_and_a_long_call_is_not(timers):
    from harness.timers import Unmeasurable

    square, side = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16), torch.cuda.Stream()

    def unjoined():
        with torch.cuda.stream(side):
            for _ in range(6):
                square @ square
        return square[0] + 1

    def long():
        for _ in range(8):
            out = square @ square
        return out

    for call in (unjoined, long):
        call()
    torch.cuda.synchronize()
    with pytest.raises(Unmeasurable, match="another stream"):
        timers["isolated"].bracket(unjoined)
    for _ in range(5):
        timers["isolated"].bracket(long)


def test_peak_memory_is_the_output_of_a_matmul():
    from harness.sensors.memory import MemorySensor

    a, b = torch.randn(1024, 512, device="cuda"), torch.randn(512, 2048, device="cuda")
    for _ in range(2):
        a @ b
    memory = MemorySensor(torch.device("cuda")).sample(lambda: a @ b)["memory"]
    # A block that another test left is taken whole if it is no more than 1 MiB larger than what is asked for.
    assert 0 <= memory.peak_delta_bytes - 1024 * 2048 * 4 <= 2**20
    assert memory.resident_bytes is not None
    assert memory.resident_bytes >= (1024 + 2048) * 512 * 4


@pytest.fixture(scope="module")
def gpu_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("gpu")
    done = headbench(
        *("run", "--stage", "attention", "--head-dim", "64,72", "--batch", "2", "--seq-len", "256"),
        *("--plugin", PLUGINS / "hostile_cuda.py", "--replicates", 2, "--budget", "20s", "--out", out),
    )
    return done, results.read(only_run(out))


def test_every_case_has_three_modes_memory_and_nvml_figures(gpu_run):
    _, run = gpu_run
    for record in run.records():
        if record.outcome is not Outcome.OK or record.case.variant == "waits_for_the_gpu":
            continue
        assert set(record.estimates) == {"isolated", "eager", "graph"}, record.case.key
        assert record.memory.peak_delta_bytes > 0
        seen = record.utilisation
        assert seen.reason is None
        assert 0 < seen.gpu_busy_percent <= 100
        assert seen.memory_used_bytes > 0
        assert seen.power_w > 10
        assert seen.sm_clock_mhz > 100


def test_faults_of_cuda_code_stay_with_their_case(gpu_run):
    done, run = gpu_run
    found = {(record.case.variant, record.case.head_dim): record for record in run.records()}
    for head_dim in (64, 72):
        assert found["illegal_address", head_dim].outcome is Outcome.CRASHED
        assert "illegal memory access" in found["illegal_address", head_dim].reason
        assert found["asks_for_too_much", head_dim].outcome is Outcome.OUT_OF_MEMORY
        for variant in ("honest", "sdpa", "materialized", "per_head_loop", "sdpa_flash"):
            assert found[variant, head_dim].outcome is Outcome.OK, found[variant, head_dim].reason
            assert found[variant, head_dim].replicates == 2
    assert done.returncode == 1


def test_a_mode_that_cannot_time_a_case_says_why(gpu_run):
    _, run = gpu_run
    waiting = [record for record in run.records() if record.case.variant == "waits_for_the_gpu"]
    for record in waiting:
        assert record.outcome is Outcome.OK
        assert set(record.estimates) == {"eager"}
        assert "waits for the GPU" in record.mode_reasons["isolated"]
        assert "captured" in record.mode_reasons["graph"]


def test_the_manifest_names_gpu_driver_and_power_limit(gpu_run):
    _, run = gpu_run
    gpu = run.manifest.environment["gpu"]
    assert gpu["name"] == torch.cuda.get_device_name(0)
    assert gpu["uuid"].startswith("GPU-")
    assert gpu["driver"]
    assert gpu["power_limit_w"] > 0


@pytest.fixture(scope="module")
def gradients_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("gradients")
    done = headbench(
        *("run", "--stage", "qkv,attention,output,sublayer", "--direction", "forward,backward,step"),
        *("--model", "andrea-120m", "--batch", "2", "--seq-len", "256", "--replicates", 1, "--budget", "60s"),
        *("--out", out),
    )
    return done, results.read(only_run(out))


def test_every_direction_is_verified_in_all_three_modes(gradients_run):
    done, run = gradients_run
    assert done.returncode == 0, done.stdout[-2000:]
    timed = [record for record in run.records() if record.outcome is Outcome.OK]
    for record in timed:
        assert set(record.estimates) == {"isolated", "eager", "graph"}, (record.case.key, record.mode_reasons)
        assert {check.when for check in record.verifications} == {"before", "after", "in its graph"}
    backward = {record.case.variant for record in timed if record.case.direction == "backward"}
    assert {"sdpa", "sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "materialized"} <= backward
    assert {"fused_qkv", "per_head", "concat_matmul", "fused_sdpa", "nn_multihead_attention"} <= backward
    left = {r.case.variant: r.reason for r in run.records() if r.outcome is Outcome.UNSUPPORTED}
    assert left["flash_portable"] == "has no backward: our kernel is written for the forward alone"


def test_a_step_takes_about_as_long_as_its_forward_and_its_backward(gradients_run):
    """By graph: neither launches nor a cold cache; between them a step finds its inputs in the cache."""
    _, run = gradients_run
    graph_s = {
        (r.case.stage, r.case.variant, r.case.direction): r.estimates["graph"].value_s
        for r in run.records()
        if "graph" in r.estimates
    }
    for stage, variant in (("qkv", "fused_qkv"), ("attention", "sdpa_flash"), ("sublayer", "fused_sdpa")):
        forward, backward, step = (graph_s[stage, variant, d] for d in ("forward", "backward", "step"))
        assert backward > forward
        assert step == pytest.approx(forward + backward, rel=0.3), (stage, variant)


def test_every_kernel_of_a_backward_is_seen_whoever_launches_it(gradients_run):
    _, run = gradients_run
    launches = {
        (r.case.variant, r.case.direction): r.dispatch.launches
        for r in run.records()
        if r.case.stage == "qkv" and r.dispatch and r.dispatch.launches
    }
    assert launches["fused_qkv", "backward"] >= 2
    assert launches["per_head", "backward"] >= 2 * 36
    parts = launches["per_head", "forward"] + launches["per_head", "backward"]
    assert launches["per_head", "step"] == pytest.approx(parts, rel=0.05)
