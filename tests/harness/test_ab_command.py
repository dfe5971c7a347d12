"""`ab` as a user runs it, with real git and real processes; what the workers send is scripted, to be judged exactly."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys
import venv
from statistics import median
from typing import TYPE_CHECKING

import pytest

from results.paired import read_pairs

from .commands import IMPORTED, TINY, children_of, command, environment, has_ended, headbench, only_run
from .scripted_trees import git, headbench_tree, repository, script, scripted_checkout, write
from .test_killed_runs import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SIZES = ("--d-model", "32", "--n-head", "2", "--seq-len", "16", "--batch", "1")
SAME = {"steady": {}}


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where temporary files go: a command that has ended must have left none."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def ab(checkout: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return headbench(
        "ab", *arguments, *SIZES, "--budget", "1s", "--out", checkout.parent / "runs", cwd=checkout
    )


def verdicts(out: Path) -> dict[tuple[str, str], str]:
    rows = read_pairs(only_run(out)).comparisons().rows
    return {(row.case.variant, row.mode): row.verdict.value for row in rows}


def pairs_of(out: Path) -> dict[str, list[list[int]]]:
    """The replicates that each side has of each variant."""
    pairs = read_pairs(only_run(out))
    return {
        case.variant: [
            [one.replicate for one in run.trials if one.case == case] for run in (pairs.base, pairs.head)
        ]
        for case in pairs.base.manifest.cases
    }


def test_a_planted_slowdown_is_found_confirmed_and_ends_with_3_and_the_checkout_is_left_alone(
    tmp_path, scratch
):
    checkout = scripted_checkout(
        tmp_path / "checkout", {"steady": {}, "slow": {}, "fast": {}, "noisy": {}, "gone": {}}
    )
    committed = git(checkout, "rev-parse", "HEAD").strip()
    planted = {"slow": {"factor": 1.03, "fresh": 1.03}, "fast": {"factor": 0.9}, "noisy": {"sigma": 0.05}}
    script(checkout, {"steady": {}, **planted, "new": {}})
    before = sorted(checkout.rglob("*"))

    done = ab(checkout, "HEAD")

    assert done.returncode == 3, done.stderr
    out = tmp_path / "runs"
    found = verdicts(out)
    assert {variant: found[variant, "isolated"] for variant, _ in found} == {
        "steady": "same", "slow": "slower", "fast": "faster", "noisy": "undecided",
    }  # fmt: skip
    assert pairs_of(out) == {
        "steady": [[*range(5)]] * 2, "fast": [[*range(5)]] * 2, "gone": [[], []],
        "noisy": [[*range(10)]] * 2, "slow": [[*range(5), *range(10, 20)]] * 2,
    }  # fmt: skip
    assert "only in base, so not compared: gone" in done.stdout
    assert "only in head, so not compared: new" in done.stdout
    assert f"base: HEAD ({committed[:7]}); head: working tree ({committed[:7]}, with changes)" in done.stdout

    base, head = (
        json.loads((only_run(out) / side / "manifest.json").read_text()) for side in ("base", "head")
    )
    assert base["environment"]["git"] == {"commit": committed, "clean": True}
    assert head["environment"]["git"] == {"commit": committed, "clean": False}
    assert list(scratch.iterdir()) == []
    assert sorted(checkout.rglob("*")) == before
    assert git(checkout, "worktree", "list").count("\n") == 1
    assert git(checkout, "status", "--porcelain").split() == ["M", "script.json"]


def test_the_same_code_is_not_called_different_and_the_exit_code_is_0(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", {f"v{i}": {} for i in range(12)})
    git(checkout, "branch", "other")
    done = ab(checkout, "main", "other")
    assert done.returncode == 0, done.stderr
    assert set(verdicts(tmp_path / "runs").values()) == {"same"}
    assert "base and head hold the same code" in done.stdout
    assert "more pairs of" not in done.stderr


@pytest.mark.parametrize(("dying", "code"), [("head", 1), ("base", 0)])
def test_a_case_that_crashes_on_one_side_stops_no_other_and_only_heads_fault_is_a_fault(
    tmp_path, scratch, dying, code
):
    good, bad = {"steady": {}, "dies": {}, "other": {}}, {"steady": {}, "dies": {"dies": True}, "other": {}}
    checkout = scripted_checkout(tmp_path / "checkout", bad if dying == "base" else good)
    script(checkout, bad if dying == "head" else good)
    done = ab(checkout, "HEAD")
    assert done.returncode == code, done.stderr
    found = verdicts(tmp_path / "runs")
    assert found["steady", "isolated"] == found["other", "graph"] == "same"
    assert found["dies", "isolated"] == "incomparable"
    assert f"{dying} is crashed" in " ".join(done.stdout.split())
    assert [len(side) for side in pairs_of(tmp_path / "runs")["dies"]] == [1, 1], (
        "tried once, then left alone"
    )


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("harness/worker.py", ("head: a worker could not start", "NameError: name 'nonsense'")),
        ("harness/probe.py", ("head (working tree", "NameError: name 'nonsense'")),
    ],
)
def test_a_side_whose_code_cannot_run_at_all_is_named_in_one_line(tmp_path, scratch, broken, words):
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    write(checkout, {broken: "nonsense\n"})
    done = ab(checkout, "HEAD")
    assert done.returncode == 1
    *_, line = done.stderr.splitlines()
    for word in words:
        assert word in line
    assert list(scratch.iterdir()) == []


def test_a_change_of_the_measuring_code_is_told_and_one_of_the_command_line_is_not(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    for file in ("results/schema.py", "harness/cli.py"):
        write(checkout, {file: (checkout / file).read_text() + "\n# changed\n"})
    done = ab(checkout, "HEAD", "--dry-run")
    assert (
        "the measuring code differs (results/schema.py): a difference in time may be the clock's"
        in done.stdout
    )
    assert "attention/forward/b1-t16-h2x16-causal-bf16/steady" in done.stdout


def test_a_checkout_from_before_there_were_directions_is_not_measured_in_them(tmp_path, scratch):
    """Its worker would take a backward for a forward, and the verdict would be on that."""
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    done = ab(checkout, "HEAD", "--direction", "backward")
    assert done.returncode == 4
    assert "nothing can be compared: no case can be measured on both sides" in done.stdout + done.stderr


def test_real_workers_measure_the_code_of_their_own_side(tmp_path, scratch):
    checkout = repository(headbench_tree(tmp_path / "checkout"), {})
    variant = "variants/output/concat_matmul.py"
    planted = (
        (checkout / variant)
        .read_text()
        .replace("        return", "        __import__('time').sleep(0.05)\n        return")
    )
    write(checkout, {variant: planted})
    out = tmp_path / "runs"
    process = subprocess.Popen(
        command("ab", "HEAD", *TINY, "--variant", "concat_matmul", "--budget", "1s", "--out", out),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), cwd=checkout,
    )  # fmt: skip
    try:
        wait_for(lambda: len([file for file in out.glob("*/*/trials.jsonl") if file.stat().st_size]) == 2)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    pairs = read_pairs(only_run(out))
    base_s, head_s = (median(run.trials[0].timings["eager"].used_s) for run in (pairs.base, pairs.head))
    assert base_s < 0.05 <= head_s


def test_the_parent_imports_no_torch(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    arguments = ("ab", "HEAD", *SIZES, "--out", str(tmp_path / "runs"))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(arguments=arguments, names={"torch", "cupy"})],
        capture_output=True, text=True, env=environment(), cwd=checkout, check=True,
    )  # fmt: skip
    assert "CODE 0" in done.stdout, done.stderr
    assert done.stdout.rpartition("IMPORTED")[2].split() == []


def test_another_python_is_a_side_of_its_own_and_needs_no_base(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    venv.create(tmp_path / "old", symlinks=True)
    python = tmp_path / "old" / "bin" / "python"
    done = ab(checkout, "--base-python", python)
    assert done.returncode == 0, done.stderr
    pairs = read_pairs(only_run(tmp_path / "runs"))
    assert pairs.base.manifest.environment["prefix"] == str(tmp_path / "old")
    assert pairs.head.manifest.environment["prefix"] == sys.prefix
    assert str(python) in pairs.comparisons().base


def test_nothing_that_both_sides_have_ends_with_4_and_stores_nothing(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", {"old": {}, "both": {"missing": "needs more"}})
    script(checkout, {"new": {}, "both": {"missing": "needs more"}})
    done = ab(checkout, "HEAD")
    assert done.returncode == 4
    assert "nothing can be compared" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_only_takes_globs_of_keys_stages_and_variants_and_refuses_one_that_matches_nothing(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", {"one": {}, "two": {}, "three": {}})
    shown = ab(checkout, "HEAD", "--dry-run", "--only", "t*o,*/three").stdout
    assert [name for name in ("one", "two", "three") if f"/{name}\n" in shown] == ["two", "three"]
    done = ab(checkout, "HEAD", "--dry-run", "--only", "four")
    assert done.returncode == 2
    assert "--only four matches no case" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_leaves_a_session_that_is_judged_and_nothing_else(tmp_path, scratch, number):
    checkout = scripted_checkout(tmp_path / "checkout", {"steady": {}, "slow": {"takes_s": 0.3}})
    out = tmp_path / "runs"
    process = subprocess.Popen(
        command("ab", "HEAD", *SIZES, "--out", out),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=checkout,
    )  # fmt: skip
    wait_for(lambda: sum(file.read_bytes().count(b"\n") for file in out.glob("*/*/trials.jsonl")) > 3)
    children = wait_for(lambda: children_of(process.pid))
    process.send_signal(number)
    process.send_signal(number)  # an impatient user must not cut off the clearing up
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted" in stderr
    assert "steady" in stdout
    assert list(scratch.iterdir()) == []
    assert all(has_ended(pid) for pid in children)
    assert git(checkout, "worktree", "list").count("\n") == 1
    rows = read_pairs(only_run(out)).comparisons().rows
    assert {row.verdict.value for row in rows} == {"undecided"}


def test_a_dry_run_and_a_wrong_ref_leave_no_temporary_folder(tmp_path, scratch):
    checkout = scripted_checkout(tmp_path / "checkout", SAME)
    assert ab(checkout, "HEAD", "--dry-run").returncode == 0
    done = ab(checkout, "mian")
    assert done.returncode == 2
    assert "git ref 'mian' is unknown: did you mean main?" in done.stderr
    assert list(scratch.iterdir()) == []


def test_a_self_check_compares_the_working_tree_with_itself_and_tells_what_this_machine_can_find(
    tmp_path, scratch
):
    checkout = scripted_checkout(tmp_path / "checkout", {"steady": {}, "noisy": {"sigma": 0.003}})
    script(checkout, {"steady": {}, "noisy": {"sigma": 0.004}})
    done = ab(checkout, "--self-check", "--only", "noisy")
    assert done.returncode == 0, done.stderr
    pairs = read_pairs(only_run(tmp_path / "runs"))
    assert (
        pairs.base.manifest.environment["source_sha256"] == pairs.head.manifest.environment["source_sha256"]
    )
    assert pairs.base.manifest.settings["ab"]["self_check"] is True
    said = " ".join(done.stdout.split())
    assert "self-check: identical code called different in 0 of 2 comparisons" in said
    assert "isolated: 10 pairs find a slowdown of" in said
    assert "same code" not in said, "that is what was asked for"


def test_a_full_temporary_disk_ends_in_one_line(tmp_path, monkeypatch, capsys):
    from harness import sides
    from harness.ab_command import Options, start
    from harness.errors import HeadbenchError

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sides.shutil, "copytree", refuse)
    with pytest.raises(HeadbenchError, match="No space left on device; TMPDIR names another folder") as told:
        start(Options(self_check=True))
    assert told.value.exit_code == 1
    every = shutil.Error([("a", "b", "[Errno 28] No space left on device"), ("c", "d", "the same")])
    monkeypatch.setattr(sides.shutil, "copytree", lambda *_, **__: (_ for _ in ()).throw(every))
    with pytest.raises(
        HeadbenchError, match=r"/headbench-ab-\w+: \[Errno 28\] No space left on device; TMPDIR"
    ):
        start(Options(self_check=True))
