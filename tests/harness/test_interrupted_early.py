"""An interrupt before anything is measured: one line, exit 130, nothing left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from .commands import TINY, children_of, command, environment
from .scripted_trees import scripted_checkout

if TYPE_CHECKING:
    from pathlib import Path


def interrupted(arguments: tuple[object, ...], number: int, cwd: Path, temporary: Path, announced: bool):
    """The finished command, interrupted while its probe runs, or as soon as it has printed its plan."""
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        env={**environment(), "TMPDIR": str(temporary)},
    )  # fmt: skip
    try:
        if announced:
            assert process.stdout is not None
            while not re.search(" about | at least ", process.stdout.readline()):
                assert process.poll() is None
        else:
            while not children_of(process.pid):
                assert process.poll() is None
                time.sleep(0.005)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, stderr, children_of(process.pid)


@pytest.fixture
def temporary(tmp_path):
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.mark.parametrize(
    ("tool", "number"),
    [(tool, signal.SIGINT) for tool in ("run", "ab", "list", "doctor")]
    + [(tool, signal.SIGTERM) for tool in ("run", "ab")],
)
def test_an_interrupt_while_the_machine_is_looked_at_ends_in_one_line(tmp_path, temporary, tool, number):
    checkout = scripted_checkout(tmp_path / "checkout", {"sdpa": {}})
    arguments = {
        "run": ("run", *TINY, "--stage", "output", "--out", tmp_path / "runs"),
        "ab": ("ab", "main", "--out", tmp_path / "runs"),
        "list": ("list", "--device", "cpu"),
        "doctor": ("doctor", "--device", "cpu"),
    }[tool]
    code, stderr, left = interrupted(arguments, number, checkout, temporary, announced=False)
    assert (code, stderr) == (130, "headbench: interrupted before anything was measured\n")
    assert not (tmp_path / "runs").exists()
    assert not left
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ab_interrupted_right_after_its_plan_leaves_no_session(tmp_path, temporary, number):
    checkout = scripted_checkout(tmp_path / "checkout", {"sdpa": {"takes_s": 20}})
    arguments = ("ab", "main", "--out", tmp_path / "runs")
    code, stderr, left = interrupted(arguments, number, checkout, temporary, announced=True)
    assert (code, stderr) == (130, "headbench: interrupted before anything was measured\n")
    assert not list(tmp_path.glob("runs/*"))
    assert not left
    assert not list(temporary.iterdir())


SLOW_DISK = """
import os, runpy, signal, sys

left = iter(range(int(sys.argv.pop(1)) - 1, -1, -1))
os.fsync = lambda _: next(left) or signal.raise_signal(signal.SIGTERM)
runpy.run_module("harness", run_name="__main__", alter_sys=True)
"""
"""The command, met by a signal during the Nth sync."""


@pytest.mark.parametrize("sync", range(1, 7))
def test_an_ab_interrupted_while_its_session_is_made_leaves_none(tmp_path, temporary, sync):
    checkout = scripted_checkout(tmp_path / "checkout", {"sdpa": {"takes_s": 20}})
    done = subprocess.run(
        [sys.executable, "-c", SLOW_DISK, str(sync), "ab", "main", "--out", tmp_path / "runs"],
        cwd=checkout, env={**environment(), "TMPDIR": str(temporary)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "headbench: interrupted before anything was measured\n")
    assert not list(tmp_path.glob("runs/*"))
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_interrupted_right_after_its_plan_says_so_in_one_line(tmp_path, temporary, number):
    arguments = ("run", *TINY, "--stage", "output", "--out", tmp_path / "runs")
    code, stderr, left = interrupted(arguments, number, tmp_path, temporary, announced=True)
    assert code == 130
    assert "interrupted before anything was measured" in stderr
    assert stderr.count("\n") == 1
    assert not left


SLOW_IMPORT = """
import runpy, signal, sys

class Interrupted:
    def find_spec(name, *_):
        if name == "harness.report_command":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupted)
runpy.run_module("harness", run_name="__main__", alter_sys=True)
"""
"""The command, met by a signal while it loads what shows a run."""


def test_a_run_that_has_begun_is_never_said_to_be_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SLOW_IMPORT, "run", *TINY, "--stage", "output", "--out", tmp_path],
        env=environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "stored in" in done.stdout
