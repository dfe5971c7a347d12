"""NVML's performance monitor, scripted and as an H200 answered: a share of cycles or a reason, never 0 for unknown."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.fakes import ScriptedClock
from harness.sensors.fake_gpm import H200
from harness.sensors.fake_nvml import ScriptedNvml
from harness.sensors.gpm import LEAST_S, METRICS, GpmMeter
from harness.sensors.nvml import Nvml, NvmlUnavailable
from results.figures import Gpm

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "nvml_h200.json").read_text())


def meter(library=None, clock=None, uuid="GPU-mine", **facts) -> GpmMeter:
    library = library or ScriptedNvml(**facts)
    return GpmMeter.open(Nvml.open(uuid, library), clock or ScriptedClock())


def window(gpm, clock, seconds=0.5) -> Gpm:
    gpm.start()
    clock.advance(seconds)
    return gpm.stop()


def measured(seconds=0.5, **facts) -> Gpm:
    clock = ScriptedClock()
    return window(meter(clock=clock, **facts), clock, seconds)


def metric(name: str, answer: tuple[int, float, bytes | None]) -> Gpm:
    return measured(gpm=H200 | {METRICS[name]: answer})


class RealStructures(ScriptedNvml):
    """Answers with what was recorded, in the Python package's own C structures."""

    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t
    NVMLError = pynvml.NVMLError

    def nvmlGpmSampleAlloc(self):
        return pynvml.c_nvmlGpmSample_t()

    def nvmlGpmSampleFree(self, sample):
        pass

    def nvmlGpmSampleGet(self, gpu, sample):
        pass

    def nvmlGpmMetricsGet(self, wanted):
        for asked in wanted.metrics[: wanted.numMetrics]:
            asked.nvmlReturn, asked.value, name = RECORDED["gpm"][str(asked.metricId)]
            asked.metricInfo.shortName = name.encode() if name else None


def test_what_an_h200_answered_comes_out_as_shares_of_cycles():
    clock = ScriptedClock()
    found = window(meter(RealStructures(), clock), clock, RECORDED["gpm_window_s"])
    assert found == Gpm(
        sm_active_percent=87.79,
        occupancy_percent=12.97,
        tensor_active_percent=85.18,
        dram_percent=16.16,
        window_s=0.5,
        source="NVML GPM",
        scope="whole GPU",
    )


@pytest.mark.parametrize(
    ("unknown", "reason"),
    [
        (8, "metric 8 of NVML's performance monitor: this driver does not know it"),
        (999, "metric 999 of NVML's performance monitor: Invalid Argument"),
    ],
)
def test_a_metric_that_an_h200_did_not_know_is_a_reason_although_it_read_zero(monkeypatch, unknown, reason):
    monkeypatch.setitem(METRICS, "dram_percent", unknown)
    clock = ScriptedClock()
    found = window(meter(RealStructures(), clock), clock)
    assert (found.dram_percent, found.missing) == (None, {"dram_percent": reason})
    assert found.tensor_active_percent == 85.18


def test_a_tensor_pipe_that_did_nothing_is_zero_percent_and_that_is_a_reading():
    found = metric("tensor_active_percent", (0, 0.0, b"mmaact"))
    assert (found.tensor_active_percent, found.missing, found.reason) == (0.0, {}, None)


@pytest.mark.parametrize("field", METRICS)
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((0, float("nan"), b"name"), "reads nan"),
        ((0, float("inf"), b"name"), "reads inf"),
        ((0, -3.0, b"name"), "reads -3 %, which no share of cycles can be"),
        ((0, 734.4, b"name"), "reads 734.4 %, which no share of cycles can be"),
        ((3, 50.0, b"name"), ": Not Supported"),
        ((0, 0.0, None), ": this driver does not know it"),
    ],
)
def test_each_metric_fails_alone_and_says_why(field, answer, why):
    found = metric(field, answer)
    assert getattr(found, field) is None
    assert list(found.missing) == [field]
    assert found.missing[field].startswith(f"metric {METRICS[field]} of NVML's performance monitor")
    assert found.missing[field].endswith(why)
    assert found.reason is None
    assert sum(getattr(found, other) is None for other in METRICS) == 1


@given(st.integers(0, 999), st.floats(), st.sampled_from([b"name", None]))
def test_whatever_a_metric_answers_it_is_a_share_or_a_reason_and_never_both(code, value, name):
    seen = measured(gpm=H200 | {5: (code, value, name)})
    percent, why = seen.tensor_active_percent, seen.missing.get("tensor_active_percent")
    assert (percent is None) != (why is None)
    assert percent is None or 0 <= percent <= 101


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.199])
def test_a_window_too_short_to_be_true_is_a_reason_and_has_no_figures(seconds):
    found = measured(seconds)
    ms = round(seconds * 1e3)
    assert found.reason == f"NVML's performance monitor reads too low in {ms} ms: 0.2 s would do"
    assert all(getattr(found, field) is None for field in METRICS)


def test_a_window_just_long_enough_counts():
    assert measured(LEAST_S).tensor_active_percent == 85.18


def test_windows_follow_each_other_on_the_same_two_samples():
    clock, library = ScriptedClock(), ScriptedNvml()
    gpm = meter(library, clock)
    assert window(gpm, clock) == window(gpm, clock)
    assert len(library.gpm_held) == 2


def test_a_window_that_was_not_started_anew_is_no_window():
    clock = ScriptedClock()
    gpm = meter(clock=clock)
    assert gpm.stop().reason == "the window was never started"
    window(gpm, clock)
    clock.advance(1)
    assert gpm.stop().reason == "the window was not started anew"


def test_closing_gives_both_samples_back_and_may_be_repeated():
    library = ScriptedNvml()
    gpm = meter(library)
    assert len(library.gpm_held) == 2
    gpm.close()
    gpm.close()
    assert library.gpm_held == []


def test_a_second_sample_that_is_refused_leaves_no_first_one_behind():
    class OneSample(ScriptedNvml):
        def nvmlGpmSampleAlloc(self):
            if self.gpm_held:
                raise self.NVMLError(999)
            return super().nvmlGpmSampleAlloc()

    library = OneSample()
    with pytest.raises(NvmlUnavailable, match="refuses this GPU: NVML Error with code 999"):
        meter(library)
    assert library.gpm_held == []


@pytest.mark.parametrize(
    ("support", "reason"),
    [
        (False, r"has no performance monitor that NVML reads \(Hopper and newer have\): --counters ncu"),
        (3, r"has no performance monitor that NVML reads \(Hopper and newer have\): --counters ncu"),
        (13, r"driver 580\.1 is older than NVML's performance monitor: update it to 525 or newer"),
        (4, "refuses this GPU: Insufficient Permissions"),
    ],
)
def test_where_there_is_no_monitor_the_reason_says_whose_fault_it_is(support, reason):
    library = ScriptedNvml(gpm_support=support)
    with pytest.raises(NvmlUnavailable, match=reason):
        meter(library)
    assert library.gpm_held == []


def test_a_driver_that_refuses_samples_gives_a_reason_and_no_figures():
    found = measured(gpm_fault=15)
    assert found.reason == "NVML's performance monitor gives no sample: GPU is lost"
    assert {value for name, value in asdict(found).items() if name in METRICS} == {None}


def test_samples_that_cannot_be_compared_are_a_reason():
    class Refusing(ScriptedNvml):
        def nvmlGpmMetricsGet(self, wanted):
            raise self.NVMLError(2)

    clock = ScriptedClock()
    found = window(meter(Refusing(), clock), clock)
    assert found.reason == "NVML's performance monitor compares no samples: Invalid Argument"


def test_under_mig_the_instance_is_sampled_by_its_number_on_its_gpu():
    clock, library = ScriptedClock(), ScriptedNvml(instances={"MIG-part": ("GPU-mine", 7)})
    gpm = meter(library, clock, uuid="GPU-part")
    found = window(gpm, clock)
    assert library.gpm_held == [["GPU-mine", 7], ["GPU-mine", 7]]
    assert (found.scope, found.tensor_active_percent) == ("MIG instance", 85.18)


def test_without_mig_the_whole_gpu_is_sampled():
    clock, library = ScriptedClock(), ScriptedNvml()
    window(meter(library, clock), clock)
    assert library.gpm_held == [["GPU-mine"], ["GPU-mine"]]
