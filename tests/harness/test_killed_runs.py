"""What was measured survives Ctrl-C, SIGKILL of parent or worker, and a disk that refuses; --resume goes on."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import results
from tests.results import builders

from .commands import PLUGINS, TINY, children_of, command, environment, headbench, only_run, tiny_run

# Three stages of quick cases: some trials are stored while others are still to come.
WORK = ("run", *TINY, "--stage", "qkv,attention,output", "--replicates", 3, "--budget", "20s")


@pytest.fixture
def started(tmp_path: Path):
    process = subprocess.Popen(
        command(*WORK, "--out", tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    yield process
    process.kill()
    process.wait()


def wait_for(condition, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail("waited in vain")


def stored_trials(out: Path) -> int:
    return sum(file.read_bytes().count(b'"outcome":"ok"') for file in out.glob("*/trials.jsonl"))


def workers_of(parent: int) -> list[int]:
    return [
        pid for pid in children_of(parent) if b"harness.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_readable_run_and_says_how_to_go_on(started, tmp_path, number):
    wait_for(lambda: stored_trials(tmp_path) > 1)
    started.send_signal(number)
    started.send_signal(number)  # an impatient user must not cut off what is still said
    stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "Traceback" not in stderr
    path = only_run(tmp_path)
    assert f"run --resume {path}" in stderr
    assert "unfinished" in stdout
    assert results.read(path).missing()


def test_sigkill_of_the_parent_ends_its_worker_and_resume_measures_only_what_is_missing(started, tmp_path):
    wait_for(lambda: stored_trials(tmp_path) > 1)
    (worker,) = wait_for(lambda: workers_of(started.pid))
    started.kill()
    started.wait()
    wait_for(
        lambda: not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text(), 10
    )
    path = only_run(tmp_path)
    before = (path / "trials.jsonl").read_bytes()
    whole = before[: before.rfind(b"\n") + 1]

    done = headbench("run", "--resume", path, "--budget", "1s")

    assert done.returncode == 0, done.stderr
    after = (path / "trials.jsonl").read_bytes()
    assert after.startswith(whole)
    run = results.read(path)
    assert run.missing() == []
    identities = [(trial.replicate, trial.case) for trial in run.trials]
    assert len(identities) == len(set(identities)), "a trial was measured twice"


def test_a_worker_killed_from_outside_costs_nothing_but_time(started, tmp_path):
    wait_for(lambda: stored_trials(tmp_path) > 1)
    (worker,) = wait_for(lambda: workers_of(started.pid))
    os.kill(worker, signal.SIGKILL)
    _, stderr = started.communicate(timeout=90)
    assert started.returncode == 0, stderr
    assert "SIGKILL" in stderr
    run = results.read(only_run(tmp_path))
    assert run.missing() == []
    assert all(record.outcome == "ok" for record in run.records() if record.outcome != "unavailable")


def test_a_full_disk_ends_the_run_with_one_line_and_keeps_what_was_stored(tmp_path):
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        command("run", *TINY, "--stage", "qkv", "--budget", "1s", "--seq-len", "17,18,19,20,21", "--out", tmp_path),
        capture_output=True, text=True, env=environment(), preexec_fn=small_files, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert "trials.jsonl" in last
    assert "--resume" in last
    run = results.read(only_run(tmp_path))
    assert run.trials
    assert "qkv" in done.stdout, "what was measured is shown all the same"


def test_a_worker_killed_while_it_starts_is_started_again(started, tmp_path):
    (worker,) = wait_for(lambda: workers_of(started.pid))
    os.kill(worker, signal.SIGKILL)
    _, stderr = started.communicate(timeout=90)
    assert started.returncode == 0, stderr
    assert "once more" in stderr
    assert results.read(only_run(tmp_path)).missing() == []


def test_a_folder_deleted_while_the_run_goes_on_is_no_success(started, tmp_path):
    wait_for(lambda: stored_trials(tmp_path) > 0)
    shutil.rmtree(only_run(tmp_path))
    _, stderr = started.communicate(timeout=90)
    assert started.returncode == 1
    assert "cannot store a trial" in stderr
    assert "Traceback" not in stderr


def test_a_plugin_edited_while_the_run_goes_on_ends_it(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text((PLUGINS / "hostile.py").read_text())
    out = tmp_path / "runs"
    arguments = ("run", *TINY, "--plugin", plugin, "--variant", "honest", "--budget", "3s", "--out", out)
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True, env=environment())
    wait_for(lambda: stored_trials(out) > 0)
    plugin.write_text(plugin.read_text() + "\n# changed\n")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "has changed since the run began" in stderr


def test_a_kill_before_the_left_out_cases_are_stored_does_not_get_them_measured(tmp_path):
    names = ("--stage", "attention", "--variant", "sdpa,sdpa_flash,sdpa_math", "--replicates", 1)
    assert tiny_run(tmp_path, *names).returncode == 0
    path = only_run(tmp_path)
    (path / "trials.jsonl").write_bytes(b"")
    assert headbench("run", "--resume", path, "--budget", "1s").returncode == 0
    outcomes = {record.case.variant: record.outcome for record in results.read(path).records()}
    assert outcomes == {"sdpa": "ok", "sdpa_flash": "unavailable", "sdpa_math": "unavailable"}


@pytest.mark.parametrize(
    "damage",
    [
        {"cases": []},
        {"settings": {}},
        {"environment": {}},
        {"settings": {"budget_s": "x"}},
        {"replicates": 0},
    ],
)
def test_resuming_a_damaged_manifest_ends_in_one_line(tmp_path, damage):
    path = builders.stored(tmp_path)
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **damage}))
    for arguments in (("run", "--resume", path), ("report", path)):
        done = headbench(*arguments)
        assert done.returncode in (0, 1, 2)
        assert done.stderr.count("\n") <= 1
    assert headbench("run", "--resume", path).returncode == 2


def test_a_line_cut_in_the_middle_is_reported_and_measured_again(tmp_path):
    assert tiny_run(tmp_path, "--stage", "output", "--replicates", 1).returncode == 0
    path = only_run(tmp_path)
    trials = path / "trials.jsonl"
    trials.write_bytes(trials.read_bytes()[:-40])

    shown = headbench("report", path)
    assert shown.returncode == 0
    assert "cut off" in shown.stdout

    assert headbench("run", "--resume", path, "--budget", "1s").returncode == 0
    assert results.read(path).missing() == []


def test_a_run_of_a_newer_schema_is_refused_in_one_line(tmp_path):
    assert (
        tiny_run(tmp_path, "--stage", "output", "--variant", "concat_matmul", "--replicates", 1).returncode
        == 0
    )
    path = only_run(tmp_path)
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema": 99}))
    for arguments in (("report", path), ("run", "--resume", path)):
        done = headbench(*arguments)
        assert done.returncode == 2
        assert "schema 99" in done.stderr
        assert "upgrade" in done.stderr


def test_resume_refuses_a_changed_plugin_and_options_that_contradict_the_run(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text((PLUGINS / "hostile.py").read_text())
    out = tmp_path / "runs"
    assert tiny_run(out, "--plugin", plugin, "--variant", "honest", "--replicates", 1).returncode == 0
    path = only_run(out)

    done = headbench("run", "--resume", path, "--seq-len", 64)
    assert done.returncode == 2
    assert "only --budget" in done.stderr

    plugin.write_text(plugin.read_text() + "\n# changed\n")
    done = headbench("run", "--resume", path)
    assert done.returncode == 2
    assert "has changed since" in done.stderr
