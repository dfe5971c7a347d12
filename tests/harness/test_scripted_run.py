"""A whole group on a scripted GPU: verified on the CPU, timed by the real timers, to the nanosecond."""

from __future__ import annotations

import pytest

from results.decomposition import decompose

from .scripted_machine import LAUNCH_NS, SECOND, ScriptedMachine


def test_a_constant_kernel_gives_its_times_in_all_modes_and_nothing_else():
    machine = ScriptedMachine()
    machine.scripted("steady", (40_000, 55_000))
    found = machine.measure(seconds=1.0)["steady"].record
    times = {mode: known.value_s for mode, known in found.estimates.items()}
    assert times["isolated"] == pytest.approx(55e-6, abs=1e-10)
    assert times["graph"] == pytest.approx(40e-6, abs=1e-10)
    calls = machine.trials[0].timings["eager"].calls_per_sample
    assert times["eager"] == pytest.approx(40e-6 + LAUNCH_NS * 1e-9 / calls, abs=1e-10)
    assert {one.stopped for one in found.sampling.values()} == {"precise", "fixed number"}
    assert found.sampling["isolated"].precision == 0.0
    assert found.flags == ()


def test_launch_overhead_is_what_a_graph_saves_and_nothing_where_kernels_hide_it():
    machine = ScriptedMachine()
    machine.scripted("per_head", *[(1_000, 1_000)] * 36)
    machine.scripted("fused", (36_000, 36_000))
    found = machine.measure(seconds=1.0)
    per_head, fused = (decompose(found[name].record) for name in ("per_head", "fused"))
    assert per_head.graph_s == pytest.approx(fused.graph_s, rel=1e-6)
    assert per_head.launch_overhead_s == pytest.approx(36 * 5e-6 - 36e-6, rel=0.01)
    assert fused.launch_overhead_s == pytest.approx(0, abs=0.2e-6)
    assert found["fused"].time.value_s == pytest.approx(found["per_head"].time.value_s)


def test_a_bimodal_kernel_is_as_uncertain_as_its_two_modes_are_apart():
    machine = ScriptedMachine()
    turn = iter(range(10**6))
    machine.scripted("bimodal", lambda: (100_000, 100_000) if next(turn) % 2 else (106_000, 106_000))
    found = machine.measure(seconds=1.0)["bimodal"].record
    assert 100e-6 <= found.estimates["isolated"].value_s <= 106e-6
    assert found.sampling["isolated"].precision == pytest.approx(0.03, abs=0.002)
    assert found.sampling["isolated"].stopped != "precise"


def test_a_drifting_kernel_is_never_called_precise():
    machine = ScriptedMachine()
    # Half as long again after half a second.
    machine.scripted("drifting", lambda: (int(100_000 * (1 + machine.clock.now / SECOND)),) * 2)
    found = machine.measure(seconds=0.5)["drifting"].record
    assert found.sampling["isolated"].stopped != "precise"
    assert found.sampling["isolated"].precision > 0.005


def test_a_gpu_that_throttles_half_way_flags_the_slow_samples_and_keeps_them_all():
    # From 20 ms on the clock is lowered by a fifth, for good.
    machine = ScriptedMachine(
        sm_clock=lambda ns: 2000.0 if ns < 20e6 else 1600.0, clock_event_reasons=0x4, instant_power_mw=695_000
    )
    machine.scripted("heavy", (400_000, 400_000))
    standing = machine.measure(seconds=2.0)["heavy"]
    timing = machine.trials[0].timings["isolated"]
    slow = [index for index, span in enumerate(timing.span_s) if span > 450e-6]
    assert slow
    assert timing.flags["throttled"] == slow
    sampling = standing.record.sampling["isolated"]
    assert sampling.throttled_share == pytest.approx(len(slow) / len(timing.used_s))
    assert (sampling.power_w, sampling.clock_events) == (695.0, ("power cap",))


def test_throttled_throughout_is_a_time_with_its_clock_and_the_share_of_peak_at_that_clock():
    machine = ScriptedMachine(sm_clock=lambda _: 1500.0)
    machine.scripted("slow", (400_000, 400_000))
    standing = machine.measure(seconds=1.0)["slow"]
    assert standing.time.value_s == pytest.approx(400e-6 * 2000 / 1500, rel=1e-6)
    assert standing.record.sampling["isolated"].sm_clock_mhz == 1500.0
    assert standing.cycles == pytest.approx(800_000, rel=1e-6)
    assert standing.held_fraction == pytest.approx(standing.peak_fraction * 1980 / 1500)


def test_the_next_replicate_hears_what_a_group_took_and_wanted():
    machine = ScriptedMachine()
    machine.scripted("steady", (40_000, 40_000))
    machine.measure(seconds=1.0)
    ((fixed_s, wanted_s),) = machine.needs.values()
    assert 0 <= fixed_s < 0.1
    assert 0 < wanted_s < 0.5
