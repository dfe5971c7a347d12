"""What `ab` ends with: an exit code for every kind of session, and one line for each way to ask wrongly."""

from __future__ import annotations

import signal
import tempfile
from dataclasses import replace

import pytest

from harness.ab_command import exit_code
from results.schema import MODES, Outcome
from tests.results import builders, sessions

from .commands import refused

CASE, OTHER = builders.case("one"), builders.case("other")
SLOWER = sessions.side_trials(CASE, sessions.SLOWER, MODES)
AGAIN = [
    replace(one, replicate=one.replicate + 10)
    for one in sessions.side_trials(CASE, sessions.SLOWER * 2, MODES)
]
STEADY = sessions.side_trials(CASE, sessions.STEADY * 4, MODES)
NOISY = sessions.side_trials(CASE, sessions.NOISY * 2, MODES)
CRASHED = [builders.trial(OTHER, 0, outcome=Outcome.CRASHED, reason="it died", timings={})]
TOO_LARGE = [builders.trial(OTHER, 0, outcome=Outcome.OUT_OF_MEMORY, reason="too large", timings={})]
UNCAPTURED = sessions.side_trials(CASE, sessions.STEADY, ["isolated", "eager"])
UNGUARDED = sessions.side_trials(CASE, sessions.STEADY, ["eager"])
OK = [sessions.trial(OTHER, 0, dict.fromkeys(MODES, 1e-4))]


@pytest.mark.parametrize(
    ("base", "head", "code"),
    [
        (STEADY, STEADY, 0),
        (SLOWER, STEADY, 0),
        (STEADY, [*SLOWER, *AGAIN], 3),
        (STEADY, SLOWER, 4),
        (STEADY, NOISY, 4),
        (STEADY, UNCAPTURED, 4),
        (UNCAPTURED, STEADY, 0),
        ([*STEADY, *OK], [*STEADY, *TOO_LARGE], 4),
        ([], [], 4),
        (UNGUARDED, UNGUARDED, 4),
        (TOO_LARGE, TOO_LARGE, 4),
        ([*STEADY, *OK], [*SLOWER, *AGAIN, *CRASHED], 1),
        ([*STEADY, *CRASHED], [*STEADY, *OK], 0),
        ([*STEADY, *CRASHED], [*SLOWER, *AGAIN, *OK], 3),
        (CRASHED, CRASHED, 1),
    ],
)
def test_the_exit_code_is_the_worst_of_what_head_has_done(base, head, code):
    runs = sessions.runs(base, head)
    assert exit_code(runs.comparisons(), runs) == code


def test_a_self_check_has_no_verdict_to_fail_with():
    settings = {"ab": {"self_check": True}}
    runs = sessions.runs(STEADY, NOISY, settings=settings)
    assert exit_code(runs.comparisons(), runs) == 0
    nothing = sessions.runs(UNGUARDED, UNGUARDED, settings=settings)
    assert exit_code(nothing.comparisons(), nothing) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("name a git ref", "python -m harness ab main", "--base-python", "--self-check")),
        (("main", "--self-check"), ("--self-check", "neither refs nor a Python")),
        (("--self-check", "--base-python", "python3"), ("--self-check",)),
        (("main", "--guard", "isolatd"), ("'isolatd'", "isolated")),
        (("main", "--guard", ","), ("--guard",)),
        (("main", "--budget", "soon"), ("--budget", "'soon'")),
        (("main", "--stage", "qvk"), ("'qvk'", "qkv")),
        (("main",), ("no working tree around", "change into the checkout")),
        (("--base-python", "/nowhere/python"), ("--base-python /nowhere/python", "no program", "bin/python")),
        (("--base-python", "/"), ("--base-python /", "no program")),
        (("--head-python", "/bin/ls"), ("--head-python /bin/ls", "does not answer as Python")),
    ],
)
def test_wrong_usage_ends_in_one_line_before_anything_is_started(
    tmp_path, monkeypatch, capsys, arguments, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    line = refused(capsys, monkeypatch, "ab", *arguments)
    for word in words:
        assert word in line
    assert list(tmp_path.iterdir()) == []


def test_signals_are_what_they_were_after_a_refusal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    refused(capsys, monkeypatch, "ab", "main")
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
