"""Counting that is refused, crashes or hangs: a reason for the case it is due to, and the rest goes on."""

from __future__ import annotations

from errno import ENOSPC

import pytest

from harness import counting, profiled
from harness.counting import Counting, try_matmul
from harness.errors import HeadbenchError
from harness.plugins import remember
from harness.sensors import ncu
from tests.harness import recorded_counters as recorded
from tests.harness.counted_runs import (
    ADMINISTRATORS,
    CUDNN_64,
    DONE,
    ENVIRONMENT,
    FA2_64,
    GPU,
    A,
    B,
    C,
    Quiet,
    begun,
    called,
    count,
    counted_in,
    measured,
    variants_of,
)
from tests.harness.fake_ncu import FakeNcu, script
from tests.harness.test_ncu import PERMISSION, RESOURCE, UNKNOWN
from tests.results import builders


@pytest.mark.parametrize(
    ("said", "in_words"),
    [
        (PERMISSION, "NVreg_RestrictProfilingToAdminUsers=0"),
        (RESOURCE, "another program holds the GPU's counters"),
    ],
)
@pytest.mark.parametrize("in_log", [True, False])
def test_a_refusal_is_every_cases_reason_and_is_not_asked_for_again(
    tmp_path, monkeypatch, said, in_words, in_log
):
    events = [*called(A, 0), *called(B, 1), *called(C, 2), DONE]
    plays = script(events, log=said) if in_log else script(events, prints=said)
    found, fake = count(tmp_path, monkeypatch, plays)
    assert len(fake.starts()) == 1
    assert len({counters.reason for counters in found.values()}) == 1
    assert in_words in found["a"].reason
    assert found["a"].issued_flops is None


def test_a_refusal_that_ends_the_child_is_every_cases_reason_and_not_a_crash_of_the_first(
    tmp_path, monkeypatch
):
    found, _ = count(tmp_path, monkeypatch, script([begun(A)], log=PERMISSION, exit_code=9))
    assert {counters.reason for counters in found.values()} == {ADMINISTRATORS}


def test_what_was_counted_before_a_refusal_stands(tmp_path, monkeypatch):
    plays = script([*called(A, FA2_64), begun(B)], log=recorded.text() + RESOURCE, exit_code=9)
    found, _ = count(tmp_path, monkeypatch, plays)
    assert found["a"].tensor_active_percent == 44.30
    assert "dcgmi" in found["b"].reason
    assert found["b"].reason == found["c"].reason


def test_without_the_program_the_reason_says_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "ELSEWHERE", ())
    with measured(tmp_path / "runs") as writer:
        Counting(writer, Quiet()).run()
        found = counted_in(writer)
    assert all("it comes with the CUDA toolkit" in counters.reason for counters in found.values())


def test_a_gpu_whose_counters_are_not_known_is_not_profiled(tmp_path, monkeypatch):
    turing = {**ENVIRONMENT, "gpu": {**GPU, "capability": [7, 5]}}
    found, fake = count(tmp_path, monkeypatch, script([DONE]), environment=turing)
    assert fake.starts() == []
    assert all("compute capability 7.5" in counters.reason for counters in found.values())


def test_a_case_that_kills_its_process_gets_the_reason_and_the_others_are_counted(tmp_path, monkeypatch):
    ended = "==ERROR== The application returned an error code (139).\n"
    first = script([*called(A, FA2_64), begun(B)], log=recorded.text() + ended, exit_code=139)
    second = script([*called(C, CUDNN_64), DONE], log=recorded.text())
    found, fake = count(tmp_path, monkeypatch, first, second)
    assert [variants_of(job) for job in fake.jobs()] == [["a", "b", "c"], ["c"]]
    assert found["a"].tensor_active_percent == 44.30
    assert found["b"].reason == "crashed: the worker ended with exit code 139, during Nsight Compute"
    assert found["c"].tensor_active_percent == 45.63


def test_a_case_that_hangs_is_ended_and_those_before_it_are_counted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "LONGEST_LAUNCH_S", 0.0)
    first = script([*called(A, FA2_64), begun(B)], hangs=True)
    second = script([*called(A, FA2_64), *called(C, CUDNN_64), DONE], log=recorded.text())
    found, fake = count(tmp_path, monkeypatch, first, second, silence_s=1.0)
    assert [variants_of(job) for job in fake.jobs()] == [["a", "b", "c"], ["a", "c"]]
    assert found["b"].reason == "timed_out: no sign of life for 1 s, during Nsight Compute"
    assert (found["a"].tensor_active_percent, found["c"].tensor_active_percent) == (44.30, 45.63)


def test_inputs_that_cannot_be_made_are_the_whole_groups_reason(tmp_path, monkeypatch):
    other = builders.case("d", stage="attention", batch=1)
    group = {**begun(A), "case": None}
    first = script([group], exit_code=137)
    second = script([*called(other, FA2_64), DONE], log=recorded.text())
    found, fake = count(tmp_path, monkeypatch, first, second, cases=(A, B, other))
    assert [variants_of(job) for job in fake.jobs()] == [["a", "b", "d"], ["d"]]
    assert found["a"].reason == found["b"].reason
    assert found["a"].reason.startswith("crashed: the worker ended with exit code 137")
    assert found["d"].tensor_active_percent == 44.30


def test_one_kernel_that_cannot_be_profiled_is_its_cases_fault(tmp_path, monkeypatch):
    first = script([begun(A)], log=UNKNOWN, exit_code=9)
    second = script([*called(B, FA2_64), *called(C, CUDNN_64), DONE], log=recorded.text())
    found, _ = count(tmp_path, monkeypatch, first, second)
    assert found["a"].reason.startswith("Nsight Compute 2025.3.1: Failed to prepare kernel for profiling")
    assert found["b"].reason is found["c"].reason is None


def test_where_no_kernel_can_be_profiled_it_is_not_tried_case_by_case(tmp_path, monkeypatch):
    cases = [builders.case(name) for name in "abcdefgh"]
    plays = [script([begun(case)], log=UNKNOWN, exit_code=9) for case in cases]
    found, fake = count(tmp_path, monkeypatch, *plays, cases=cases)
    assert len(fake.starts()) == 2
    assert {counters.reason for counters in found.values()} == {ncu.Ncu("", "2025.3.1").complaint(UNKNOWN)}


def test_a_call_without_a_kernel_is_told_and_not_zero(tmp_path, monkeypatch):
    events = [*called(A, 99), *called(B, FA2_64), *called(C, CUDNN_64), DONE]
    found, _ = count(tmp_path, monkeypatch, script(events, log=recorded.text()))
    assert found["a"].reason == "Nsight Compute 2025.3.1 counted no kernel of this case"
    assert found["a"].issued_flops is None
    assert found["b"].reason is None


LEAVES_A_THREAD = '''"""A variant whose calls leave threads running."""
import threading, time
from variants.qkv.fused import Fused

class Leaves(Fused):
    name = "leaves"
    def call(self, x):
        threading.Thread(target=time.sleep, args=(600,)).start()
        return super().call(x)
'''


def test_a_thread_that_a_variant_left_running_costs_no_counts(tmp_path, monkeypatch):
    plugin = tmp_path / "leaves.py"
    plugin.write_text(LEAVES_A_THREAD)
    monkeypatch.setattr(profiled, "WRITING_S", 20.0)
    small = {"batch": 1, "seq_len": 8, "d_model": 16, "n_head": 2, "head_dim": 8, "dtype": "fp32"}
    found, _ = count(
        tmp_path,
        monkeypatch,
        script(runs=True, log=recorded.text()),
        cases=[builders.case(name, **small) for name in ("fused", "leaves")],
        environment={**ENVIRONMENT, "device": "cpu"},
        plugins=remember((plugin,)),
    )
    assert {name: counters.reason for name, counters in found.items()} == {"fused": None, "leaves": None}


def test_a_program_that_writes_nothing_is_told(tmp_path, monkeypatch):
    events = [*called(A, 0), *called(B, 1), *called(C, 2), DONE]
    found, _ = count(tmp_path, monkeypatch, script(events))
    assert {counters.reason for counters in found.values()} == {"Nsight Compute 2025.3.1 wrote no table"}


def test_a_table_that_cannot_be_read_is_every_cases_reason(tmp_path, monkeypatch):
    events = [*called(A, 0), DONE]
    found, fake = count(tmp_path, monkeypatch, script(events, log='"ID","something else"\n"0","1"\n'))
    assert len(fake.starts()) == 1
    assert all("lacks the kernels' names" in counters.reason for counters in found.values())


def test_a_temporary_folder_without_room_is_every_cases_reason(tmp_path, monkeypatch):
    def full(prefix):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(profiled, "TemporaryDirectory", full)
    found, fake = count(tmp_path, monkeypatch, script([DONE]))
    assert fake.starts() == []
    assert all("(No space left on device): set TMPDIR" in counters.reason for counters in found.values())


def test_a_child_that_cannot_start_is_every_cases_reason(tmp_path, monkeypatch):
    found, fake = count(tmp_path, monkeypatch, script(prints="ModuleNotFoundError: torch", exit_code=1))
    assert len(fake.starts()) == 1
    assert all(
        counters.reason == "the process under Nsight Compute 2025.3.1 could not start: "
        "the worker ended with exit code 1: ModuleNotFoundError: torch"
        for counters in found.values()
    )


def test_an_option_that_an_old_version_lacks_is_told_as_that(tmp_path, monkeypatch):
    said = "==ERROR== unrecognised option '--graph-profiling'. Use --help for further details."
    found, _ = count(tmp_path, monkeypatch, script(prints=said, exit_code=1))
    assert all("install a newer Nsight Compute" in counters.reason for counters in found.values())


def test_a_plugin_that_changed_since_the_run_began_ends_it_in_one_message(tmp_path, monkeypatch):
    refused = {"event": "refused", "message": "plugin x.py has changed since the run began: start a new run"}
    with pytest.raises(HeadbenchError, match=r"plugin x\.py has changed"):
        count(tmp_path, monkeypatch, script([refused]))


def test_the_doctors_matmul_is_counted(tmp_path, monkeypatch):
    fake = FakeNcu(tmp_path, monkeypatch, script([DONE], log=recorded.text("matmul")))
    found = try_matmul(ENVIRONMENT)
    assert (found.tensor_active_percent, found.rate_while_active) == (93.19, 1.0)
    (job,) = fake.jobs()
    assert (job["matmul_size"], job["gpu_uuid"]) == (8192, "GPU-mine")


@pytest.mark.parametrize(
    ("plays", "reason"),
    [
        (script([DONE], log=PERMISSION), ADMINISTRATORS),
        (script([], log=UNKNOWN, exit_code=9), ncu.Ncu("", "2025.3.1").complaint(UNKNOWN)),
        (
            script([], prints="RuntimeError: no CUDA", exit_code=1),
            "Nsight Compute 2025.3.1: the worker ended with exit code 1: RuntimeError: no CUDA",
        ),
        (script([DONE]), "Nsight Compute 2025.3.1: no kernel was counted"),
    ],
)
def test_the_doctors_matmul_that_cannot_be_counted_says_why(tmp_path, monkeypatch, plays, reason):
    FakeNcu(tmp_path, monkeypatch, plays)
    assert try_matmul(ENVIRONMENT).reason == reason


def test_the_doctor_hears_that_there_is_no_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "ELSEWHERE", ())
    assert "it comes with the CUDA toolkit" in try_matmul(ENVIRONMENT).reason
