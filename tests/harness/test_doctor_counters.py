"""What the doctor says of counters and ceilings: figures with what they are of, or reasons with the way out."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from harness import doctor, doctor_counters
from harness.sensors.fake_nvml import ScriptedNvml, ScriptedProcess
from harness.sensors.ncu import ONLY_ADMINISTRATORS, Ncu, NcuUnavailable
from harness.sensors.nvml import Nvml
from results.figures import Counters, Gpm, Matmul
from results.schema import Ceilings

H200 = {
    "gpu": {"name": "NVIDIA H200"},
    "peaks": {
        "bf16": {"flops_per_s": 989e12, "clock_mhz": 1830, "source": "datasheet of H200"},
        "memory": {"bytes_per_s": 4.8e12, "source": "datasheet of H200"},
    },
}
MATMULS = {
    "bf16": Matmul(8192, 791.2e12, 1755.4, 692.3e12, 1512.0),
    "fp32": Matmul(4096, 50e12, None, None, None, reason="fewer than two batches of matmuls ended in 1 s"),
    "tf32": Matmul(8192, reason="CUDA out of memory"),
}
CEILINGS = Ceilings(MATMULS, 4.08e12)
COUNTERS = Counters(tensor_active_percent=93.4)
NCU = Ncu("/opt/ncu", "2025.3.1")
GPM = Gpm(88.0, 12.0, 92.5, 16.0, window_s=0.5, source="NVML GPM", scope="whole GPU")


@pytest.fixture
def said(monkeypatch):
    """The lines about a GPU on which everything works, but for what is given."""

    def lines(
        counters=COUNTERS,
        ncu=NCU,
        foretold=None,
        gpm=GPM,
        ceilings=CEILINGS,
        others=0,
        others_reason=None,
        environment=H200,
    ):
        def find():
            if isinstance(ncu, Exception):
                raise ncu
            return ncu

        monkeypatch.setattr(doctor_counters.Ncu, "find", find)
        monkeypatch.setattr(doctor_counters, "forbidden", lambda: foretold)
        monkeypatch.setattr(doctor_counters, "try_matmul", lambda _: counters)
        found = {
            "nvml": {"others": others, "others_reason": others_reason},
            "ceilings": {"ceilings": ceilings.to_json()},
            "gpm": {"gpm": asdict(gpm)},
        }
        return list(doctor_counters.lines(environment, found))

    return lines


def labelled(lines, label: str) -> list[str]:
    return [text for name, text in lines if name == label]


def test_a_machine_that_lacks_nothing_shows_its_ceilings_as_shares_of_peak_and_counters_that_agree(said):
    lines = said()
    assert labelled(lines, "processes") == ["no other process uses this GPU"]
    bf16, *_, copy = labelled(lines, "ceilings")
    assert bf16 == (
        "bf16 matmul 8192³: burst 791 TFLOP/s at 1755 MHz (80 % of peak), "
        "sustained 692 TFLOP/s at 1512 MHz (70 % of peak)"
    )
    assert copy == "copy of 8 × L2, read and written: 4.08 TB/s (85 % of peak)"
    assert labelled(lines, "GPM") == [
        "supported; of an 8192³ bf16 matmul back to back, whole GPU: "
        "tensor cores active 92.5 %, SMs active 88.0 %, occupancy 12.0 %, DRAM 16.0 %"
    ]
    assert labelled(lines, "ncu") == ["Nsight Compute 2025.3.1 (/opt/ncu)"]
    assert labelled(lines, "permission") == ["the driver's settings let this process have hardware counters"]
    assert labelled(lines, "counters") == ["counted an 8192³ bf16 matmul: tensor cores active 93.4 %"]
    assert labelled(lines, "agreement") == [
        "GPM says 92.5 % and Nsight Compute 93.4 % of the same matmul: they agree"
    ]


def test_a_ceiling_that_could_not_be_measured_is_its_reason_and_no_number(said):
    _, fp32, tf32, _ = labelled(said(), "ceilings")
    assert fp32 == "fp32 matmul 4096³: burst 50.0 TFLOP/s, fewer than two batches of matmuls ended in 1 s"
    assert tf32 == "tf32 matmul 8192³: CUDA out of memory"
    assert labelled(said(ceilings=Ceilings(reason="no CuPy")), "ceilings") == ["no CuPy"]


def test_without_a_known_peak_the_ceilings_stand_alone(said):
    for text in labelled(said(environment={**H200, "peaks": {}}), "ceilings"):
        assert "of peak" not in text


@pytest.mark.parametrize(("by_gpm", "agree"), [(90.4, True), (96.4, True), (90.3, False), (70.0, False)])
def test_gpm_and_nsight_compute_agree_within_three_points(said, by_gpm, agree):
    (text,) = labelled(said(gpm=Gpm(tensor_active_percent=by_gpm, scope="whole GPU")), "agreement")
    assert text.endswith("they agree") == agree
    assert (f"{93.4 - by_gpm:.1f} points apart" in text) != agree


def test_a_gpu_without_gpm_says_why_and_compares_nothing(said):
    lines = said(gpm=Gpm(reason="this GPU has no performance monitor"))
    assert labelled(lines, "GPM") == ["this GPU has no performance monitor"]
    assert labelled(lines, "counters") != []
    assert labelled(lines, "agreement") == []


def test_a_gpm_metric_that_is_missing_says_why_beside_the_others(said):
    gpm = Gpm(
        tensor_active_percent=92.5, scope="whole GPU", missing={"dram_percent": "metric 10: Not Supported"}
    )
    (text,) = labelled(said(gpm=gpm), "GPM")
    assert "tensor cores active 92.5 %" in text
    assert text.endswith("DRAM not known (metric 10: Not Supported)")


def test_without_nsight_compute_the_way_to_it_is_all_that_is_said(said):
    lines = said(ncu=NcuUnavailable("it is not there: it comes with the CUDA toolkit"))
    assert labelled(lines, "ncu") == ["it is not there: it comes with the CUDA toolkit"]
    assert not {"permission", "counters", "agreement"} & {name for name, _ in lines}


def test_a_permission_that_is_lacking_is_foretold_once_with_both_ways_out(said):
    refused = Counters(reason=f"Nsight Compute 2025.3.1: {ONLY_ADMINISTRATORS}")
    lines = said(counters=refused, foretold=ONLY_ADMINISTRATORS)
    (permission,) = labelled(lines, "permission")
    assert "--cap-add=SYS_ADMIN" in permission
    assert "NVreg_RestrictProfilingToAdminUsers=0" in permission
    assert labelled(lines, "counters") == ["tried, and refused"]


def test_a_refusal_that_was_not_foretold_is_told_whole(said):
    (text,) = labelled(said(counters=Counters(reason="another program holds the GPU's counters")), "counters")
    assert text == "another program holds the GPU's counters"


def test_an_active_share_that_nsight_compute_does_not_give_is_a_reason(said):
    lines = said(counters=Counters(missing={"tensor_active_percent": "the metric is not in its table"}))
    assert labelled(lines, "counters") == [
        "counted an 8192³ bf16 matmul: tensor cores active not known (the metric is not in its table)"
    ]
    assert labelled(lines, "agreement") == []


def test_other_processes_are_counted_or_it_is_said_that_they_cannot_be(said):
    assert labelled(said(others=2), "processes")[0].startswith("2 beside this one: ")
    untold = said(others=None, others_reason="in a container it counts by other process ids")
    assert labelled(untold, "processes") == [
        "not known whether others use this GPU: in a container it counts by other process ids"
    ]


def test_on_a_cpu_every_line_is_a_reason():
    lines = list(doctor_counters.lines({"gpu": None}, {"nvml": {}}))
    assert [name for name, _ in lines] == ["GPM", "ncu", "ceilings"]
    assert all(text.endswith("this run is on the CPU") for _, text in lines)


def test_the_child_tells_how_many_others_there_are_or_why_it_cannot():
    def others(compute):
        return doctor._other_processes(Nvml.open("GPU-mine", ScriptedNvml(compute=compute)))

    assert doctor._other_processes(None) == (None, None)
    assert others(ScriptedNvml().compute) == (0, None)
    number, reason = others([ScriptedProcess(1, 1)])
    assert number is None
    assert "this one is not among them" in reason


def test_the_child_gives_the_reason_where_there_is_no_gpm():
    assert doctor._gpm(None, "no NVML").reason == "no NVML"
    older = Nvml.open("GPU-mine", ScriptedNvml(gpm_support=False))
    assert "Hopper and newer have" in doctor._gpm(older, None).reason
