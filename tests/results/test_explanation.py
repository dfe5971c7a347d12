"""An eager call's bars: they add up whatever is missing, and are right where the figures are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
from results.explanation import GAPS, IDLE, LAUNCH, PADDING, REST, USEFUL, explain
from results.figures import CountedKernel, Counters, Dispatch, Gpm
from results.run import Run
from results.schema import Observation
from tests.results import builders

CASE = builders.case("fused")
PEAK = 989e12  # at 1830 MHz, which is what builders' clocks read
COUNTERS = Counters(
    issued_flops=PEAK * 30e-6,
    sm_active_percent=90.0,
    rate_while_active=0.5,
    dram_percent=12.0,
    kernels=(CountedKernel("gemm", 1, 1e-5, waves=1.25), CountedKernel("small", 1, 1e-6, waves=0.5)),
)


def standing(
    tmp_path, *, busy_s=80e-6, counters=COUNTERS, gpm=None, useful_flops=int(PEAK * 20e-6), modes=None
):
    """Eager 200 µs, graph 90 µs, 20 µs of useful work at the peak."""
    times = {"isolated": 100e-6, "eager": 200e-6, "graph": 90e-6}
    timings = {mode: builders.timing(times[mode]) for mode in modes or times}
    trials = [builders.trial(CASE, n, timings=timings, useful_flops=useful_flops) for n in range(3)]
    dispatch = Dispatch(1, busy_s) if busy_s else None
    seen = [Observation(CASE, dispatch=dispatch, counters=counters, gpm=gpm)]
    (found,) = Run(tmp_path, builders.manifest([CASE]), trials, seen).standings()
    return found


def bars(found) -> dict[str, float]:
    return {bar.name: bar.seconds * 1e6 for bar in explain(found).bars}


def test_every_part_is_what_its_figures_say(tmp_path) -> None:
    expected = {LAUNCH: 110, GAPS: 10, IDLE: 8, PADDING: 10, USEFUL: 20, REST: 42}
    assert bars(standing(tmp_path)) == pytest.approx(expected, rel=1e-6)


def test_what_stands_beside_the_sum(tmp_path) -> None:
    of = explain(standing(tmp_path))
    assert (of.clock_mhz, of.rate_while_active, of.dram_percent) == (1830, 0.5, 12.0)
    assert of.last_wave == 0.75, "1.25 waves leave three quarters of the second empty"
    assert of.memory_floor_s is not None


def test_work_on_vector_units_is_held_against_no_tensor_peak(tmp_path) -> None:
    of = explain(standing(tmp_path, counters=Counters(issued_flops=0.0, sm_active_percent=100.0)))
    assert [bar.name for bar in of.bars] == [LAUNCH, GAPS, IDLE, REST]
    assert "vector units" in str(of.bars[-1].reason)


def test_float32_is_held_against_the_peak_of_vector_units(tmp_path) -> None:
    found = standing(tmp_path, counters=Counters(issued_flops=0.0, sm_active_percent=100.0))
    case = replace(found.record.case, dtype="fp32")
    peaks = {"fp32": {"flops_per_s": PEAK / 10, "clock_mhz": 1830}}
    manifest = replace(found.manifest, environment={**found.manifest.environment, "peaks": peaks})
    of = explain(
        replace(
            found, record=replace(found.record, case=case, useful_flops=int(PEAK * 2e-6)), manifest=manifest
        )
    )
    assert {bar.name: bar.seconds for bar in of.bars}[USEFUL] == pytest.approx(20e-6)
    assert "what vector units executed is not counted" in str(of.bars[-1].reason)


def test_without_a_graph_time_the_windows_share_of_sms_is_told_to_be_of_gaps_too(tmp_path) -> None:
    found = standing(tmp_path, counters=None, gpm=Gpm(sm_active_percent=50.0), modes=("isolated", "eager"))
    assert "without a graph time" in str(explain(found).bars[-1].reason)
    assert "no reason" not in str(explain(found).bars[-1].reason)


def test_parts_that_exceed_the_kernels_are_not_split(tmp_path) -> None:
    of = explain(standing(tmp_path, useful_flops=int(PEAK * 100e-6), counters=None))
    assert [bar.name for bar in of.bars] == [LAUNCH, GAPS, "kernels"]
    assert "exceed the kernels by" in str(of.bars[-1].reason)


def test_the_windows_share_is_of_gaps_too(tmp_path) -> None:
    """In 90 µs of replays whose kernels take 45, SMs that are active for half the time are active in all kernels."""
    found = standing(tmp_path, busy_s=45e-6, counters=None, gpm=Gpm(sm_active_percent=50.0))
    assert bars(found)[IDLE] == pytest.approx(0, abs=1e-6)


def test_kernels_longer_than_their_replay_leave_a_negative_gap(tmp_path) -> None:
    assert bars(standing(tmp_path, busy_s=95e-6))[GAPS] == pytest.approx(-5, rel=1e-6)


def test_a_missing_pass_leaves_one_bar_with_the_reason(tmp_path) -> None:
    of = explain(standing(tmp_path, busy_s=None, modes=("eager",)))
    assert [(bar.name, bar.seconds) for bar in of.bars] == [
        ("launches, gaps and kernels", pytest.approx(200e-6))
    ]
    assert of.bars[0].reason
    assert explain(standing(tmp_path, modes=("graph",))).bars == ()


@given(
    busy_us=st.none() | st.floats(1, 300),
    active=st.none() | st.floats(0, 100),
    issued_us=st.none() | st.floats(0, 300),
    useful_us=st.floats(0, 300),
    has_graph=st.booleans(),
)
def test_bars_add_up_to_the_eager_call(
    tmp_path_factory, busy_us, active, issued_us, useful_us, has_graph
) -> None:
    counters = Counters(
        issued_flops=None if issued_us is None else PEAK * issued_us * 1e-6, sm_active_percent=active
    )
    found = standing(
        tmp_path_factory.getbasetemp(),
        busy_s=busy_us and busy_us * 1e-6,
        counters=counters,
        useful_flops=int(PEAK * useful_us * 1e-6),
        modes=("eager", "graph") if has_graph else ("eager",),
    )
    of = explain(found)
    assert sum(bar.seconds for bar in of.bars) == pytest.approx(of.eager_s)
    assert all(bar.seconds >= 0 for bar in of.bars if bar.name in (IDLE, PADDING, USEFUL, REST, "kernels"))


def test_the_recorded_run_shows_the_padding_of_72() -> None:
    padding = {
        (one.variant, one.record.case.head_dim): {bar.name: bar.seconds for bar in explain(one).bars}
        for one in results.read("nvidia-h200/head_dim").standings()
        if one.record.case.stage == "attention"
    }
    assert padding["sdpa", 64][PADDING] == 0
    assert padding["sdpa", 72][PADDING] == pytest.approx(7 / 9 * padding["sdpa", 72][USEFUL])


@pytest.mark.parametrize("name", ["default", "head_dim", "kernels_1024"])
def test_recorded_bars_add_up_and_only_differences_of_two_measurements_are_negative(name: str) -> None:
    found = [explain(one) for one in results.read(f"nvidia-h200/{name}").standings()]
    assert sum(bool(of.bars) for of in found) > 20
    for of in found:
        assert sum(bar.seconds for bar in of.bars) == pytest.approx(of.eager_s or 0)
        assert all(bar.seconds >= 0 or bar.name in (LAUNCH, GAPS) for bar in of.bars)
