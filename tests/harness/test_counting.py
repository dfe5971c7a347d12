"""Counting from the parent's side, under a program that stands in for Nsight Compute: each case its own counters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness import counting, run_command
from harness.counting import Counting, usual_s
from harness.plugins import remember
from harness.sensors.ncu_metrics import CHIPS
from results.figures import Counters, Dispatch
from results.schema import Observation, Outcome
from tests.harness import recorded_counters as recorded
from tests.harness.counted_runs import (
    CUDNN_64,
    CUDNN_72,
    DONE,
    ENVIRONMENT,
    FA2_64,
    A,
    B,
    C,
    Quiet,
    called,
    count,
    counted_in,
    measured,
    variants_of,
)
from tests.harness.fake_ncu import FakeNcu, script
from tests.results import builders


def test_every_case_gets_what_was_counted_in_its_own_range(tmp_path, monkeypatch):
    events = [*called(C, FA2_64), *called(A, CUDNN_72), *called(B, CUDNN_64), DONE]
    found, fake = count(tmp_path, monkeypatch, script(events, log=recorded.text()))
    useful_64 = 4 * 32 * 12 * 1024 * 1024 * 64
    assert found["c"].issued_flops == found["b"].issued_flops == useful_64
    assert found["a"].issued_flops == 2 * useful_64
    assert found["c"].rate_while_active == pytest.approx(2 / 3)
    assert found["c"].kernels[0].name.startswith("void pytorch_flash::flash_fwd_kernel<")
    assert found["b"].source == "Nsight Compute 2025.3.1"
    (start,) = fake.starts()
    assert start[start.index("--metrics") + 1].split(",") == list(CHIPS[9, 0].metrics)


PLUGIN = '''"""A variant that raises."""
from variants.variant import Variant

class Raises(Variant):
    stage = "qkv"
    name = "raises"
    def call(self, x):
        raise ValueError("no such luck")
'''


def test_real_children_prepare_real_variants_and_one_that_raises_costs_no_other(tmp_path, monkeypatch):
    plugin = tmp_path / "raises.py"
    plugin.write_text(PLUGIN)
    small = {"batch": 1, "seq_len": 8, "d_model": 16, "n_head": 2, "head_dim": 8, "dtype": "fp32"}
    cases = [builders.case(name, **small) for name in ("fused", "raises", "fused_qkv")]
    found, fake = count(
        tmp_path,
        monkeypatch,
        script(runs=True, log=recorded.text()),
        cases=cases,
        environment={**ENVIRONMENT, "device": "cpu"},
        plugins=remember((plugin,)),
    )
    assert len(fake.starts()) == 1
    recorded_of = recorded.numbers(recorded.text())
    assert (recorded_of["fa2-32-full"], recorded_of["cudnn-32-full"]) == (0, 1)
    assert found["fused"].tensor_active_percent == 30.46
    assert found["fused_qkv"].tensor_active_percent == 45.63
    assert found["raises"].reason == "raised ValueError: no such luck (raises.py:8)"
    assert found["raises"].tensor_active_percent is None


def test_many_launches_may_be_silent_for_longer(tmp_path):
    with measured(tmp_path / "runs", silence_s=5.0) as writer:
        writer.observe(Observation(B, dispatch=Dispatch(launches=288.0)))
        runner = Counting(writer, Quiet())
        assert runner._silence_s([A]) == 5.0 + counting.UNKNOWN_LAUNCHES * counting.LONGEST_LAUNCH_S
        assert runner._silence_s([A, B]) == 5.0 + 288 * counting.LONGEST_LAUNCH_S


def test_a_call_of_a_thousand_kernels_is_not_counted_and_says_why(tmp_path, monkeypatch):
    fake = FakeNcu(
        tmp_path, monkeypatch, script([*called(A, FA2_64), *called(C, CUDNN_72), DONE], log=recorded.text())
    )
    with measured(tmp_path / "runs") as writer:
        writer.observe(Observation(A, dispatch=Dispatch(launches=float(counting.MOST_LAUNCHES))))
        writer.observe(Observation(B, dispatch=Dispatch(launches=1452.0)))
        Counting(writer, Quiet()).run()
        found = counted_in(writer)
    assert [variants_of(job) for job in fake.jobs()] == [["a", "c"]]
    assert found["a"].reason is None
    assert found["b"].reason == (
        "a call launches 1,452 kernels, and Nsight Compute counts at most 400 here: one layer's counters tell as much"
    )


def test_an_interrupt_loses_one_process_cases_and_no_more(tmp_path, monkeypatch):
    class Interrupted(Quiet):
        begun = 0

        def begin(self, part):
            self.begun += 1
            if self.begun == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(counting, "MOST_CASES", 2)
    table = recorded.text()
    first = script([*called(A, FA2_64), *called(B, CUDNN_64), DONE], log=table)
    fake = FakeNcu(tmp_path, monkeypatch, first, script([*called(C, CUDNN_72), DONE], log=table))
    with measured(tmp_path / "runs") as writer:
        with pytest.raises(KeyboardInterrupt):
            Counting(writer, Interrupted()).run()
        found = counted_in(writer)
        assert (found["a"].tensor_active_percent, found["c"]) == (44.30, None)
        Counting(writer, Quiet()).run()
        assert counted_in(writer)["c"].tensor_active_percent == 66.00
    assert [variants_of(job) for job in fake.jobs()] == [["a", "b"], ["c"]]


def test_only_cases_that_lack_counters_and_have_a_time_are_counted(tmp_path, monkeypatch):
    fake = FakeNcu(tmp_path, monkeypatch, script([*called(C, CUDNN_64), DONE], log=recorded.text()))
    with measured(tmp_path / "runs") as writer:
        writer.append(builders.trial(A, outcome=Outcome.CRASHED))
        writer.observe(Observation(B, counters=Counters(tensor_active_percent=1.0)))
        Counting(writer, Quiet()).run()
        Counting(writer, Quiet()).run()
    assert [variants_of(job) for job in fake.jobs()] == [["c"]]


def test_a_run_that_did_not_ask_for_counters_starts_nothing(tmp_path, monkeypatch):
    fake = FakeNcu(tmp_path, monkeypatch, script([DONE]))
    with measured(tmp_path / "runs", counters="gpm") as writer:
        Counting(writer, Quiet()).run()
    assert fake.starts() == []


def test_counting_takes_a_start_for_every_24_cases_and_time_for_every_launch():
    assert usual_s([]) == 0
    one, many = usual_s([1.0]), usual_s([1.0] * 24)
    assert one < many < 24 * one
    assert usual_s([1.0] * 25) - many > counting.USUAL_START_S
    assert usual_s([101.0]) - one == pytest.approx(100 * counting.USUAL_LAUNCH_S)
    assert usual_s([None]) == usual_s([counting.UNKNOWN_LAUNCHES])


@pytest.mark.parametrize(
    ("counters", "device", "more"), [("ncu", "cuda:0", True), ("ncu", "cpu", False), ("gpm", "cuda:0", False)]
)
def test_a_run_announces_what_counting_takes_beyond_its_budget(counters, device, more):
    group = SimpleNamespace(direction="forward", cases=range(48))
    plan = SimpleNamespace(measured=48, groups=(group,))
    settings = {"counters": counters, "replicates": 1, "budget_s": 600.0, "watched": True}
    said = run_command._estimate(plan, {"device": device}, settings)
    beyond = f", and some {usual_s([None] * 48):.0f} s more for Nsight Compute"
    assert said == f"up to about 600 s{beyond if more else ''}"


def test_where_some_cases_are_asked_for_the_others_get_the_reason(tmp_path, monkeypatch):
    fake = FakeNcu(tmp_path, monkeypatch, script([*called(B, CUDNN_64), DONE], log=recorded.text()))
    with measured(tmp_path / "runs") as writer:
        Counting(writer, Quiet(), asked=(B,)).run()
        assert writer.run.unobserved().get("counters", []) == []
        found = counted_in(writer)
    assert found["b"].issued_flops is not None
    assert found["a"].issued_flops is found["c"].issued_flops is None
    assert found["a"].reason == "no claim asks for its counters: run --counters ncu has them"
    assert len(fake.starts()) == 1
