"""A run of all directions on a CPU, from the command line to the stored record and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import results
from results.schema import Outcome

from .commands import headbench, only_run

SMALL = ("--d-model", "32", "--n-head", "2", "--batch", "1", "--seq-len", "16", "--device", "cpu")
WRONG = Path(__file__).parents[1] / "wrong_gradients.py"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    done = headbench(
        *("run", "--variant", "fused,per_head,sdpa,wrong_learns_nothing", "--plugin", WRONG, *SMALL),
        *("--direction", "forward,backward", "--direction", "step", "--replicates", 2, "--budget", "4s"),
        *("--out", out),
    )
    return done, only_run(out)


def test_directions_are_groups_of_their_own_verified_and_ranked(measured):
    done, path = measured
    found = {(r.case.stage, r.case.direction, r.case.variant): r for r in results.read(path).records()}
    for direction in ("forward", "backward", "step"):
        for stage, variant in (("qkv", "fused"), ("attention", "sdpa"), ("sublayer", "per_head")):
            record = found[stage, direction, variant]
            assert record.outcome is Outcome.OK, record.reason
            assert record.estimates["eager"].value_s > 0
            assert {check.when for check in record.verifications} == {"before", "after"}
        assert f"qkv {direction} · batch 1" in done.stdout
    fused = [found["qkv", direction, "fused"].useful_flops for direction in ("forward", "backward", "step")]
    assert fused == [fused[0], 2 * fused[0], 3 * fused[0]]


def test_a_wrong_gradient_fails_the_run_and_its_forward_does_not(measured):
    done, path = measured
    outcomes = {
        r.case.direction: r.outcome
        for r in results.read(path).records()
        if r.case.variant == "wrong_learns_nothing"
    }
    assert outcomes == {"forward": Outcome.OK, "backward": Outcome.INCORRECT, "step": Outcome.INCORRECT}
    assert done.returncode == 1
    assert "of its gradients dW_V is the worst" in " ".join(done.stdout.split())


def test_the_direction_is_a_column_of_the_frame_and_part_of_every_key(measured):
    _, path = measured
    frame = results.read(path).frame()
    assert set(frame["direction"]) == {"forward", "backward", "step"}
    cases = json.loads((path / "manifest.json").read_text())["cases"]
    assert len({json.dumps(case) for case in cases}) == len(cases) == len(frame)


def test_a_run_of_directions_is_resumed_in_all_of_them(measured):
    _, path = measured
    trials = (path / "trials.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in trials if '"backward"' not in line]
    (path / "trials.jsonl").write_text("".join(kept))
    headbench("run", "--resume", path, "--budget", "2s")
    again = (path / "trials.jsonl").read_text().splitlines()
    assert sum('"backward"' in line for line in again) == len(trials) - len(kept)
