"""What must be as it was for a run to be resumed: trials of two machines or two versions are not one run."""

from __future__ import annotations

import copy

import pytest

from harness.errors import UsageError
from harness.resuming import SAME, refuse_changes
from results.run import Run
from tests.results import builders, sessions

from .commands import refused

ENVIRONMENT = {
    "device": "cuda:0",
    "gpu": {"uuid": "GPU-1", "driver": "580"},
    "cpu": {"name": "CPU"},
    "torch": {"version": "2.11", "cuda": "13.0", "cudnn": 91900, "threads": 8},
    "variables": {"OMP_NUM_THREADS": None},
    "source_sha256": "a" * 64,
}


def run_on(environment, tmp_path) -> Run:
    return Run(tmp_path, builders.manifest(environment=environment))


def test_the_same_machine_and_code_may_go_on(tmp_path):
    refuse_changes(run_on(ENVIRONMENT, tmp_path), copy.deepcopy(ENVIRONMENT))


@pytest.mark.parametrize("keys", SAME)
def test_a_change_is_refused_and_named(tmp_path, keys):
    now = copy.deepcopy(ENVIRONMENT)
    place = now
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = "another"
    with pytest.raises(UsageError, match=rf"{' '.join(keys)} was .*, is another; start a new run"):
        refuse_changes(run_on(ENVIRONMENT, tmp_path), now)


def test_neither_an_ab_session_nor_a_side_of_it_is_resumed(tmp_path, capsys, monkeypatch):
    folder = sessions.stored(tmp_path, sessions.session({builders.case(): sessions.STEADY}))
    for path in (folder, folder / "base", folder / "head"):
        line = refused(capsys, monkeypatch, "run", "--resume", str(path))
        assert f"{path} is of an ab session, which cannot be resumed" in line
        assert "start a new ab" in line
