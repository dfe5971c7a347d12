from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.figures import Matmul
from results.peaks import (
    burst_flops_per_s,
    implausible,
    peak_flops_per_s,
    sustained_flops_per_s,
    why_no_ceiling,
    why_no_peak,
)
from results.record import assemble
from results.schema import Ceilings
from tests.results.builders import CPU_ENVIRONMENT, GPU_ENVIRONMENT, case, manifest, timing, trial

DATASHEET = "faster than the datasheet's peak allows: does `call` do all the work?"
CPU = "faster than this CPU could: does `call` do all the work?"


def doubt(times_s, environment, flops=10**12, dtype="bf16"):
    its_trial = trial(
        case(dtype=dtype),
        timings={mode: timing(time_s) for mode, time_s in times_s.items()},
        useful_flops=flops,
    )
    plan = manifest([its_trial.case], environment=environment)
    (record,) = assemble(plan, [its_trial])
    return implausible(record, plan)


@pytest.mark.parametrize(("of_peak", "said"), [(0.6, None), (1.08, None), (1.099, None), (1.101, DATASHEET)])
def test_a_time_is_implausible_from_a_tenth_above_the_datasheets_peak(of_peak, said):
    assert doubt({"isolated": 1e12 / (of_peak * 989e12)}, GPU_ENVIRONMENT) == said


def test_a_peak_that_no_datasheet_gives_is_not_called_a_datasheets():
    peaks = {"bf16": {"flops_per_s": 989e12, "source": "derived: 132 SMs × 4096 FLOP × 1830 MHz"}}
    environment = GPU_ENVIRONMENT | {"peaks": peaks}
    assert doubt({"isolated": 1e12 / (1.099 * 989e12)}, environment) is None
    said = doubt({"isolated": 1e12 / (1.101 * 989e12)}, environment)
    assert said == "faster than this GPU's architecture allows: does `call` do all the work?"


@pytest.mark.parametrize("mode", ["isolated", "eager", "graph"])
def test_one_mode_that_is_too_fast_is_enough(mode):
    assert doubt({"isolated": 1.0, "eager": 1.0, "graph": 1.0} | {mode: 1e-4}, GPU_ENVIRONMENT) == DATASHEET


def test_a_case_is_held_against_the_peak_of_its_own_dtype():
    assert doubt({"isolated": 2e-3}, GPU_ENVIRONMENT, dtype="bf16") is None
    assert doubt({"isolated": 2e-3}, GPU_ENVIRONMENT, dtype="fp32") == DATASHEET


def test_a_cpu_is_held_against_two_wide_units_in_each_of_its_cores():
    limit = 1.1 * 2 * 4.5e9 * 64  # the builder's CPU has two cores
    assert doubt({"eager": 1e12 / (0.99 * limit)}, CPU_ENVIRONMENT, dtype="fp32") is None
    assert doubt({"eager": 1e12 / (1.01 * limit)}, CPU_ENVIRONMENT, dtype="fp32") == CPU


def test_a_cpus_matrix_unit_may_be_as_fast_as_it_is():
    amx = 2 * 3.0e9 * 2048
    assert doubt({"eager": 1e12 / amx}, CPU_ENVIRONMENT) is None
    assert doubt({"eager": 1e12 / (2 * amx)}, CPU_ENVIRONMENT) == CPU


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"device": "cuda:0", "peaks": {}, "cpu": {"cores": 2}},
        {"device": "cpu"},
        {"device": "cpu", "cpu": {"cores": None}},
        {"device": "cpu", "cpu": {"cores": 0}},
        {"device": "cpu", "cpu": {"cores": 10**400}},
        {"device": "cuda:0", "peaks": {"bf16": {"flops_per_s": 10**400}}},
    ],
)
def test_where_no_limit_is_known_everything_is_plausible(environment):
    assert doubt({"eager": 1e-9}, environment) is None


def test_without_useful_work_or_times_there_is_nothing_to_doubt():
    assert doubt({"isolated": 1e-9}, GPU_ENVIRONMENT, flops=0) is None
    assert doubt({}, GPU_ENVIRONMENT) is None


@given(st.floats(1e-9, 1e3), st.floats(1.0, 1e3))
def test_a_slower_time_is_never_the_less_plausible_one(time_s, factor):
    if doubt({"isolated": time_s}, GPU_ENVIRONMENT) is None:
        assert doubt({"isolated": time_s * factor}, GPU_ENVIRONMENT) is None


def test_a_peak_that_is_not_known_says_why():
    lost = replace(manifest(), environment={"peaks": {"bf16": {"reason": "no datasheet of this GPU"}}})
    assert (peak_flops_per_s(lost, "bf16"), why_no_peak(lost, "bf16")) == (None, "no datasheet of this GPU")
    assert why_no_peak(lost, "fp32") == "no fp32 peak is known for this device"


def test_a_ceiling_is_its_dtypes_or_says_why_there_is_none():
    measured = Ceilings(
        {"bf16": Matmul(8192, 792e12, 1980.0, 692e12, 1440.0), "fp16": Matmul(8192, reason="lost")}
    )
    assert burst_flops_per_s(measured, "bf16") == 792e12
    assert sustained_flops_per_s(measured, "bf16") == 692e12
    assert burst_flops_per_s(measured, "fp16") is sustained_flops_per_s(None, "bf16") is None
    assert why_no_ceiling(measured, "fp16") == "lost"
    assert why_no_ceiling(measured, "fp32") == "no fp32 matmul was measured"
    assert why_no_ceiling(replace(measured, reason="no GPU"), "fp32") == "no GPU"
    assert why_no_ceiling(None, "bf16") == "this run measured no ceilings of its GPU"
