import math
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from results.figures import Dispatch, Kernel
from results.frame import RECORD_COLUMNS, SAMPLE_COLUMNS, samples_frame
from results.record import assemble
from results.run import Run
from results.schema import Outcome, Timing
from tests.results import h200
from tests.results.builders import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    case,
    cpu_trial,
    manifest,
    timing,
    trial,
    trials,
    utilisation,
    verification,
)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def frame_of(plan, its_trials):
    return Run(Path("run"), plan, its_trials).frame()


def row_of(its_trial, plan=None):
    return frame_of(plan or manifest([its_trial.case]), [its_trial]).iloc[0]


def test_a_row_states_the_case():
    row = row_of(trial(case("fused", batch=2, seq_len=7, causal=False, dtype="fp16")))
    shape = ["qkv", "fused", "forward", 2, 7, 768, 12, 64, False, "fp16"]
    names = [
        "stage",
        "variant",
        "direction",
        "batch",
        "seq_len",
        "d_model",
        "n_head",
        "head_dim",
        "causal",
        "dtype",
    ]
    assert row[names].tolist() == shape


def test_rates_are_work_over_the_headline_time():
    row = row_of(trial(median_s=1e-4, useful_flops=10**9, least_bytes=10**6))
    assert (row["mode"], row["time_s"]) == ("isolated", pytest.approx(1e-4))
    assert row["flops_per_s"] == pytest.approx(1e13)
    assert row["bytes_per_s"] == pytest.approx(1e10)
    assert row["peak_fraction"] == pytest.approx(1e13 / 989e12)


def test_each_mode_has_its_time_and_interval():
    plan = manifest([case()])
    row = frame_of(plan, trials(plan)).iloc[0]
    for mode, factor in (("isolated", 1), ("eager", 2), ("graph", 0.9)):
        assert row[f"{mode}_s"] == pytest.approx(factor * 1.005e-4)
        assert row[f"{mode}_low_s"] < row[f"{mode}_s"] < row[f"{mode}_high_s"]


def test_one_replicate_has_a_time_and_no_interval():
    row = row_of(trial())
    assert row["isolated_s"] == pytest.approx(1e-4)
    assert math.isnan(row["isolated_low_s"])
    assert math.isnan(row["isolated_high_s"])


def test_speedup_is_against_the_stages_baseline_in_the_same_group():
    small, large = {"batch": 1}, {"batch": 32}
    cases = [case(name, **size) for size in (small, large) for name in ("fused", "per_head")]
    medians = [1e-4, 3e-4, 2e-3, 8e-3]
    plan = manifest(cases)
    frame = frame_of(plan, [trial(one, median_s=s) for one, s in zip(cases, medians, strict=True)])
    assert frame["speedup"].tolist() == pytest.approx([3.0, 1.0, 4.0, 1.0])


def test_a_case_without_its_groups_mode_has_no_time_in_it_and_keeps_those_it_has():
    only_eager = trial(case("fused"), timings={"eager": timing(1e-4)})
    plan = manifest([case("fused"), case("per_head")])
    row = frame_of(plan, [only_eager, trial(case("per_head"))]).iloc[0]
    assert row[["mode", "time_s", "flops_per_s", "peak_fraction", "speedup", "precision"]].isna().all()
    assert row["eager_s"] == pytest.approx(1e-4)
    assert row["samples"] == 0


def test_how_the_headline_mode_was_sampled_stands_beside_its_time():
    timings = {
        "isolated": timing(precision=0.03, stopped="share spent", floor_s=1.2e-6),
        "eager": timing(precision=0.5, stopped="limit"),
    }
    row = row_of(trial(timings=timings))
    assert row[["precision", "stopped", "floor_s"]].tolist() == [0.03, "share spent", 1.2e-6]


def test_a_time_too_fast_to_be_true_is_marked():
    frame = frame_of(
        manifest([case("fused"), case("per_head")]),
        [trial(case("fused"), median_s=1e-9), trial(case("per_head"))],
    )
    assert frame["implausible"].tolist() == [True, False]


@pytest.mark.parametrize(
    "baseline", [None, trial(case("per_head"), outcome=Outcome.CRASHED), trial(case("per_head"), timings={})]
)
def test_without_the_baselines_time_there_is_no_speedup(baseline):
    plan = manifest([case("fused"), case("per_head")])
    frame = frame_of(plan, [trial(case("fused")), *([baseline] if baseline else [])])
    assert frame["speedup"].isna().all()


def test_how_a_case_uses_the_tensor_cores_stands_beside_its_rate():
    row = h200.run().frame().set_index(["variant", "head_dim"]).loc["sdpa_cudnn", 72]
    derived = ["tensor_active_percent", "tensor_active_source", "issued_flops", "issued_ratio"]
    assert row[derived].tolist() == [66.0, "ncu", 206_158_430_208, pytest.approx(128 / 72)]
    assert row["rate_while_active"] == pytest.approx(1.0)
    assert row["burst_fraction"] == pytest.approx(row["flops_per_s"] / 792e12)
    assert row["sustained_fraction"] == pytest.approx(0.9 * 349e12 / 692e12)


def test_both_sources_of_shares_keep_their_own_columns():
    row = h200.run([("sdpa_cudnn", 72)]).frame().iloc[0]
    assert (row["gpm_tensor_active_percent"], row["ncu_tensor_active_percent"]) == (65.5, 66.0)
    assert row[["gpm_sm_active_percent", "gpm_occupancy_percent", "gpm_dram_percent"]].tolist() == [97, 14, 8]
    assert row[["ncu_sm_active_percent", "ncu_occupancy_percent", "ncu_dram_percent"]].tolist() == [
        96.97,
        14.09,
        13.65,
    ]


def test_the_window_tells_energy_and_company_and_dispatch_the_kernels_by_name():
    row = h200.run([("sdpa_cudnn", 72)]).frame().iloc[0]
    assert row[["average_power_w", "other_processes"]].tolist() == [pytest.approx(600.0), 0]
    assert row["energy_per_call_j"] * row["flop_per_j"] == pytest.approx(h200.useful_flops(h200.case()))
    assert row["kernels"].startswith(
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"
    )
    kernels = (Kernel("short", 2.0, 1e-6), Kernel("long", 1.0, 3e-6), Kernel("short", 1.0, 1e-9))
    many = h200.run([("sdpa_cudnn", 72)], lambda seen: replace(seen, dispatch=Dispatch(kernels=kernels)))
    assert many.frame().iloc[0]["kernels"] == "long; short"


def test_what_no_sensor_told_is_missing_never_zero():
    row = row_of(trial())
    names = [name for name in RECORD_COLUMNS if name.startswith(("gpm_", "ncu_", "tensor_", "issued_"))]
    names += ["rate_while_active", "burst_fraction", "sustained_fraction", "energy_per_call_j", "kernels"]
    assert row[names].isna().all()


@pytest.mark.parametrize(
    "environment",
    [
        CPU_ENVIRONMENT,
        {},
        {"peaks": None},
        {"peaks": {"bf16": 7}},
        {"peaks": {"bf16": {"flops_per_s": "fast"}}},
        {"peaks": {"bf16": {"flops_per_s": 0}}},
        {"peaks": {"bf16": {"flops_per_s": -1.0}}},
    ],
)
def test_without_a_usable_peak_there_is_no_fraction_of_it(environment):
    assert math.isnan(row_of(trial(), manifest([case()], environment=environment))["peak_fraction"])


def test_the_peak_is_that_of_the_cases_dtype():
    row = row_of(trial(case(dtype="fp32"), median_s=1e-3, useful_flops=10**9))
    assert row["peak_fraction"] == pytest.approx(1e12 / GPU_ENVIRONMENT["peaks"]["fp32"]["flops_per_s"])


def test_memory_utilisation_and_errors_stand_in_their_columns():
    checks = (verification(), verification(when="after", relative_error=4e-3, worst_row_error=1e-3))
    row = row_of(trial(utilisation=utilisation(power_w=321.0), verifications=checks))
    names = [
        "peak_delta_bytes",
        "resident_bytes",
        "reserved_bytes",
        "gpu_busy_percent",
        "memory_used_bytes",
        "power_w",
    ]
    assert row[names].tolist() == [6 << 20, 8 << 20, 32 << 20, 97.0, 2 << 30, 321.0]
    assert (row["nvml_sm_clock_mhz"], row["sm_clock_mhz"]) == (1815.0, 1830.0)
    assert (row["relative_error"], row["worst_row_error"]) == (4e-3, 5e-3)
    assert (row["replicates"], row["samples"], row["flags"]) == (1, 9, "")


def test_a_failed_case_has_its_reason_and_no_number():
    row = row_of(trial(outcome=Outcome.OUT_OF_MEMORY, reason="needs 90 GB"))
    assert (row["outcome"], row["reason"], row["samples"]) == ("out_of_memory", "needs 90 GB", 0)
    assert row[["time_s", "flops_per_s", "speedup", "peak_delta_bytes", "power_w"]].isna().all()
    assert pd.isna(row["mode"])


def test_a_cpu_run_has_its_times_and_no_gpu_figures():
    row = row_of(cpu_trial(case(dtype="fp32")), manifest([case(dtype="fp32")], environment=CPU_ENVIRONMENT))
    assert (row["mode"], row["time_s"]) == ("eager", pytest.approx(1e-3))
    assert row[["isolated_s", "graph_s", "gpu_busy_percent", "sm_clock_mhz", "peak_fraction"]].isna().all()


@pytest.mark.parametrize("cases", [[], [case()]])
def test_a_run_without_trials_has_all_the_columns_with_their_types(cases):
    plan = manifest([case()])
    frame = frame_of(plan if cases else replace(plan, cases=()), [])
    assert len(frame) == len(cases)
    full = frame_of(plan, [trial(case())])
    assert list(frame.columns) == list(RECORD_COLUMNS)
    assert frame.dtypes.equals(full.dtypes)


def test_samples_keep_their_order_their_warm_ups_their_flags_and_their_blocks_clock():
    marked = Timing(
        span_s=(9.0, 1.0, 3.0, 2.0),
        warmup_samples=1,
        calls_per_sample=4,
        flags={"throttled": [2, 3], "outlier": [3, 99]},
        block_samples=(2, 2),
        sm_clock_mhz=(1980.0, None),
    )
    plan = manifest([case()])
    its_trials = [trial(replicate=2, timings={"graph": marked})]
    frame = samples_frame(assemble(plan, its_trials), its_trials)
    assert list(frame.columns) == list(SAMPLE_COLUMNS)
    assert frame["span_s"].tolist() == [9.0, 1.0, 3.0, 2.0]
    assert frame["index"].tolist() == [0, 1, 2, 3]
    assert frame["warmup"].tolist() == [True, False, False, False]
    assert frame["flags"].tolist() == ["", "", "throttled", "throttled, outlier"]
    assert frame["sm_clock_mhz"].fillna(-1).tolist() == [1980.0, 1980.0, -1, -1]
    assert (frame[["replicate", "mode", "calls_per_sample", "outcome"]] == [2, "graph", 4, "ok"]).all(
        axis=None
    )


@pytest.mark.parametrize("lengths", [(), (1,), (100,), (2**62,), (-3, 2)])
def test_blocks_that_do_not_add_up_leave_clocks_unknown_not_samples_out(lengths):
    odd = Timing(span_s=(1.0, 2.0, 3.0), block_samples=lengths, sm_clock_mhz=(1000.0,) * len(lengths))
    plan, its_trials = manifest([case()]), [trial(timings={"eager": odd})]
    assert samples_frame(assemble(plan, its_trials), its_trials)["span_s"].tolist() == [1.0, 2.0, 3.0]


def test_samples_of_a_case_found_incorrect_are_kept_and_marked():
    plan, its_trials = manifest([case()]), [trial(), trial(replicate=1, outcome=Outcome.INCORRECT)]
    frame = samples_frame(assemble(plan, its_trials), its_trials)
    assert len(frame) == 30
    assert set(frame["outcome"]) == {"incorrect"}


def test_no_samples_still_have_all_the_columns_with_their_types():
    plan, its_trials = manifest([case()]), [trial()]
    empty = samples_frame([], [])
    assert empty.dtypes.equals(samples_frame(assemble(plan, its_trials), its_trials).dtypes)
