import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import results
from results import store
from results.store import MergedRun, StoreError, locate, read, read_each
from tests.results import sessions
from tests.results.builders import case, manifest, stored, trials

PLAN = manifest()


@pytest.fixture
def reference(tmp_path, monkeypatch):
    """A `reference/` folder with two runs of one GPU and one of another, away from the current folder."""
    folder = tmp_path / "reference"
    monkeypatch.setattr(store, "REFERENCE", folder)
    for gpu, name in (("nvidia-h200", "default"), ("nvidia-h200", "long"), ("nvidia-l40", "default")):
        stored(folder / gpu, replace(PLAN, run_id=name))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


@pytest.mark.parametrize("name", ["", "manifest.json", "trials.jsonl"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_run_is_read_by_its_folder_or_either_file(tmp_path, name, kind):
    path = stored(tmp_path, PLAN)
    run = read(kind(path / name))
    assert (run.path, run.manifest, run.trials) == (path, PLAN, trials(PLAN))


def test_a_folder_with_one_run_is_that_run(tmp_path):
    path = stored(tmp_path, PLAN)
    run = read(tmp_path)
    assert (run.path, run.notes) == (path, [])
    assert not isinstance(run, MergedRun)


def test_the_current_folder_can_be_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(stored(tmp_path, PLAN))
    assert read(".").manifest == PLAN
    assert read("trials.jsonl").manifest == PLAN


def test_a_reference_is_read_by_its_name(reference):
    assert read("nvidia-h200/default").path == reference / "nvidia-h200" / "default"
    assert read("nvidia-l40").path == reference / "nvidia-l40" / "default"


def test_a_gpus_references_are_merged(reference):
    run = read("nvidia-h200")
    assert isinstance(run, MergedRun)
    assert {part.manifest.run_id for part in run.parts} == {"default", "long"}


def test_a_folder_of_the_same_name_goes_before_a_reference(reference):
    path = stored(Path("nvidia-h200"), PLAN)
    assert read("nvidia-h200").path == path


@pytest.mark.parametrize("name", ["../reference/nvidia-h200", "nvidia-h200/../../../etc"])
def test_a_references_name_cannot_leave_the_references(reference, name, monkeypatch, tmp_path):
    (tmp_path / "deeper" / "still").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deeper" / "still")
    with pytest.raises(StoreError, match="no run at"):
        read(name)


def test_a_misspelt_reference_gets_the_nearest(reference):
    with pytest.raises(
        StoreError, match=r"no run at nvidia-h20/default: .*: the nearest are nvidia-h200/default"
    ):
        read("nvidia-h20/default")


def test_an_unknown_reference_is_told_where_was_looked_and_what_there_is(reference):
    with pytest.raises(StoreError) as told:
        read("cpu/quick")
    assert str(told.value) == (
        f"no run at cpu/quick: looked in {Path.cwd()}, in its results/runs and among the references in "
        f"{reference}: there are nvidia-h200/default, nvidia-h200/long, nvidia-l40/default"
    )


@pytest.fixture
def two_runs(reference):
    """Two runs in results/runs of the current folder: their paths, the older first."""
    ids = ("20260102T030405Z-cpu-ab12", "20260103T030405Z-cpu-0001")
    return [stored(store.RUNS, replace(PLAN, run_id=name)) for name in ids]


def test_a_run_in_results_runs_goes_by_its_id_alone(two_runs):
    for path in two_runs:
        assert locate(path.name) == path
        assert read(path.name).manifest.run_id == path.name


def test_latest_is_the_newest_run_in_results_runs(two_runs):
    assert locate("latest") == two_runs[1]
    assert read("latest").manifest.run_id == two_runs[1].name


@pytest.mark.parametrize("name", ["latest", "20260102T030405Z-cpu-ab12"])
def test_a_folder_here_goes_before_an_id_and_before_latest(two_runs, name):
    Path(name).mkdir()
    assert locate(name) == Path(name)


def test_a_reference_goes_before_the_id_of_a_run(reference):
    stored(store.RUNS, replace(PLAN, run_id="nvidia-l40"))
    assert locate("nvidia-l40") == reference / "nvidia-l40"


def test_a_misspelt_id_gets_the_nearest_in_results_runs(two_runs):
    with pytest.raises(StoreError, match=f"the nearest are .*{two_runs[0]}"):
        locate("20260102T030405Z-cpu-ab13")


def test_without_runs_there_is_no_latest(reference):
    with pytest.raises(StoreError, match=r"no run at latest: looked in .*: there are nvidia-h200/default"):
        locate("latest")


def test_a_file_of_a_run_stands_for_its_folder(two_runs):
    assert locate(two_runs[0] / "trials.jsonl") == two_runs[0]


def test_a_misspelt_run_gets_its_nearest_siblings(tmp_path):
    path = stored(tmp_path, PLAN)
    with pytest.raises(StoreError, match=f"no run at .*x: the nearest are {path}"):
        read(f"{path}x")


def test_a_name_like_no_other_gets_what_there_is(reference, tmp_path):
    path = stored(tmp_path / "runs", PLAN)
    with pytest.raises(StoreError, match=f"there are {path}, nvidia-h200/default, "):
        read(tmp_path / "runs" / "?")


def test_where_there_is_no_run_at_all_the_way_to_one_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "REFERENCE", tmp_path / "none")
    with pytest.raises(StoreError, match=r"no run at .*absent: `python -m harness run` makes one"):
        read(tmp_path / "absent")
    with pytest.raises(StoreError, match=r"is not a run and holds none: it has no manifest\.json"):
        read(tmp_path)


@pytest.mark.parametrize("where", ["", " ", "a\0b"])
def test_what_is_no_path_is_refused(where):
    with pytest.raises(StoreError, match="is not a path"):
        read(where)


def test_a_name_too_long_for_the_file_system_is_refused():
    with pytest.raises(StoreError, match="File name too long"):
        read("x" * 5000)


def test_another_file_is_not_a_run(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(StoreError, match=r"notes\.txt is a file, not a run"):
        read(tmp_path / "notes.txt")


def test_a_folder_of_broken_runs_names_the_first_cause(tmp_path):
    for name in ("a", "b"):
        (stored(tmp_path, replace(PLAN, run_id=name)) / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"of 2 runs in .* none can be read: .*manifest\.json is damaged"):
        read(tmp_path)


def test_reading_and_assembling_import_no_pandas_and_no_torch(tmp_path):
    path = stored(tmp_path, PLAN)
    code = (
        "import sys, results; results.read(sys.argv[1]).records();"
        "print(sorted({'pandas', 'torch', 'cupy', 'scipy.stats'} & set(sys.modules)))"
    )
    root = Path(results.__file__).parents[1]
    said = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


def test_each_run_of_a_folder_is_read_oldest_first(tmp_path):
    days = ("2026-01-03", "2026-01-01", "2026-01-02")
    for number, day in enumerate(days):
        stored(tmp_path, replace(PLAN, run_id=f"run-{number}", created_utc=f"{day}T00:00:00Z"))
    assert [run.manifest.run_id for run in read_each(tmp_path)] == ["run-1", "run-2", "run-0"]


def test_each_of_one_run_is_that_run(tmp_path):
    path = stored(tmp_path, PLAN)
    assert [run.path for run in read_each(path)] == [path]


def test_what_cannot_be_read_of_a_folder_is_a_note_of_its_oldest_run_whatever_its_name(tmp_path):
    stored(tmp_path, replace(PLAN, run_id="a", created_utc="2026-01-02T00:00:00Z"))
    stored(tmp_path, replace(PLAN, run_id="b", created_utc="2026-01-01T00:00:00Z"))
    (stored(tmp_path, replace(PLAN, run_id="damaged")) / "manifest.json").write_text("{")
    oldest, newest = read_each(tmp_path)
    assert oldest.manifest.run_id == "b"
    assert len(oldest.notes) == 1
    assert oldest.notes[0].startswith("left out: ")
    assert newest.notes == []


def test_each_run_of_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="is not a run and holds none"):
        read_each(tmp_path)


@pytest.mark.parametrize("newest", ["session", "run"])
def test_latest_is_the_newest_run_or_session(tmp_path, monkeypatch, newest):
    monkeypatch.chdir(tmp_path)
    days = {"session": "20260301", "run": "20260301"} | {newest: "20260302"}
    of = sessions.session({case(): sessions.STEADY})
    folders = {
        "session": sessions.stored(store.RUNS, of, f"{days['session']}T000000Z-nvidia-h200-ab12-ab"),
        "run": stored(store.RUNS, replace(PLAN, run_id=f"{days['run']}T000000Z-nvidia-h200-cd34")),
    }
    assert locate("latest") == folders[newest]
    assert locate(folders["session"].name) == folders["session"]


def test_a_session_is_not_read_as_one_run_and_its_sides_are(tmp_path):
    folder = sessions.stored(tmp_path, sessions.session({case(): sessions.STEADY}))
    for reader in (read, read_each):
        with pytest.raises(
            StoreError, match=r"is an ab session, which is two runs.*name its base or its head"
        ):
            reader(folder)
    assert read(folder / "head").manifest.run_id == "head"


@pytest.mark.parametrize(("gone", "left"), [("base", "head"), ("head", "base")])
@pytest.mark.parametrize("what", [".", "manifest.json"])
def test_a_session_with_one_side_gone_says_so(tmp_path, gone, left, what):
    folder = sessions.stored(tmp_path, sessions.session({case(): sessions.STEADY}))
    if what == ".":
        shutil.rmtree(folder / gone)
    else:
        (folder / gone / what).unlink()
    for way in (read, read_each):
        with pytest.raises(StoreError, match=rf"half of an ab session.* name .*{left}$"):
            way(folder)
    assert read(folder / left).trials


def test_a_folder_with_nothing_but_sessions_names_them(tmp_path):
    of = sessions.session({case(): sessions.STEADY})
    for name in ("one-ab", "two-ab"):
        sessions.stored(tmp_path, of, name)
    with pytest.raises(StoreError, match=r"holds no runs but ab sessions: name one of them, one-ab, two-ab"):
        read(tmp_path)


def test_a_side_of_a_session_is_never_said_to_be_unfinished(tmp_path):
    folder = sessions.stored(tmp_path, sessions.session({case(): sessions.STEADY[:3]}))
    run = read(folder / "base")
    assert run.missing()
    assert run.unfinished() == {}


def test_sessions_beside_runs_are_not_merged_into_them(tmp_path):
    sessions.stored(tmp_path, sessions.session({case(): sessions.STEADY}))
    path = stored(tmp_path, PLAN)
    assert [run.path for run in read_each(tmp_path)] == [path]
