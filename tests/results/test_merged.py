from dataclasses import replace

import pytest

from results.frame import RECORD_COLUMNS, SAMPLE_COLUMNS
from results.schema import Outcome
from results.store import read
from tests.results.builders import CPU_ENVIRONMENT, GPU_ENVIRONMENT, case, manifest, stored, trial, trials

BASE, FUSED, ONLY_OLD, ONLY_NEW = case("per_head"), case("fused"), case("old"), case("new")
OLD = manifest([BASE, FUSED, ONLY_OLD], run_id="2026-old", created_utc="2026-01-01T00:00:00Z")
NEW = manifest([ONLY_NEW, FUSED, BASE], run_id="2026-new", created_utc="2026-02-01T00:00:00Z")


@pytest.fixture
def merged(tmp_path):
    stored(tmp_path, OLD, trials(OLD, {"per_head": 8e-4, "fused": 4e-4, "old": 2e-4}))
    stored(tmp_path, NEW, [trial(ONLY_NEW, median_s=1e-4), trial(FUSED, median_s=3e-4)])
    return read(tmp_path)


def test_each_case_is_that_of_the_newest_run_that_measured_it(merged):
    owners = {record.case.variant: record.run_id for record in merged.records()}
    assert owners == {"new": "2026-new", "fused": "2026-new", "per_head": "2026-old", "old": "2026-old"}


def test_no_case_mixes_two_runs(merged):
    fused = next(record for record in merged.records() if record.case == FUSED)
    assert fused.replicates == 1
    assert fused.estimates["isolated"].value_s == pytest.approx(3e-4)


def test_frame_rows_are_the_records_with_their_run(merged):
    frame = merged.frame().set_index("variant")
    assert frame["run_id"].to_dict() == {record.case.variant: record.run_id for record in merged.records()}
    assert frame["time_s"]["old"] == pytest.approx(2.01e-4)
    assert list(merged.frame().columns) == list(RECORD_COLUMNS)


def test_speedup_never_compares_two_runs(merged):
    speedup = merged.frame().set_index("variant")["speedup"]
    assert speedup["old"] == pytest.approx(4.0)
    assert speedup[["new", "fused"]].isna().all()  # the newer run has no time of the baseline


def test_a_newer_run_of_the_baseline_takes_it_from_no_older_case(tmp_path):
    stored(tmp_path, OLD, trials(OLD, {"per_head": 8e-4, "fused": 4e-4, "old": 2e-4}))
    stored(tmp_path, NEW, [trial(BASE, median_s=1e-4)])
    speedup = read(tmp_path).frame().set_index("variant")["speedup"]
    assert speedup["old"] == pytest.approx(4.0)
    assert speedup["per_head"] == pytest.approx(1.0)


def test_samples_are_those_of_each_cases_own_run(merged):
    samples = merged.samples()
    assert list(samples.columns) == list(SAMPLE_COLUMNS)
    counted = samples.groupby(["variant", "run_id"]).size().to_dict()
    assert counted == {
        ("new", "2026-new"): 30,
        ("fused", "2026-new"): 30,
        ("per_head", "2026-old"): 90,
        ("old", "2026-old"): 90,
    }


def test_each_case_is_held_against_its_own_runs_peaks(tmp_path):
    slow = GPU_ENVIRONMENT | {"peaks": {"bf16": {"flops_per_s": 1e14}}}
    stored(tmp_path, replace(OLD, environment=slow), [trial(BASE)])
    stored(tmp_path, NEW, [trial(FUSED)])
    merged = read(tmp_path)
    fractions = merged.frame().set_index("variant")["peak_fraction"]
    assert fractions["per_head"] / fractions["fused"] == pytest.approx(9.89)
    assert merged.manifest_of(BASE).environment == slow


def test_the_merged_manifest_asks_for_the_cases_of_all(merged):
    assert set(merged.manifest.cases) == {BASE, FUSED, ONLY_OLD, ONLY_NEW}
    assert merged.manifest.environment == NEW.environment


def test_what_is_missing_is_what_the_cases_own_runs_lack(merged):
    assert sorted((replicate, one.variant) for replicate, one in merged.missing()) == [
        (1, "fused"),
        (1, "new"),
        (2, "fused"),
        (2, "new"),
    ]


def test_what_is_missing_is_resumed_run_by_run(merged, tmp_path):
    assert merged.unfinished() == {tmp_path / "2026-new": 4}


def test_a_newer_failure_wins_over_an_older_time(tmp_path):
    stored(tmp_path, OLD, [trial(FUSED)])
    stored(tmp_path, NEW, [trial(FUSED, outcome=Outcome.INCORRECT)])
    frame = read(tmp_path).frame().set_index("variant")
    assert frame["outcome"]["fused"] == "incorrect"


def test_a_merge_names_the_runs_it_is_made_of_and_has_no_duration(merged):
    assert merged.sources() == ["2026-old", "2026-new"]
    assert merged.notes == []
    assert merged.took_s() is None


def test_a_run_that_no_case_is_taken_from_is_told_as_left_out(tmp_path):
    stored(tmp_path, OLD, [trial(FUSED)])
    stored(tmp_path, replace(OLD, run_id="2026-again", created_utc="2026-02-01T00:00:00Z"), [trial(FUSED)])
    stored(tmp_path, NEW, trials(NEW))
    merged = read(tmp_path)
    assert merged.sources() == ["2026-again", "2026-new"]
    assert merged.notes == ["1 of 3 runs left out: every case of theirs was measured again later"]


def test_runs_of_different_machines_are_told_apart(tmp_path):
    stored(tmp_path, replace(OLD, environment=CPU_ENVIRONMENT), [trial(BASE)])
    stored(tmp_path, NEW, [trial(FUSED)])
    (note,) = [note for note in read(tmp_path).notes if "differ" in note]
    assert "gpu.name" in note
    assert note.endswith("do not compare times across them")


def test_runs_of_several_gpus_of_one_name_are_said_to_be_of_several_machines(tmp_path):
    for uuid, of in (("GPU-1", OLD), ("GPU-2", NEW)):
        gpu = GPU_ENVIRONMENT["gpu"] | {"uuid": uuid}
        stored(tmp_path, replace(of, environment=GPU_ENVIRONMENT | {"gpu": gpu}), [trial(of.cases[0])])
    (note,) = [note for note in read(tmp_path).notes if "differ" in note]
    assert note.startswith("the merged runs are of 2 machines and differ in gpu.uuid: ")


def test_another_driver_makes_no_other_machine(tmp_path):
    gpu = GPU_ENVIRONMENT["gpu"] | {"driver": "1.2.3"}
    stored(tmp_path, replace(OLD, environment=GPU_ENVIRONMENT | {"gpu": gpu}), [trial(BASE)])
    stored(tmp_path, replace(NEW, environment=GPU_ENVIRONMENT), [trial(FUSED)])
    (note,) = [note for note in read(tmp_path).notes if "differ" in note]
    assert note.startswith("the merged runs differ in gpu.driver: ")


def test_a_temperature_makes_no_other_machine(tmp_path):
    warm = GPU_ENVIRONMENT | {"gpu": GPU_ENVIRONMENT["gpu"] | {"temperature_c": 80}, "notices": ["warm"]}
    stored(tmp_path, replace(OLD, environment=warm), [trial(BASE)])
    stored(tmp_path, NEW, [trial(FUSED)])
    assert not any("differ" in note for note in read(tmp_path).notes)


def test_an_unreadable_run_is_left_out_and_the_others_are_used(tmp_path):
    stored(tmp_path, OLD)
    stored(tmp_path, NEW, [trial(FUSED)])
    broken = stored(tmp_path, replace(NEW, run_id="2026-broken"))
    (broken / "manifest.json").write_text("{")
    notes = read(tmp_path).notes
    assert any(note.startswith("left out: ") and "2026-broken" in note for note in notes)


def test_a_parts_notes_name_their_run(tmp_path):
    path = stored(tmp_path, OLD)
    (path / "trials.jsonl").unlink()
    stored(tmp_path, NEW, [trial(FUSED)])
    assert "2026-old: trials.jsonl is missing: the run has no trials" in read(tmp_path).notes


def test_runs_without_cases_merge_too(tmp_path):
    empty = replace(OLD, cases=())
    stored(tmp_path, empty, [])
    stored(tmp_path, replace(empty, run_id="2026-empty"), [])
    merged = read(tmp_path)
    assert list(merged.frame().columns) == list(RECORD_COLUMNS)
    assert list(merged.samples().columns) == list(SAMPLE_COLUMNS)
    assert (merged.records(), merged.missing()) == ([], [])
