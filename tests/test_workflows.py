"""What the workflows promise: whose code runs where, with which rights, and what `ab`'s answers do to a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    data: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    return {"on" if key is True else key: value for key, value in data.items()}  # YAML 1.1 reads `on` as true


def steps() -> list[dict[str, Any]]:
    return [step for file in FILES for job in workflow(file.stem)["jobs"].values() for step in job["steps"]]


def test_there_is_one_for_the_cpu_and_one_for_the_gpu() -> None:
    assert [file.stem for file in FILES] == ["ci", "gpu-regression"]


def test_no_pull_request_starts_anything_on_the_gpu_runner() -> None:
    for file in FILES:
        described = workflow(file.stem)
        on_our_machine = any("self-hosted" in str(job["runs-on"]) for job in described["jobs"].values())
        if on_our_machine:
            assert set(described["on"]) <= {"push", "workflow_dispatch"}
    assert "self-hosted" in str(workflow("gpu-regression")["jobs"]["ab"]["runs-on"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rights_are_read_only_and_given_job_by_job(file: Path) -> None:
    described = workflow(file.stem)
    assert described["permissions"] == {}
    for job in described["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        assert job["timeout-minutes"] <= 90


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_to_a_commit_that_names_its_version(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    for one in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_no_script_is_built_from_what_somebody_else_wrote() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    assert scripts
    for script in scripts:
        assert "${{" not in script
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_measurements_wait_for_each_other_and_only_a_newer_push_cuts_one_short() -> None:
    described = workflow("gpu-regression")
    job = described["jobs"]["ab"]
    assert job["concurrency"] == {"group": "gpu", "cancel-in-progress": False}
    assert "github.ref" in described["concurrency"]["group"]
    assert described["concurrency"]["cancel-in-progress"] is True


@dataclass
class Job:
    """`.ci/gpu-regression` in a repository of two commits, with a stand-in for Python that plays `harness`."""

    root: Path

    def run(
        self, code: int, base: str = "HEAD~1", session: bool = True, comparable: bool = True
    ) -> subprocess.CompletedProcess[str]:
        bin_folder = self.root / "bin"
        bin_folder.mkdir(exist_ok=True)
        made = "mkdir -p out/20260102T030405Z-gpu-ab12-ab" if session else "true"
        (bin_folder / "python").write_text(
            f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\necho "$@" >>asked\n'
            f"case $3 in ab) {made}; exit {code} ;; esac\n"
            f"case $5 in --json) echo '{json.dumps({'comparable': comparable})}' ;; *) echo '| table |' ;; esac\n"
        )
        (bin_folder / "python").chmod(0o755)
        return subprocess.run(
            [self.root / ".ci" / "gpu-regression", base, "HEAD", "out", "--budget", "20m"],
            env={
                **os.environ,
                "PATH": f"{bin_folder}:{os.environ['PATH']}",
                "GITHUB_STEP_SUMMARY": str(self.root / "summary"),
            },
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    def summary(self) -> str:
        path = self.root / "summary"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "gpu-regression"
    script.write_bytes((ROOT / ".ci" / "gpu-regression").read_bytes())
    script.chmod(0o755)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for message in ("one", "two"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)
    return Job(tmp_path)


def test_base_and_head_are_measured_and_the_verdicts_are_the_job_s_summary(job: Job) -> None:
    done = job.run(0)
    assert done.returncode == 0, done.stderr
    assert (job.root / "asked").read_text().splitlines() == [
        "-m harness ab HEAD~1 HEAD --out out --budget 20m",
        "-m harness report out/20260102T030405Z-gpu-ab12-ab --markdown",
        "-m harness report out/20260102T030405Z-gpu-ab12-ab --json",
    ]
    assert job.summary() == "| table |\n"


@pytest.mark.parametrize(
    ("code", "ends", "said"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (2, 2, ""),
        (3, 3, "::error title=Slower::"),
        (4, 0, "::notice title=Undecided::"),
        (130, 130, ""),
    ],
)
def test_a_confirmed_slowdown_fails_the_job_and_an_undecided_case_is_only_said(
    job: Job, code: int, ends: int, said: str
) -> None:
    done = job.run(code)
    assert done.returncode == ends
    assert done.stdout.startswith(said)
    assert bool(done.stdout) is bool(said)
    assert job.summary() == "| table |\n"


@pytest.mark.parametrize("nothing", [{"session": False}, {"comparable": False}])
def test_a_job_that_compared_nothing_is_not_green(job: Job, nothing: dict[str, bool]) -> None:
    done = job.run(4, **nothing)
    assert done.returncode == 4
    assert done.stdout.startswith("::error title=Nothing compared::")


def test_the_gpu_workflow_takes_no_cpu_for_a_gpu() -> None:
    (script,) = [step["run"] for step in steps() if ".ci/gpu-regression" in step.get("run", "")]
    assert "--device cuda" in script


def test_without_a_session_there_is_no_summary_and_the_code_stays(job: Job) -> None:
    assert job.run(2, session=False).returncode == 2
    assert job.summary() == ""


def test_one_commit_is_not_compared_with_itself(job: Job) -> None:
    done = job.run(3, base="HEAD")
    assert done.returncode == 0
    assert "Nothing to compare" in done.stdout
    assert not (job.root / "asked").exists()
