"""One run over variants that crash, hang, exit, shout and starve: each loses its own case and no other's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import results
from results.schema import Outcome

from .commands import PLUGINS, only_run, tiny_run

if TYPE_CHECKING:
    from results import Run

EXPECTED = {
    "honest": (Outcome.OK, None),
    "prints_megabytes": (Outcome.OK, None),
    "sets_state": (Outcome.OK, None),
    "leaves_threads_running": (Outcome.OK, None),
    "spoils_its_input_and_raises": (Outcome.CRASHED, "ValueError: after the damage"),
    "returns_a_generator": (
        Outcome.INCORRECT,
        "`call` gave a generator: a tensor, or tensors in tuples and lists",
    ),
    "segfaults": (Outcome.CRASHED, "SIGSEGV"),
    "segfaults_while_timed": (Outcome.CRASHED, "SIGSEGV"),
    "kills_itself": (Outcome.CRASHED, "SIGKILL"),
    "hangs": (Outcome.TIMED_OUT, "no sign of life for 5 s"),
    "exits_quietly": (Outcome.CRASHED, "exit code 0"),
    "calls_exit": (Outcome.CRASHED, "exit code 3 (hostile.py:"),
    "raises": (Outcome.CRASHED, "KeyError: 'no such head' (hostile.py:"),
    "cannot_be_built": (Outcome.CRASHED, "ValueError: no heads at all (hostile.py:"),
    "raises_in_canonical": (Outcome.CRASHED, "IndexError: no such axis (hostile.py:"),
    "raises_while_timed": (Outcome.CRASHED, "RuntimeError: only later (hostile.py:"),
    "changes_its_input_later": (Outcome.INCORRECT, "changes its inputs in place"),
    "remembers_by_address": (Outcome.INCORRECT, "after timing: worst row off"),
    "asks_for_too_much": (Outcome.OUT_OF_MEMORY, "can't allocate memory"),
    "computes_when_asked": (Outcome.INCORRECT, "may only rearrange"),
    "declines": (Outcome.UNSUPPORTED, "only on Thursdays"),
}


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str, str, int]:
    out = tmp_path_factory.mktemp("hostile")
    names = ",".join([*EXPECTED, "sdpa"])
    done = tiny_run(
        out,
        *("--plugin", PLUGINS / "hostile.py", "--variant", names),
        *("--stage", "attention", "--replicates", 2, "--silence", "5s"),
    )
    return results.read(only_run(out)), done.stdout, done.stderr, done.returncode


def test_every_fault_is_the_culprits_alone_and_says_what_happened(hostile_run):
    run, *_ = hostile_run
    found = {record.case.variant: record for record in run.records()}
    assert found.keys() == {*EXPECTED, "sdpa"}
    for name, (outcome, reason) in EXPECTED.items():
        assert found[name].outcome is outcome, f"{name}: {found[name].reason}"
        assert reason is None or reason in found[name].reason
    assert found["sdpa"].outcome is Outcome.OK


def test_the_others_are_measured_in_every_replicate(hostile_run):
    run, *_ = hostile_run
    for record in run.records():
        if record.outcome is Outcome.OK:
            assert record.replicates == 2
            assert record.estimates["eager"].value_s > 0
    assert run.missing() == []
    assert run.notes == []


def test_a_failed_case_makes_the_exit_code_1_and_is_told_in_the_table(hostile_run):
    run, stdout, _, code = hostile_run
    assert code == 1
    assert "FAILED" in stdout
    assert "only on Thursdays" in stdout
    assert str(run.path) in stdout


def test_noise_is_never_taken_for_an_event_and_never_reaches_the_user(hostile_run):
    _, stdout, stderr, _ = hostile_run
    assert "xxxxxxxx" not in stdout + stderr
    assert len(stdout) < 20_000
