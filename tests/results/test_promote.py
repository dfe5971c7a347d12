from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from results.claims.observed import RoundTrips, append
from results.claims.observed import load as experiments
from results.errors import StoreError
from results.promote import objections, promote
from results.run import MANIFEST, TRIALS, load
from results.schema import Outcome, Timing
from results.store import read
from tests.results import builders

if TYPE_CHECKING:
    from pathlib import Path

    from results.run import Run
    from results.schema import Trial

CLEAN = {**builders.GPU_ENVIRONMENT, "git": {"commit": "01a299b", "clean": True}}


def stored(folder: Path, trials: list[Trial] | None = None, **manifest: Any) -> Run:
    of = builders.manifest(**{"environment": CLEAN, **manifest})
    return load(builders.stored(folder, of, trials))


def test_a_whole_verified_run_of_a_clean_commit_becomes_a_reference(tmp_path: Path) -> None:
    run = stored(tmp_path / "runs")
    assert objections(run) == []
    target = promote(run, "first", tmp_path / "reference")
    assert target == tmp_path / "reference" / "nvidia-h200" / "first"
    assert sorted(file.name for file in target.iterdir()) == [MANIFEST, TRIALS]
    for name in (MANIFEST, TRIALS):
        assert (target / name).read_bytes() == (run.path / name).read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["first"]


@pytest.mark.parametrize("out", [["--out", "/home/me/my runs"], ["--out=/home/me/my runs"]])
def test_where_a_run_was_stored_is_not_told_by_a_reference(tmp_path: Path, out: list[str]) -> None:
    run = stored(tmp_path / "runs", command=["headbench", "run", "--all", *out, "--replicates", "3"])
    target = promote(run, "first", tmp_path / "reference")
    assert load(target).manifest == replace(
        run.manifest, command=["headbench", "run", "--all", "--replicates", "3"]
    )
    assert "/home/me" not in (target / MANIFEST).read_text()


def test_experiments_beside_a_run_go_with_it(tmp_path: Path) -> None:
    run = stored(tmp_path / "runs")
    append(run.path, "round_trips", RoundTrips(0, 200, 0, 90).to_json())
    target = promote(run, "first", tmp_path / "reference")
    assert experiments(target).round_trips == [RoundTrips(0, 200, 0, 90)]


def with_git(git: Any) -> dict[str, Any]:
    return {"environment": {**CLEAN, "git": git}}


def with_gpu(gpu: Any) -> dict[str, Any]:
    return {"environment": {**CLEAN, "gpu": gpu}}


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (with_git(None), "it does not say which commit was measured"),
        (with_git({"commit": "01a299b", "clean": False}), "it was measured from a dirty tree"),
        (with_git({"commit": "01a299b", "clean": None}), "it was measured from a dirty tree"),
        *((with_git(git), "which commit") for git in ("x", [1], 5, {}, {"commit": None, "clean": True})),
        *(
            (with_gpu(gpu), "it does not name the GPU")
            for gpu in ("a", [1], 5, {}, {"name": ""}, {"name": " "}, {"name": 5}, None)
        ),
        ({"settings": {"plugins": [{"path": "/mine.py", "sha256": "0"}]}}, "it measured plugins"),
        ({"settings": {"plugins": "damaged"}}, "it measured plugins"),
        ({"settings": {"ab": {"side": "base"}}}, "it is a side of an ab session"),
        ({"command": ["headbench", "run", "--quick"]}, "it is a --quick run"),
        ({"replicates": 1}, "it has one replicate"),
        ({"replicates": 4}, "trials are missing, 3 of them"),
    ],
)
def test_what_others_could_not_rely_on_is_refused_and_nothing_is_written(
    tmp_path: Path, manifest: dict[str, Any], told: str
) -> None:
    trials = builders.trials(builders.manifest(replicates=min(manifest.get("replicates", 3), 3)))
    run = stored(tmp_path / "runs", trials, **manifest)
    with pytest.raises(StoreError, match=told):
        promote(run, "first", tmp_path / "reference")
    assert not (tmp_path / "reference").exists()


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome.failed])
def test_a_failed_case_keeps_a_run_from_being_a_reference(tmp_path: Path, outcome: Outcome) -> None:
    trials = builders.trials(builders.manifest())
    failed = builders.trial(trials[4].case, trials[4].replicate, outcome=outcome)
    run = stored(tmp_path, [*trials[:4], failed, *trials[5:]])
    assert objections(run) == [f"trials are {outcome}, 1 of them"]


@pytest.mark.parametrize("outcome", [Outcome.UNAVAILABLE, Outcome.UNSUPPORTED, Outcome.OUT_OF_MEMORY])
def test_a_case_that_this_machine_cannot_do_does_not(tmp_path: Path, outcome: Outcome) -> None:
    of = builders.manifest([builders.case("fused"), builders.case("absent")])
    trials = [one for one in builders.trials(of) if one.case.variant == "fused"]
    absent = builders.trial(of.cases[1], 0, outcome=outcome)
    assert objections(stored(tmp_path, [*trials, absent], cases=of.cases)) == []


@pytest.mark.parametrize(
    "checks",
    [
        (),
        (builders.verification(when="before"),),
        (builders.verification(when="after"),),
        (
            builders.verification(when="before"),
            builders.verification(when="after"),
            builders.verification(when="in its graph", passed=False, reason="worse"),
        ),
    ],
)
def test_a_trial_without_both_verifications_passed_is_refused(tmp_path: Path, checks: Any) -> None:
    trials = builders.trials(builders.manifest())
    trials[2] = replace(trials[2], verifications=checks)
    (against,) = objections(stored(tmp_path, trials))
    assert against.startswith(
        "trials are not verified before and after timing, 1 of them: the first is of qkv/"
    )


@pytest.mark.parametrize(
    "timings",
    [
        {},
        {"isolated": builders.timing(used_s=(), span_s=())},
        {"isolated": builders.timing(reason="it synchronises", span_s=(), warmup_samples=0)},
        {"isolated": Timing(span_s=(0.0,) * 5)},
        {"isolated": Timing(span_s=(-1e-6,) * 5)},
    ],
)
def test_an_ok_trial_without_a_time_is_refused(tmp_path: Path, timings: Any) -> None:
    trials = builders.trials(builders.manifest())
    trials[2] = replace(trials[2], timings=timings)
    (against,) = objections(stored(tmp_path, trials))
    assert against.startswith("trials are ok without a time, 1 of them: the first is of qkv/")


def test_a_damaged_line_is_a_missing_trial(tmp_path: Path) -> None:
    run = stored(tmp_path)
    path = run.path / TRIALS
    path.write_bytes(path.read_bytes()[:-20])
    assert any("trials are missing, 1 of them" in against for against in objections(load(run.path)))


def test_every_objection_is_told_at_once(tmp_path: Path) -> None:
    run = stored(tmp_path, [], command=["headbench", "run", "--quick"], **with_git(None))
    told = "; ".join(objections(run))
    for part in ("which commit", "--quick", "trials are missing, 9 of them", "nothing in it was measured"):
        assert part in told


def test_several_runs_merged_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        stored(tmp_path, run_id=f"2026010{number}T030405Z-nvidia-h200-ab12")
    assert objections(read(tmp_path)) == ["it is 2 runs merged: name one of them"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../up", ".hidden", "-x", "a b", "é", "a" * 101, "a\n"]
)
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="is not a reference's name"):
        promote(stored(tmp_path / "runs"), name, tmp_path / "reference")


def test_a_name_that_is_taken_is_refused_and_keeps_its_run(tmp_path: Path) -> None:
    run = stored(tmp_path / "runs")
    kept = promote(run, "first", tmp_path / "reference")
    before = (kept / TRIALS).read_bytes()
    with pytest.raises(StoreError, match="is there already: choose another name"):
        promote(run, "first", tmp_path / "reference")
    assert (kept / TRIALS).read_bytes() == before


def test_the_committed_references_would_be_promoted_again() -> None:
    from results.store import REFERENCE

    folders = sorted(path.parent for path in REFERENCE.glob(f"*/*/{MANIFEST}"))
    assert folders
    assert {folder: objections(load(folder)) for folder in folders} == {folder: [] for folder in folders}
