"""Which GPU is watched, and what it could do at most."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from harness import environment as module
from harness.environment import capture
from harness.peaks import peaks_of, peaks_of_gpu
from harness.sensors.fake_nvml import ScriptedNvml
from harness.sensors.nvml import Nvml
from tests.harness.commands import ROOT, environment


class TwoGpus(ScriptedNvml):
    """NVML always sees both; the first is idle and of another make."""

    def nvmlDeviceGetClockInfo(self, handle, clock):
        return {"GPU-other": 210, "GPU-mine": 1755}[handle]


@pytest.fixture
def second_gpu_alone(monkeypatch):
    """CUDA_VISIBLE_DEVICES=1: what PyTorch calls cuda:0 is the machine's second GPU."""
    library = TwoGpus(names=("NVIDIA T4", "NVIDIA H200"))
    properties = SimpleNamespace(
        name="NVIDIA H200", uuid="mine", major=9, minor=0, multi_processor_count=132,
        total_memory=141 << 30, L2_cache_size=60 << 20,
    )  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(module, "_git", lambda: None)
    return library


def test_with_cuda_visible_devices_set_nvml_reads_the_same_physical_gpu(second_gpu_alone):
    """A naive tool asks NVML for the GPU of CUDA's number, and watches another one idle."""
    library = second_gpu_alone
    by_index = library.nvmlDeviceGetHandleByIndex(0)
    naive = Nvml(library, by_index, by_index, "whole GPU")
    assert (library.nvmlDeviceGetName("GPU-other"), naive.sm_clock_mhz()) == ("NVIDIA T4", 210)
    found = capture("cuda:0")
    assert (found["device"], found["gpu"]["uuid"]) == ("cuda:0", "GPU-mine")
    assert (found["gpu"]["sm_clock_mhz"], found["gpu"]["nvml_reason"]) == (1755, None)
    assert Nvml.open(found["gpu"]["uuid"], library).sm_clock_mhz() == 1755
    assert found["variables"]["CUDA_VISIBLE_DEVICES"] == "1"


FILLED = """
import json
import torch
from harness.environment import capture
from harness.sensors.nvml import Nvml, import_library

gpu = capture("cuda:0")["gpu"]
torch.ones(1, device="cuda")
mine = Nvml.open(gpu["uuid"])
library = import_library()
handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
uuids = [library.nvmlDeviceGetUUID(handle) for handle in handles]
others = [Nvml.open(uuid) for uuid in uuids if uuid != gpu["uuid"]]
before = [one.memory_used_bytes() for one in (mine, *others)]
kept = torch.ones(1 << 28, device="cuda")
torch.cuda.synchronize()
after = [one.memory_used_bytes() for one in (mine, *others)]
print(json.dumps({"uuid": gpu["uuid"], "filled": kept.nbytes, "grown": [b - a for a, b in zip(before, after)]}))
"""


@pytest.mark.gpu
def test_on_a_gpu_nvml_sees_the_memory_that_cuda_0_fills_whichever_gpu_that_is():
    """A naive tool reads NVML's first GPU; here CUDA is shown the last one only, and by its UUID."""
    last = f"GPU-{torch.cuda.get_device_properties(torch.cuda.device_count() - 1).uuid}"
    done = subprocess.run(
        [sys.executable, "-c", FILLED],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
        env={**environment(), "CUDA_VISIBLE_DEVICES": last},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["uuid"] == last
    mine, *others = told["grown"]
    assert mine >= 0.9 * told["filled"]
    assert all(grown < 0.5 * told["filled"] for grown in others)


def gpu(name: str, sm_count: int, clock_mhz: float) -> dict[str, object]:
    """A GPU of compute capability 8.9."""
    return {
        "name": f"NVIDIA {name}", "capability": [8, 9], "sm_count": sm_count, "max_sm_clock_mhz": clock_mhz,
    }  # fmt: skip


def test_peaks_are_by_device_name_for_l40_l40s_and_4090_are_all_of_one_compute_capability():
    """A naive tool has one row for 8.9, and shows one GPU at twice or half its share of peak."""
    cards = (gpu("L40", 142, 2490.0), gpu("L40S", 142, 2520.0), gpu("GeForce RTX 4090", 128, 2520.0))
    tera = {str(card["name"]): peaks_of_gpu(card)["bf16"]["flops_per_s"] / 1e12 for card in cards}
    assert tera == {"NVIDIA L40": 181, "NVIDIA L40S": 362, "NVIDIA GeForce RTX 4090": 165}
    assert max(tera.values()) > 2 * min(tera.values()), "no one figure would do"


def test_without_a_datasheet_the_peak_is_sm_count_times_rate_times_clock_and_marked():
    """A naive tool lends an unknown GPU the figures of its biggest relative, or shows a share of nothing."""
    laptop = gpu("GeForce RTX 4090 Laptop GPU", 76, 2040.0)
    assert peaks_of(str(laptop["name"])) == {}, "it is no RTX 4090"
    found = peaks_of_gpu(laptop)["bf16"]
    assert found["flops_per_s"] == 76 * 2 * 256 * 2040e6
    assert found["source"].startswith("derived: 76 SMs")
    assert found["flops_per_s"] < 0.5 * peaks_of("NVIDIA GeForce RTX 4090")["bf16"]["flops_per_s"]
    assert peaks_of_gpu({**laptop, "capability": [99, 0]}) == {}, "and never a guess"


@pytest.mark.gpu
def test_on_a_gpu_the_derived_peak_is_its_datasheets_at_the_highest_clock():
    """Of the GPU present: its multiprocessors, its architecture and its clock, as the driver tells them."""
    present = capture(None)["gpu"]
    datasheet = peaks_of(present["name"])
    if not datasheet or "L40" in present["name"].split():
        pytest.skip(f"no datasheet to compare with: {present['name']}")
    derived = peaks_of_gpu(
        present | {"name": "Unheard-of GeForce" if "GeForce" in present["name"] else "Unheard-of"}
    )
    for dtype in ("bf16", "tf32", "fp32"):
        at_its_clock = (
            derived[dtype]["flops_per_s"] * datasheet[dtype]["clock_mhz"] / derived[dtype]["clock_mhz"]
        )
        assert at_its_clock == pytest.approx(datasheet[dtype]["flops_per_s"], rel=0.02)
