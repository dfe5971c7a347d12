"""NVML from a scripted library: readings, processes and MIG instances. A value or a reason, never 0 for unknown."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.sensors.fake_nvml import ScriptedMismatchError, ScriptedNvml, ScriptedProcess
from harness.sensors.nvml import (
    NOT_AVAILABLE,
    Nvml,
    NvmlUnavailable,
    Process,
    Reading,
    gpus_seen,
    import_library,
)

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "nvml_h200.json").read_text())
READINGS = ("sm_clock_mhz", "max_sm_clock_mhz", "power_limit_w", "temperature_c", "power_w", "energy_j")
SECOND_US = 1_000_000


def gpu(**facts) -> Nvml:
    return Nvml.open("GPU-mine", ScriptedNvml(**facts))


def test_the_gpu_is_found_by_its_uuid_wherever_it_stands():
    library = ScriptedNvml()
    for uuid in library.uuids:
        mine = Nvml.open(uuid, library)
        assert (mine.device, mine.gpu, mine.scope) == (uuid, uuid, "whole GPU")


def test_every_reading_comes_in_the_unit_its_name_says():
    mine = gpu()
    assert {name: getattr(mine, name)() for name in READINGS} == {
        "sm_clock_mhz": 1755.0,
        "max_sm_clock_mhz": 1980.0,
        "power_limit_w": 700.0,
        "temperature_c": 41.0,
        "power_w": 312.5,
        "energy_j": 5000.0,
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
        energy_mj=None,
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


@pytest.mark.parametrize(
    "fault", ["raise OSError('no such library')", "1 / 0", "raise ImportError('half')", "x = ("]
)
def test_a_module_that_cannot_be_imported_is_a_reason_and_what_to_do_about_it(monkeypatch, tmp_path, fault):
    (tmp_path / "pynvml.py").write_text(fault)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NvmlUnavailable, match=r"pynvml cannot be imported \(.*Error: .*--force-reinstall"):
        Nvml.open("GPU-mine")
    assert gpus_seen() == []


@pytest.mark.parametrize("lacking", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlGpmMigSampleGet"])
def test_an_old_module_of_that_name_is_a_reason_and_what_to_do_about_it(monkeypatch, lacking):
    old = SimpleNamespace(**{name: None for name in dir(import_library()) if name != lacking})
    monkeypatch.setitem(sys.modules, "pynvml", old)
    with pytest.raises(NvmlUnavailable, match=f"pynvml lacks {lacking}.*pip uninstall pynvml"):
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


def test_memory_that_the_driver_does_not_manage_is_none_and_not_sixteen_exabytes():
    assert gpu(memory_used_bytes=NOT_AVAILABLE).memory_used_bytes() is None


def test_an_energy_counter_that_stands_at_zero_is_none():
    assert gpu(energy_mj=0).energy_j() is None


ME = ScriptedProcess(os.getpid(), 776 << 20)
OTHER = ScriptedProcess(1234, 12 << 30)


def test_alone_on_the_gpu_there_is_no_other_process_and_that_is_known():
    assert gpu(compute=[ME]).other_processes() == ()


def test_the_others_are_those_of_compute_and_of_graphics_each_once():
    desktop, both = ScriptedProcess(77, 300 << 20), ScriptedProcess(99, 1 << 20)
    mine = gpu(compute=[ME, OTHER, both], graphics=[desktop, both])
    assert mine.other_processes() == (Process(77, 300 << 20), Process(99, 1 << 20), Process(1234, 12 << 30))
    assert len(mine.processes()) == 4


@pytest.mark.parametrize("untold", [None, NOT_AVAILABLE])
def test_a_process_whose_memory_the_driver_does_not_tell_counts_and_has_none(untold):
    mine = gpu(compute=[ME, ScriptedProcess(1234, untold)])
    assert mine.other_processes() == (Process(1234, None),)


@pytest.mark.parametrize("listed", [[], [OTHER]])
def test_a_list_without_this_process_says_nothing_of_others(listed):
    with pytest.raises(
        NvmlUnavailable, match=rf"lists {len(listed)} processes .* this one is not among them"
    ):
        gpu(compute=listed).other_processes()


def test_before_this_process_uses_the_gpu_the_list_is_of_the_others():
    assert gpu(compute=[OTHER]).processes() == (Process(1234, 12 << 30),)


def test_a_gpu_without_graphics_still_lists_what_computes():
    assert gpu(compute=[ME, OTHER], graphics=None).other_processes() == (Process(1234, 12 << 30),)


def test_where_processes_are_not_listed_at_all_the_reason_is_nvmls():
    with pytest.raises(NvmlUnavailable, match="does not list this GPU's processes: Not Supported"):
        gpu(compute=None).other_processes()


def test_a_driver_too_old_for_the_python_package_to_list_processes_is_a_reason():
    class Older(ScriptedNvml):
        def nvmlDeviceGetComputeRunningProcesses(self, handle):
            raise ScriptedMismatchError("pyNVML version does not match")

    with pytest.raises(NvmlUnavailable, match="pyNVML version does not match"):
        Nvml.open("GPU-mine", Older()).other_processes()


@pytest.mark.parametrize("when", ["before_context", "with_context"])
def test_what_an_h200_listed_of_a_process_alone_on_it_is_nobody_else(when, monkeypatch):
    recorded = RECORDED[when]
    monkeypatch.setattr(os, "getpid", lambda: recorded.get("own_pid"))
    mine = gpu(compute=[ScriptedProcess(*one) for one in recorded["processes"]])
    others = mine.processes() if when == "before_context" else mine.other_processes()
    assert others == ()


PART = {"MIG-part": ("GPU-mine", 7)}


@pytest.mark.parametrize("uuid", ["MIG-part", "GPU-part"])
def test_a_mig_instance_is_found_by_its_uuid_whichever_prefix_it_is_given(uuid):
    mine = Nvml.open(uuid, ScriptedNvml(instances=PART))
    assert (mine.device, mine.gpu) == ("MIG-part", "GPU-mine")
    assert mine.scope == "MIG instance; clocks, power, temperature and energy of the whole GPU"


def test_of_a_mig_instance_clocks_power_temperature_and_energy_are_its_gpus():
    mine = Nvml.open("GPU-part", ScriptedNvml(instances=PART))
    assert mine.reading() == Reading(1755.0, 312.5, 41.0, 0)
    assert (mine.max_sm_clock_mhz(), mine.power_limit_w(), mine.energy_j()) == (1980.0, 700.0, 5000.0)


def test_of_a_mig_instance_memory_and_processes_are_its_own():
    class OnlyOfTheInstance(ScriptedNvml):
        def nvmlDeviceGetMemoryInfo(self, handle, version):
            assert handle == "MIG-part"
            return super().nvmlDeviceGetMemoryInfo(handle, version)

        def nvmlDeviceGetComputeRunningProcesses(self, handle):
            assert handle == "MIG-part"
            return super().nvmlDeviceGetComputeRunningProcesses(handle)

    mine = Nvml.open("GPU-part", OnlyOfTheInstance(instances=PART))
    assert mine.memory_used_bytes() == 1 << 30
    assert mine.other_processes() == ()


def test_a_mig_instance_keeps_no_utilisation_samples_and_that_is_the_reason():
    mine = Nvml.open("GPU-part", ScriptedNvml(instances=PART, samples=[(1, 50), (2, 60)]))
    with pytest.raises(NvmlUnavailable, match="keeps no utilisation samples of this GPU: Not Supported"):
        mine.busy_percent_since(0)


def test_a_driver_older_than_mig_has_whole_gpus_only():
    class Older(ScriptedNvml):
        def nvmlDeviceIsMigDeviceHandle(self, handle):
            raise self.NVMLError(13)

    assert Nvml.open("GPU-mine", Older()).scope == "whole GPU"


def test_a_uuid_that_neither_a_gpu_nor_an_instance_has_is_named_as_it_was_given():
    with pytest.raises(NvmlUnavailable, match="NVML has no GPU GPU-gone: Not Found"):
        Nvml.open("GPU-gone", ScriptedNvml(instances=PART))
