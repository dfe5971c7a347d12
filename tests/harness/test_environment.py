"""Which device is measured, and what is said first when that is not the one the user may expect."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from harness import environment
from harness.environment import capture, choose_device
from harness.errors import UsageError
from harness.sensors.fake_nvml import ScriptedNvml, ScriptedProcess
from harness.sensors.nvml import Nvml, NvmlUnavailable
from results.merged import VOLATILE


@pytest.fixture
def machine(monkeypatch):
    """Pretend how many GPUs torch can use, which ones NVML sees, and what torch was built for."""

    def pretend(usable=0, seen=(), built_for="13.0", visible=None):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: usable)
        monkeypatch.setattr(torch.version, "cuda", built_for)
        monkeypatch.setattr(environment, "gpus_seen", lambda: list(seen))
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return pretend


H200 = ("NVIDIA H200", "580.65")
MIB, GIB = 1 << 20, 1 << 30
EFFECT = "times will be less certain, percentages of the whole GPU include it"


def refusal(wanted) -> str:
    with pytest.raises(UsageError) as caught:
        choose_device(wanted)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_gpu_the_cpu_is_measured_and_that_is_said(machine):
    machine(built_for=None)
    assert choose_device(None) == ("cpu", ["no CUDA device: measuring the CPU"])
    assert choose_device("cpu") == ("cpu", ["measuring the CPU, as asked"])


def test_a_usable_gpu_is_taken_without_a_word_unless_the_cpu_is_asked_for(machine):
    machine(usable=2, seen=[H200, H200])
    assert choose_device(None) == ("cuda:0", [])
    assert choose_device("cuda") == ("cuda:0", [])
    assert choose_device("cuda:1") == ("cuda:1", [])
    assert choose_device("cuda:01") == ("cuda:1", [])
    assert choose_device("cpu") == ("cpu", ["measuring the CPU, as asked"])


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "cuda:7"])
def test_cuda_asked_for_without_any_is_refused_with_the_way_out(machine, wanted):
    machine(built_for=None)
    assert refusal(wanted) == f"device {wanted!r} is not there: no CUDA device: --device cpu would do"


def test_a_gpu_beyond_the_last_is_refused_and_the_last_named(machine):
    machine(usable=2)
    assert refusal("cuda:7") == "device 'cuda:7' is not there: the last CUDA device is cuda:1"
    assert refusal("cuda:2") == "device 'cuda:2' is not there: the last CUDA device is cuda:1"


@pytest.mark.parametrize(
    "wanted",
    [
        *("", "gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda:1.0", "cuda:0:1", "cpu:0", "mps", "cuda 0"),
        *("cuda:²", "cuda:٣", "cuda:0\n", " cpu", "\x00", "cuda:" + "9" * 5000, "q" * 100_000),
    ],
)
@pytest.mark.parametrize("usable", [0, 2])
def test_what_is_no_device_is_refused_with_what_would_do(machine, wanted, usable):
    machine(usable=usable)
    message = refusal(wanted)
    assert message.startswith("device '")
    assert message.endswith("is unknown: cpu, cuda or cuda:N would do")
    assert len(message) < 150


@pytest.mark.parametrize(
    ("built_for", "words"), [("13.0", "built for CUDA 13.0"), (None, "a build without CUDA")]
)
@pytest.mark.parametrize("wanted", [None, "cpu"])
def test_a_gpu_that_torch_cannot_use_is_named_first_with_both_ways_out(machine, built_for, words, wanted):
    machine(seen=[H200], built_for=built_for)
    device, (notice,) = choose_device(wanted)
    assert device == "cpu"
    assert notice == (
        f"NVML sees NVIDIA H200 (driver 580.65), but torch {torch.__version__} is {words} and cannot use it: "
        "install a torch build for a CUDA that this driver supports, or update the driver; "
        "measuring the CPU meanwhile"
    )


def test_asking_for_a_gpu_that_torch_cannot_use_says_why_and_measures_nothing(machine):
    machine(seen=[H200])
    message = refusal("cuda")
    assert message.startswith("device 'cuda' is not there: NVML sees NVIDIA H200 (driver 580.65), but torch ")
    assert "or update the driver" in message
    assert "measuring" not in message


@pytest.mark.parametrize("visible", ["", "-1", " "])
def test_a_gpu_hidden_by_the_user_is_not_blamed_on_the_driver(machine, visible):
    machine(seen=[H200], visible=visible)
    _, (notice,) = choose_device(None)
    assert notice == (
        f"NVML sees NVIDIA H200 (driver 580.65), but CUDA_VISIBLE_DEVICES={visible!r} hides it: unset it; "
        "measuring the CPU meanwhile"
    )


def test_a_build_without_cuda_is_to_blame_even_when_the_gpu_is_hidden_too(machine):
    machine(seen=[H200], built_for=None, visible="")
    assert "a build without CUDA" in choose_device(None)[1][0]


def test_what_is_captured_on_a_cpu_is_plain_values_with_reasons_for_what_is_missing(machine):
    machine(built_for=None)
    found = capture("cpu")
    assert json.loads(json.dumps(found)) == found
    assert (found["device"], found["gpu"], found["gpu_reason"]) == ("cpu", None, "the run is on the CPU")
    assert found["peaks"] == {}
    assert found["cpu"]["name"]
    assert found["cpu"]["cores"] >= 1
    assert found["cpu"]["memory_bytes"] > 1 << 28
    assert found["torch"]["version"] == torch.__version__
    assert found["packages"]["numpy"]
    assert found["packages"]["triton"] is None or isinstance(found["packages"]["triton"], str)


def test_the_environment_variables_that_change_results_are_kept(machine, monkeypatch):
    machine(visible="0")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    kept = capture("cpu")["variables"]
    assert (kept["CUDA_VISIBLE_DEVICES"], kept["OMP_NUM_THREADS"]) == ("0", "2")
    assert kept["CUDA_LAUNCH_BLOCKING"] is None


def test_a_commit_is_named_in_a_checkout_and_none_is_outside(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert environment._git() is None
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
    ):
        environment.subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    found = environment._git()
    assert len(found["commit"]) == 40
    assert found["clean"] is True
    (tmp_path / "new.txt").write_text("x")
    assert environment._git()["clean"] is False
    inside = tmp_path / "site-packages"
    inside.mkdir()
    monkeypatch.setattr(environment, "ROOT", inside)
    assert environment._git() is None, "a repository around an installed headbench is not its own"


def test_the_codes_digest_changes_with_any_file_of_it_and_with_nothing_else(monkeypatch, tmp_path):
    for package in environment.PACKAGES:
        (tmp_path / package).mkdir()
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    seen = {environment._source_digest()}
    (tmp_path / "results" / "runs").mkdir()
    (tmp_path / "results" / "runs" / "trials.jsonl").write_text("{}")
    seen.add(environment._source_digest())
    assert len(seen) == 1
    for name, text in (("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("k.cu", "")):
        (tmp_path / "variants" / name).write_text(text)
        seen.add(environment._source_digest())
    assert len(seen) == 5


def test_the_pinned_state_is_recorded_as_plain_values(machine):
    machine()
    facts = capture("cpu")["torch"]
    json.dumps(facts)
    assert facts["float32_matmul_precision"] == {
        "bf16": "highest",
        "fp16": "highest",
        "tf32": "high",
        "fp32": "highest",
    }
    assert facts["threads"] == torch.get_num_threads()
    assert {"flash_sdp", "cudnn_benchmark", "fp16_reduced_precision_reduction"} <= facts.keys()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, []),
        ({"CUDA_LAUNCH_BLOCKING": "0", "NVIDIA_TF32_OVERRIDE": ""}, []),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, ["CUDA_LAUNCH_BLOCKING=1: every launch waits"]),
    ],
)
def test_variables_that_distort_times_are_said_first_and_only_if_they_do(variables, said):
    notices = environment._distorted(variables)
    assert len(notices) == len(said)
    assert all(notice.startswith(start) for notice, start in zip(notices, said, strict=True))


@pytest.fixture
def h200(machine, monkeypatch):
    """Pretend a usable H200 with what NVML says of it, or with the reason it says nothing; what is captured of it."""
    properties = SimpleNamespace(
        name=H200[0],
        uuid="mine",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=141 * GIB,
        L2_cache_size=60 * MIB,
    )

    def pretend(reason=None, **facts):
        def opened(uuid):
            if reason:
                raise NvmlUnavailable(reason)
            return Nvml.open(uuid, ScriptedNvml(**facts))

        machine(usable=1, seen=[H200])
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        monkeypatch.setattr(environment, "Nvml", SimpleNamespace(open=opened))
        monkeypatch.setattr(environment, "_busy_machine", list)
        for variable in environment.DISTORTING:
            monkeypatch.delenv(variable, raising=False)
        return capture("cuda")

    return pretend


def test_a_gpu_to_itself_is_captured_without_a_word(h200):
    found = h200(compute=[], memory_used_bytes=3_407_872)
    assert found["notices"] == []
    gpu = found["gpu"]
    assert (gpu["other_processes"], gpu["other_processes_reason"], gpu["memory_used_bytes"]) == (
        [],
        None,
        3_407_872,
    )
    assert (gpu["driver"], gpu["max_sm_clock_mhz"], gpu["nvml_reason"]) == ("580.1", 1980.0, None)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("processes", "said"),
    [
        ([(1234, 12.3 * GIB)], "another process uses this GPU: pid 1234, 12.3 GiB"),
        ([(1234, None)], "another process uses this GPU: pid 1234, memory not told"),
        ([(2, GIB), (1, 0)], "2 other processes use this GPU: pid 1, 0.0 GiB; pid 2, 1.0 GiB"),
        (
            [(pid, GIB) for pid in range(1, 6)],
            "5 other processes use this GPU: pid 1, 1.0 GiB; pid 2, 1.0 GiB; pid 3, 1.0 GiB; 2 more",
        ),
    ],
)
def test_another_process_on_the_gpu_is_recorded_and_said_first(h200, processes, said):
    found = h200(compute=[ScriptedProcess(pid, size and int(size)) for pid, size in processes])
    assert found["notices"] == [f"{said}: {EFFECT}"]
    assert [one["pid"] for one in found["gpu"]["other_processes"]] == sorted(pid for pid, _ in processes)
    assert json.loads(json.dumps(found)) == found


def test_a_desktop_counts_as_another_process(h200):
    found = h200(compute=[], graphics=[ScriptedProcess(900, 300 * MIB)])
    assert found["notices"] == [f"another process uses this GPU: pid 900, 0.3 GiB: {EFFECT}"]


@pytest.mark.parametrize("compute", [[], None])
def test_memory_in_use_by_nobody_that_can_be_seen_is_said(h200, compute):
    (notice,) = h200(compute=compute, memory_used_bytes=12 * GIB)["notices"]
    assert notice.startswith("12.0 GiB of this GPU's memory are in use and NVML shows no process that has it")
    assert EFFECT in notice


@pytest.mark.parametrize("used", [None, 0, 200 * MIB])
def test_memory_as_on_an_idle_gpu_or_not_told_is_no_reason_for_a_word(h200, used):
    assert h200(compute=[], memory_used_bytes=used)["notices"] == []


def test_where_processes_are_not_listed_that_is_the_reason_in_the_record(h200):
    gpu = h200(compute=None, memory_used_bytes=0)["gpu"]
    assert gpu["other_processes"] is None
    assert gpu["other_processes_reason"] == "NVML does not list this GPU's processes: Not Supported"


def test_a_gpu_without_nvml_is_captured_with_the_reason(h200):
    found = h200(reason="NVML Shared Library Not Found")
    assert found["gpu"]["nvml_reason"] == "NVML Shared Library Not Found"
    assert found["gpu"]["sm_count"] == 132
    assert found["notices"] == []


def test_who_else_used_the_gpu_makes_two_runs_machines_no_different_ones(h200):
    alone = h200(compute=[], memory_used_bytes=0)["gpu"]
    shared = h200(compute=[ScriptedProcess(1, 1)], temperature_c=80, sm_clock_mhz=900)["gpu"]
    differing = {f"gpu.{name}" for name in alone if alone[name] != shared[name]}
    assert "gpu.other_processes" in differing
    assert differing <= set(VOLATILE)
