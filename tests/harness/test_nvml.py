"""NVML from a scripted library: readings, and the untimed window. A value or a reason, never 0 for unknown."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from harness import utilisation
from harness.fakes import ScriptedClock
from harness.sensors.fake_nvml import ScriptedNvml
from harness.sensors.nvml import Nvml, NvmlUnavailable, gpus_seen

READINGS = ("sm_clock_mhz", "max_sm_clock_mhz", "power_limit_w", "temperature_c", "power_w")
SECOND_US = 1_000_000


def gpu(**facts) -> Nvml:
    return Nvml.open("GPU-mine", ScriptedNvml(**facts))


def test_the_gpu_is_found_by_its_uuid_wherever_it_stands():
    library = ScriptedNvml()
    for uuid in library.uuids:
        assert Nvml.open(uuid, library)._handle == uuid


def test_every_reading_comes_in_the_unit_its_name_says():
    mine = gpu()
    assert {name: getattr(mine, name)() for name in READINGS} == {
        "sm_clock_mhz": 1755.0,
        "max_sm_clock_mhz": 1980.0,
        "power_limit_w": 700.0,
        "temperature_c": 41.0,
        "power_w": 312.5,
    }
    assert mine.memory_used_bytes() == 1 << 30
    assert mine.driver == "580.1"


def test_what_the_gpu_does_not_tell_is_none_and_never_zero():
    mute = gpu(
        sm_clock_mhz=None,
        max_sm_clock_mhz=None,
        power_limit_mw=None,
        temperature_c=None,
        instant_power_mw=None,
        average_power_mw=None,
        memory_used_bytes=None,
    )
    assert [getattr(mute, name)() for name in READINGS] == [None] * len(READINGS)
    assert mute.memory_used_bytes() is None


@pytest.mark.parametrize("instant_mw", [None, 0])
def test_without_an_instant_power_reading_the_drivers_average_is_taken(instant_mw):
    assert gpu(instant_power_mw=instant_mw, average_power_mw=250_000).power_w() == 250.0


def test_a_library_that_refuses_power_fields_altogether_still_gives_the_average():
    class Older(ScriptedNvml):
        def nvmlDeviceGetFieldValues(self, handle, fields):
            raise self.NVMLError(3)

    assert Nvml.open("GPU-mine", Older(average_power_mw=99_000)).power_w() == 99.0


def test_an_unknown_uuid_is_unavailable_and_named():
    with pytest.raises(NvmlUnavailable, match="NVML has no GPU GPU-gone: Not Found"):
        Nvml.open("GPU-gone", ScriptedNvml())


def test_without_a_driver_the_reason_is_nvmls_own():
    with pytest.raises(NvmlUnavailable, match="Shared Library Not Found"):
        gpu(broken=12)


def test_without_the_python_package_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailable, match="pip install nvidia-ml-py"):
        Nvml.open("GPU-mine")
    assert gpus_seen() == []


def test_the_gpus_seen_are_named_with_their_driver():
    assert gpus_seen(ScriptedNvml()) == [("Other GPU", "580.1"), ("My GPU", "580.1")]
    assert gpus_seen(ScriptedNvml(uuids=(), names=())) == []
    assert gpus_seen(ScriptedNvml(broken=12)) == []


def test_only_periods_that_began_inside_the_window_are_counted():
    # A sample's stamp ends its period; the one before it began it.
    samples = [(10 * SECOND_US + i * 200_000, busy) for i, busy in enumerate([0, 0, 37, 80, 100])]
    start_us = 10 * SECOND_US + 300_000  # inside the period that ends at +0.4 s
    assert gpu(samples=samples).busy_percent_since(start_us) == 90.0


def test_a_period_that_began_exactly_with_the_window_counts():
    samples = [(10 * SECOND_US, 5), (11 * SECOND_US, 64)]
    assert gpu(samples=samples).busy_percent_since(10 * SECOND_US) == 64.0


@pytest.mark.parametrize(
    "samples",
    [
        [],  # none kept yet
        [(10 * SECOND_US, 50)],  # one: when its period began is not known
        [(9 * SECOND_US, 50), (11 * SECOND_US, 60)],  # began before the window
        [(1 * SECOND_US, 50), (2 * SECOND_US, 60)],  # all from long before
    ],
)
def test_before_a_whole_period_has_passed_nothing_is_known_yet(samples):
    assert gpu(samples=samples).busy_percent_since(10 * SECOND_US) is None


def test_an_idle_gpu_is_zero_percent_busy_and_that_is_a_reading():
    assert gpu(samples=[(10 * SECOND_US, 0), (11 * SECOND_US, 0)]).busy_percent_since(10 * SECOND_US) == 0.0


def test_a_gpu_without_utilisation_samples_gives_a_reason():
    with pytest.raises(NvmlUnavailable, match="keeps no utilisation samples of this GPU: Not Supported"):
        gpu(samples=None).busy_percent_since(0)


class Window:
    """A GPU whose driver publishes a sample every 0.2 s of scripted time, and a call of 1 ms."""

    def __init__(self, monkeypatch, **facts) -> None:
        self.clock = ScriptedClock(now=1000.0)
        self.library = ScriptedNvml(**facts)
        self.nvml = Nvml.open("GPU-mine", self.library)
        self.calls = 0
        self.waits: list[int] = []
        monkeypatch.setattr(utilisation, "time", SimpleNamespace(time=self.clock))
        monkeypatch.setattr(torch.cuda, "Event", lambda: Event(self))

    def call(self) -> None:
        self.calls += 1
        self.clock.advance(1e-3)
        stamp = int(self.clock.now * 5) * 200_000
        if self.library.samples is not None and (stamp, 97) not in self.library.samples:
            self.library.samples.append((stamp, 97))

    def watch(self, once_s=1e-3):
        return utilisation.watch(self.call, once_s, self.nvml)


class Event:
    """Ends the batch that was queued when it was recorded."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def record(self) -> None:
        self._at = self._window.calls

    def synchronize(self) -> None:
        self._window.waits.append(self._window.calls - self._at)


def test_a_window_lasts_until_a_whole_period_was_published(monkeypatch):
    window = Window(monkeypatch)
    found = window.watch()
    assert found.gpu_busy_percent == 97.0
    assert 0.2 <= found.window_s <= 0.45
    assert found.reason is None
    assert found.source == "NVML, whole device"
    assert (found.memory_used_bytes, found.power_w) == (1 << 30, 312.5)
    assert (found.sm_clock_mhz, found.temperature_c) == (1755.0, 41.0)
    assert found.calls == window.calls
    assert found.span_s == pytest.approx(1e-3)  # what a call takes when nothing else is done


def test_the_gpu_never_runs_dry_each_wait_leaves_a_batch_in_flight(monkeypatch):
    window = Window(monkeypatch)
    window.watch()
    assert window.waits
    *while_queueing, at_the_end = window.waits
    assert at_the_end == 0
    assert set(while_queueing) == {5}  # 5 ms of 1 ms calls were queued after what is waited for


@pytest.mark.parametrize(("once_s", "batch"), [(0.0, 500), (1e-9, 500), (1e-3, 5), (10.0, 1)])
def test_a_batch_is_bounded_both_ways(monkeypatch, once_s, batch):
    window = Window(monkeypatch)
    window.watch(once_s)
    assert set(window.waits[:-1]) == {batch}


def test_a_gpu_without_utilisation_samples_keeps_its_other_readings_and_says_why(monkeypatch):
    window = Window(monkeypatch, samples=None)
    found = window.watch()
    assert found.gpu_busy_percent is None
    assert found.reason == "NVML keeps no utilisation samples of this GPU: Not Supported"
    assert found.power_w == 312.5
    assert found.window_s < 0.1


def test_a_driver_that_publishes_nothing_ends_the_window_with_a_reason(monkeypatch):
    window = Window(monkeypatch)
    monkeypatch.setattr(window.library, "samples", [(1, 50)])
    monkeypatch.setattr(Window, "call", lambda self: self.clock.advance(1e-3))
    found = window.watch()
    assert found.gpu_busy_percent is None
    assert found.reason == "NVML published no sample within 2.5 s"
    assert found.window_s == pytest.approx(2.5, abs=0.02)
