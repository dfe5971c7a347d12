"""From what Nsight Compute wrote on an H200 to counters: the right values, and a reason for whatever is not there."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.peaks import PEAKS, peaks_of
from harness.sensors.ncu import NcuUnavailable
from harness.sensors.ncu_counters import counters
from harness.sensors.ncu_csv import Launch, launches
from harness.sensors.ncu_metrics import CHIPS, DURATION, ELAPSED, chip_of, flop_per_clock
from tests.harness import recorded_counters as recorded
from tests.harness.recorded_counters import FLOP_PER_CLOCK, HOPPER, counted

BF16 = HOPPER.operations[0].metric


@pytest.fixture(scope="module")
def table():
    return recorded.text()


def useful(head_dim: int, pairs: int = 1024 * 1024) -> int:
    """FLOP of attention at batch 32, 12 heads, seq_len 1024: two matmuls of a multiply and an add each."""
    return 4 * 32 * 12 * head_dim * pairs


@pytest.mark.parametrize(
    ("name", "head_dim", "issued_over_useful", "active", "rate"),
    [
        ("fa2-32-full", 32, 1, 30, 2 / 3),
        ("fa2-64-full", 64, 1, 44, 2 / 3),
        ("fa2-72-full", 72, 96 / 72, 45, 2 / 3),
        ("cudnn-32-full", 32, 2, 46, 1),
        ("cudnn-64-full", 64, 1, 46, 1),
        ("cudnn-72-full", 72, 128 / 72, 66, 1),
        ("eff-64-full", 64, 1, 26, 1 / 2),
    ],
)
def test_attention_issues_what_its_tile_is_wide_and_the_pipe_is_as_busy_as_the_hardware_says(
    table, name, head_dim, issued_over_useful, active, rate
):
    found = counted(name, table)
    assert found.issued_flops == round(useful(head_dim) * issued_over_useful)
    assert found.tensor_active_percent == pytest.approx(active, abs=0.5)
    assert found.rate_while_active == pytest.approx(rate, rel=1e-6)
    assert found.missing == {}


def test_causal_attention_also_executes_the_masked_halves_of_diagonal_tiles(table):
    pairs = 1024 * 1025 // 2
    assert counted("cudnn-64-causal", table).issued_flops / useful(64, pairs) == pytest.approx(
        1.124, abs=5e-4
    )


@pytest.mark.parametrize(
    ("columns", "issued_over_useful", "active"), [(32, 1, 10), (64, 1, 20), (72, 96 / 72, 26), (768, 1, 74)]
)
def test_a_narrow_projection_leaves_the_pipe_idle_and_one_of_72_columns_runs_96(
    table, columns, issued_over_useful, active
):
    found = counted(f"proj-{columns}", table)
    assert found.issued_flops == 2 * 32768 * 768 * columns * issued_over_useful
    assert found.tensor_active_percent == pytest.approx(active, abs=0.5)
    assert found.rate_while_active == 1


@pytest.mark.parametrize("name", ["sq-bfloat16", "sq-float16", "sq-tf32"])
def test_a_matmul_of_every_tensor_format_runs_at_that_formats_full_rate(table, name):
    found = counted(name, table)
    assert found.issued_flops == 2 * 4096**3
    assert found.rate_while_active == 1


def test_a_matmul_on_the_vector_units_issues_nothing_and_has_no_rate_with_a_reason(table):
    found = counted("sq-float32", table)
    assert (found.issued_flops, found.tensor_active_percent) == (0, 0)
    assert found.rate_while_active is None
    assert found.missing == {"rate_while_active": "no tensor instruction of a format that is counted ran"}


def test_an_8192_matmul_keeps_the_pipe_busy_nine_tenths_of_the_time():
    found = counted("sq8192", recorded.text("matmul"))
    assert found.tensor_active_percent == 93.19
    assert 1 < found.issued_flops / (2 * 8192**3) < 1.02
    (kernel,) = found.kernels
    assert kernel.name == "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"
    assert (kernel.launches, kernel.registers, kernel.waves) == (1, 168, 1.0)
    assert kernel.duration_s == pytest.approx(1.407616e-3)


def test_36_launches_of_one_kernel_are_one_kernel_of_the_call_whose_counts_add_up(table):
    found, once = counted("36x-proj-64", table), counted("proj-64", table)
    (kernel,) = found.kernels
    assert (kernel.launches, kernel.issued_flops) == (36, 36 * once.issued_flops)
    assert found.issued_flops == kernel.issued_flops
    assert found.tensor_active_percent == kernel.tensor_active_percent == pytest.approx(20, abs=0.5)


def test_the_scope_and_the_source_are_told(table):
    found = counted("proj-64", table)
    assert (found.source, found.scope, found.reason) == (
        "Nsight Compute 2025.3.1",
        "this process, kernel by kernel",
        None,
    )
    assert found.sm_active_percent == 82.44
    assert found.occupancy_percent == 13.47
    assert found.dram_percent == 66.20


def together(table: str, *names: str) -> list[Launch]:
    """The launches of several recorded cases, as if one call had made them."""
    of_case, numbers = launches(table), recorded.numbers(table)
    return [launch for name in names for launch in of_case[numbers[name]]]


def test_percentages_are_weighted_by_the_kernels_durations(table):
    found = counters(together(table, "fa2-64-full", "proj-32"), HOPPER, FLOP_PER_CLOCK, "")
    long_s, short_s = 366_688, 16_544
    weighted = (44.30 * long_s + 10.00 * short_s) / (long_s + short_s)
    assert found.tensor_active_percent == pytest.approx(weighted)
    assert [kernel.tensor_active_percent for kernel in found.kernels] == [44.30, 10.00]


def test_formats_of_different_rates_are_each_held_against_their_own_peak(table):
    found = counters(together(table, "sq-bfloat16", "sq-tf32"), HOPPER, FLOP_PER_CLOCK, "")
    assert found.rate_while_active == 1
    assert found.issued_flops == 2 * 2 * 4096**3


def test_a_vector_kernel_in_the_call_lowers_what_is_active_and_not_the_rate_while_active(table):
    alone = counted("sq-bfloat16", table)
    found = counters(together(table, "sq-bfloat16", "sq-float32"), HOPPER, FLOP_PER_CLOCK, "")
    assert found.tensor_active_percent < alone.tensor_active_percent / 10
    # Its few busy cycles, of half-precision additions, are in the denominator.
    assert found.rate_while_active == pytest.approx(alone.rate_while_active, rel=1e-3)


def a_launch(**changes: str) -> Launch:
    """A launch of Hopper whose pipe was busy at full rate for a quarter of the cycles, with these cells changed."""
    cells = dict.fromkeys(HOPPER.metrics, "50.00") | {
        DURATION: "1,000",
        ELAPSED: "1,000,000",
        HOPPER.active_percent: "25.00",
        HOPPER.active_cycles: "1,000,000",
        **{each.metric: "0" for each in HOPPER.operations},
        BF16: f"{1_024_000_000:,}",
    }
    units = {metric: "%" if ".pct_" in metric else "ns" if metric == DURATION else "" for metric in cells}
    return Launch("kernel", cells | changes, units)


def of(*some: Launch, rates=FLOP_PER_CLOCK):
    return counters(some, HOPPER, rates, "Nsight Compute")


@given(st.lists(st.floats(0.1, 100).map(lambda percent: round(percent, 2)), min_size=1, max_size=5))
def test_an_average_lies_between_the_least_and_the_largest(percentages):
    found = of(*(a_launch(**{HOPPER.active_percent: f"{percent:.2f}"}) for percent in percentages))
    assert min(percentages) <= found.tensor_active_percent + 1e-9
    assert found.tensor_active_percent - 1e-9 <= max(percentages)


@given(st.sampled_from([1, 2, 4]), st.floats(1, 100), st.floats(0.05, 1), st.integers(10**5, 10**9))
def test_the_rate_is_found_whether_a_chip_counts_one_pipe_an_sm_or_four(pipes, percent, rate, elapsed):
    percent = round(percent, 2)
    busy = elapsed * percent / 100
    launch = a_launch(
        **{
            ELAPSED: f"{elapsed:,}",
            HOPPER.active_percent: f"{percent:.2f}",
            HOPPER.active_cycles: f"{busy * pipes:,.3f}",
            BF16: f"{rate * busy * 4096:,.3f}",
        }
    )
    assert of(launch).rate_while_active == pytest.approx(rate, rel=1e-3)


def without(launch: Launch, *metrics: str) -> Launch:
    return dataclasses.replace(launch, cells={k: v for k, v in launch.cells.items() if k not in metrics})


def test_a_counter_that_the_tool_does_not_know_is_a_reason_for_what_needs_it_and_for_nothing_else():
    found = of(without(a_launch(), BF16))
    assert found.tensor_active_percent == 25
    assert (found.issued_flops, found.rate_while_active) == (None, None)
    why = f"{BF16} was not counted: this Nsight Compute does not know it on this GPU"
    assert found.missing == {"issued_flops": why, "rate_while_active": why}


def test_without_any_counter_there_is_one_reason_and_no_figure():
    found = of(without(a_launch(), *HOPPER.metrics))
    assert (
        found.reason
        == f"{HOPPER.active_percent} was not counted: this Nsight Compute does not know it on this GPU"
    )
    assert (found.tensor_active_percent, found.kernels) == (None, ())


@pytest.mark.parametrize("cell", ["n/a", "nan", "", "inf", "1e999", "-5", "25,00", "1.234,5"])
def test_what_is_no_count_in_english_notation_is_no_figure(cell):
    found = of(a_launch(**{HOPPER.active_percent: cell}))
    assert found.tensor_active_percent is None
    assert repr(cell) in found.missing["tensor_active_percent"]


def test_a_duration_in_another_unit_is_not_taken_for_nanoseconds():
    launch = a_launch()
    found = of(dataclasses.replace(launch, units={**launch.units, DURATION: "us"}))
    assert found.kernels[0].duration_s is None


def test_a_busy_pipe_without_a_counted_format_is_not_called_idle():
    found = of(a_launch(**{BF16: "0"}))
    assert found.issued_flops is None
    assert found.missing["issued_flops"] == "the tensor pipe was busy with formats that are not counted here"


def test_a_pipe_that_was_hardly_busy_has_no_rate():
    found = of(a_launch(**{HOPPER.active_percent: "0.04"}))
    assert found.missing == {
        "rate_while_active": "the tensor pipe was busy for less than 0.1 % of the cycles"
    }


@pytest.mark.parametrize("metric", [ELAPSED, HOPPER.active_cycles])
def test_counts_that_contradict_each_other_give_no_rate_and_all_else(metric):
    found = of(a_launch(**{metric: "0"}))
    assert "the counts contradict each other: 25 % of" in found.missing.pop("rate_while_active")
    assert (found.missing, found.tensor_active_percent) == ({}, 25)


def test_without_a_peak_there_is_no_rate_but_everything_else():
    found = of(a_launch(), rates={})
    assert found.missing == {"rate_while_active": f"the peak that holds for {BF16} is not known for this GPU"}
    assert found.issued_flops == 1_024_000_000


@pytest.mark.parametrize(
    ("name", "sms", "flop"),
    [
        ("H200", 132, 4096),
        ("H100 PCIe", 114, 4096),
        ("A100", 108, 2048),
        ("L40S", 142, 1024),
        ("RTX 4090", 128, 512),
    ],
)
def test_a_datasheets_rounded_peak_is_a_power_of_two_a_clock(name, sms, flop):
    rates = flop_per_clock({"sm_count": sms}, peaks_of(f"NVIDIA {name}"))
    assert (rates["bf16"], rates["fp16"], rates["tf32"]) == (flop, flop, flop // 2)
    assert "memory" not in rates
    assert name in [peak.name for peak in PEAKS]


def test_a_gpu_whose_peak_is_not_known_has_no_rates():
    assert flop_per_clock({"sm_count": 10}, {}) == {}


def test_each_architecture_has_its_own_names_and_one_that_is_not_known_is_told_with_those_that_are():
    assert chip_of({"capability": [8, 9]}).active_percent == (
        "sm__pipe_tensor_cycles_active_v2.avg.pct_of_peak_sustained_elapsed"
    )
    assert chip_of({"capability": [9, 0]}) is CHIPS[9, 0]
    with pytest.raises(
        NcuUnavailable, match=r"compute capability 7\.5 are not known here, only those of 8\.0, "
    ):
        chip_of({"capability": [7, 5]})


def test_no_metric_is_asked_for_twice():
    for chip in CHIPS.values():
        assert len(set(chip.metrics)) == len(chip.metrics)
