"""The long window over a scripted GPU: how long it lasts, what it reads meanwhile, and every None with its reason."""

from __future__ import annotations

import itertools
import os
from dataclasses import fields
from types import SimpleNamespace

import pytest

from harness.fakes import ScriptedClock
from harness.sensors import window
from harness.sensors.fake_nvml import ScriptedNvml, ScriptedProcess
from harness.sensors.gpm import GpmMeter
from harness.sensors.nvml import Nvml
from harness.sensors.window import LEAST_S, LIMIT_S, WARM_S, DeviceWindow

PERIOD_US = 200_000
"""The driver publishes a utilisation sample so often."""
TICK_S = 0.1
"""The energy counter ticks so often."""
WATTS = 500.0


class Machine:
    """A GPU that does what its feed is given; its driver publishes as scripted time goes by.

    The feed's calls take `once_s`; a millisecond's sleep is all that moves the clock.
    """

    mode = "graph"

    def __init__(
        self, monkeypatch, *, gpm=True, gpm_reason=None, publishes=True, ticks=True, **facts
    ) -> None:
        self.clock = ScriptedClock(now=1000.0)
        self.library = ScriptedNvml(**facts)
        self.publishes, self.ticks = publishes, ticks
        self.log: list[str] = []
        self.topped_up_at: list[float] = []
        monkeypatch.setattr(window, "time", SimpleNamespace(time=self.clock, sleep=self.sleep))
        self.nvml = Nvml.open("GPU-mine", self.library)
        meter = GpmMeter.open(self.nvml, self.clock) if gpm else None
        self.window = DeviceWindow(self.nvml, meter, gpm_reason, self.feed)

    def sleep(self, seconds: float) -> None:
        before, now = self.clock.now, self.clock.now + seconds
        self.clock.advance(seconds)
        if self.publishes and int(now * 1e6) // PERIOD_US != int(before * 1e6) // PERIOD_US:
            self.library.samples.append((int(now * 1e6) // PERIOD_US * PERIOD_US, 97))
        if self.ticks and self.library.energy_mj is not None and int(now / TICK_S) != int(before / TICK_S):
            self.library.energy_mj += round(WATTS * TICK_S * 1e3)

    def feed(self, call) -> Machine:
        self.log.append("made")
        self.call = call
        return self

    def top_up(self) -> None:
        self.topped_up_at.append(self.clock.now)
        self.call()

    def drain(self) -> None:
        self.log.append("drained")

    def calls(self) -> int:
        assert self.log[-1] == "drained", "batches in flight are not counted yet"
        return 1234

    def span_s(self) -> float:
        assert self.log[-1] == "drained"
        return 4.2e-4

    def watch(self):
        seen = self.window.sample(lambda: None)
        assert self.log == ["made", "drained"]
        return seen["utilisation"], seen["gpm"]


def test_a_window_lasts_until_a_whole_period_was_published_and_half_a_second_at_least(monkeypatch):
    found, _ = Machine(monkeypatch).watch()
    assert found.gpu_busy_percent == 97.0
    assert LEAST_S <= found.window_s <= LEAST_S + 0.01


def test_a_slow_driver_is_waited_for(monkeypatch):
    monkeypatch.setitem(globals(), "PERIOD_US", 1_000_000)
    found, _ = Machine(monkeypatch).watch()
    assert found.gpu_busy_percent == 97.0
    assert 1.0 < found.window_s <= 2.0


def test_every_reading_is_the_drivers_at_the_windows_end_and_says_what_it_is_of(monkeypatch):
    found, _ = Machine(monkeypatch, clock_event_reasons=4).watch()
    assert (found.power_w, found.sm_clock_mhz, found.temperature_c) == (312.5, 1755.0, 41.0)
    assert (found.memory_used_bytes, found.clock_event_reasons) == (1 << 30, 4)
    assert (found.calls, found.span_s, found.fed_by) == (1234, 4.2e-4, "graph")
    assert (found.source, found.scope) == ("NVML", "whole GPU")
    assert (found.missing, found.reason) == ({}, None)


def test_energy_is_taken_between_two_ticks_of_the_counter_so_that_watts_come_out_exact(monkeypatch):
    found, _ = Machine(monkeypatch).watch()
    assert found.energy_j / found.energy_window_s == pytest.approx(WATTS, rel=0.02)
    assert 0.3 <= found.energy_window_s <= 0.5
    assert found.energy_j == pytest.approx(WATTS * round(found.energy_window_s, 1))


def test_a_counter_that_ticks_less_than_twice_is_a_reason(monkeypatch):
    found, _ = Machine(monkeypatch, ticks=False).watch()
    assert (found.energy_j, found.energy_window_s) == (None, None)
    assert found.missing == {"energy_j": "the energy counter ticked less than twice in the window"}


def test_a_gpu_without_an_energy_counter_is_a_reason(monkeypatch):
    found, _ = Machine(monkeypatch, energy_mj=None).watch()
    assert found.energy_j is None
    assert found.missing["energy_j"] == "this GPU has no energy counter"


def test_without_utilisation_samples_the_rest_is_there_and_the_reason_nvmls(monkeypatch):
    found, gpm = Machine(monkeypatch, samples=None, publishes=False).watch()
    assert found.gpu_busy_percent is None
    assert found.missing == {
        "gpu_busy_percent": "NVML keeps no utilisation samples of this GPU: Not Supported"
    }
    assert found.power_w == 312.5
    assert found.energy_j > 0
    assert LEAST_S <= found.window_s <= LEAST_S + 0.01
    assert gpm.tensor_active_percent == 85.18


def test_a_driver_that_publishes_nothing_ends_the_window_with_a_reason(monkeypatch):
    found, _ = Machine(monkeypatch, publishes=False).watch()
    assert found.gpu_busy_percent is None
    assert found.missing == {"gpu_busy_percent": f"NVML published no sample within {LIMIT_S} s"}
    assert found.window_s == pytest.approx(LIMIT_S, abs=0.01)


def test_the_feed_is_topped_up_every_millisecond_from_the_warm_up_to_the_last_reading(monkeypatch):
    machine = Machine(monkeypatch)
    found, _ = machine.watch()
    times = machine.topped_up_at
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 2e-3
    assert times[-1] - times[0] == pytest.approx(WARM_S + found.window_s, abs=2e-3)


def test_other_processes_are_counted_and_this_one_is_none_of_them(monkeypatch):
    mine, other = ScriptedProcess(os.getpid(), 1), ScriptedProcess(1, 2)
    assert Machine(monkeypatch, compute=[mine]).watch()[0].other_processes == 0
    assert Machine(monkeypatch, compute=[mine, other]).watch()[0].other_processes == 1


def test_where_processes_cannot_be_seen_their_number_is_none_with_the_reason(monkeypatch):
    found, _ = Machine(monkeypatch, compute=[]).watch()
    assert found.other_processes is None
    assert "this one is not among them" in found.missing["other_processes"]


def test_the_performance_monitor_watches_the_seconds_after_it_has_settled(monkeypatch):
    found, gpm = Machine(monkeypatch).watch()
    assert gpm.tensor_active_percent == 85.18
    assert gpm.window_s == pytest.approx(found.window_s - window.GPM_SETTLES_S, abs=5e-3)
    assert window.GPM_SETTLES_S > 0.2  # so far behind an H200's counters were seen


def test_the_performance_monitor_starts_on_a_gpu_that_has_been_busy_for_a_while(monkeypatch):
    machine = Machine(monkeypatch)
    taken = []
    take = machine.library.nvmlGpmSampleGet
    monkeypatch.setattr(
        machine.library,
        "nvmlGpmSampleGet",
        lambda gpu, sample: (taken.append(machine.clock.now), take(gpu, sample)),
    )
    machine.watch()
    assert taken[0] - machine.topped_up_at[0] >= 0.05
    assert len(taken) == 2


def test_the_queue_is_full_when_the_performance_monitor_stops_however_slow_the_readings_before(monkeypatch):
    machine = Machine(monkeypatch)
    since_top_up = []
    take, energy = machine.library.nvmlGpmSampleGet, machine.library.nvmlDeviceGetTotalEnergyConsumption

    def slow(*arguments):
        machine.sleep(10e-3)
        return energy(*arguments)

    def sample(*arguments):
        since_top_up.append(machine.clock.now - machine.topped_up_at[-1])
        take(*arguments)

    monkeypatch.setattr(machine.library, "nvmlDeviceGetTotalEnergyConsumption", slow)
    monkeypatch.setattr(machine.library, "nvmlGpmSampleGet", sample)
    machine.watch()
    assert since_top_up == [0, 0]


def test_without_the_performance_monitor_its_reason_stands_beside_nvmls_figures(monkeypatch):
    found, gpm = Machine(monkeypatch, gpm=False, gpm_reason="this GPU has none").watch()
    assert gpm.reason == "this GPU has none"
    assert {getattr(gpm, field.name) for field in fields(gpm) if field.name.endswith("percent")} == {None}
    assert found.gpu_busy_percent == 97.0


def test_two_cases_after_each_other_have_windows_of_their_own_and_closing_lets_go(monkeypatch):
    machine = Machine(monkeypatch)
    first, first_gpm = machine.watch()
    machine.log.clear()
    second, second_gpm = machine.watch()
    assert (second.gpu_busy_percent, second_gpm.tensor_active_percent) == (97.0, 85.18)
    assert second.window_s == pytest.approx(first.window_s, abs=0.2)
    assert second_gpm.reason is first_gpm.reason is None
    machine.window.close()
    assert machine.library.gpm_held == []
