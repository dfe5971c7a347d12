"""What a damaged file can hold: no byte of it may end in a traceback, and no whole line may be lost."""

import copy
import io
import json
import os
import re
import warnings
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from results.run import load, scan
from results.schema import SCHEMA_VERSION, Outcome
from results.store import StoreError
from tests.results.builders import case, cpu_trial, manifest, stored, timing, trial, trials

PLAN = manifest([case("per_head"), case("fused")])
GOOD = [trial(case("per_head")), trial(case("fused"), outcome=Outcome.CRASHED)]
GOOD_LINES = [json.dumps(one.to_json()).encode() for one in GOOD]

each_example_in_one_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)


def run_with(tmp_path, content, plan=PLAN):
    path = tmp_path / plan.run_id
    path.mkdir(exist_ok=True)
    (path / "manifest.json").write_text(json.dumps(plan.to_json()))
    (path / "trials.jsonl").write_bytes(content)
    return load(path)


def derive_everything(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = run.frame()
        run.samples()
        run.missing()
        run.took_s()
    assert len(frame) == len(run.records())
    assert all("\n" not in note for note in run.notes)
    return frame


def test_a_run_reads_back_what_was_stored(tmp_path):
    run = load(stored(tmp_path, PLAN))
    assert (run.manifest, run.trials, run.notes) == (PLAN, trials(PLAN), [])
    assert run.missing() == []
    assert derive_everything(run)["outcome"].tolist() == ["ok", "ok"]


def test_what_is_missing_comes_in_order_of_replicates(tmp_path):
    run = run_with(tmp_path, GOOD_LINES[0] + b"\n")
    one, other = PLAN.cases
    assert run.missing() == [(0, other), (1, one), (1, other), (2, one), (2, other)]
    assert run.unfinished() == {run.path: 5}


@pytest.mark.parametrize(
    ("created_utc", "took_s"),
    [
        ("2026-01-02T03:04:05Z", 604.5),
        ("2026-01-02T05:04:05+02:00", 604.5),
        ("2026-01-02T03:04:05", 604.5),
        ("2026-01-03T03:04:05Z", None),
        ("yesterday", None),
    ],
)
def test_a_run_took_the_time_from_its_start_to_the_end_of_the_trial_that_ended_last(
    tmp_path, created_utc, took_s
):
    ends = (("2026-01-02T03:14:05+00:00", 4.5), ("2026-01-02T03:14:08Z", 1.0), (None, 9e9), ("?", 9e9))
    some = [trial(case("fused"), n, started_utc=at, elapsed_s=s) for n, (at, s) in enumerate(ends)]
    assert load(stored(tmp_path, replace(PLAN, created_utc=created_utc), some)).took_s() == took_s


def test_without_a_trial_that_says_when_it_ended_a_run_has_no_duration(tmp_path):
    unknown = [trial(case("fused"), started_utc=None), trial(case("per_head"), elapsed_s=None)]
    assert load(stored(tmp_path, PLAN, unknown)).took_s() is None


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_a_case_that_failed_once_is_settled(tmp_path, outcome):
    run = load(stored(tmp_path, PLAN, [trial(case("fused"), outcome=outcome)]))
    assert {one for _, one in run.missing()} == {case("per_head")}


def test_a_case_measured_again_after_a_failure_is_not_settled(tmp_path):
    failed, again = trial(case("fused"), outcome=Outcome.CRASHED), trial(case("fused"))
    assert (1, case("fused")) in load(stored(tmp_path, PLAN, [failed, again])).missing()


def test_a_file_cut_at_any_byte_keeps_every_whole_line():
    small = [cpu_trial(one.case, timings={"eager": timing(used_s=(1e-4,))}) for one in GOOD]
    first, second = (json.dumps(one.to_json()).encode() for one in small)
    content = first + b"\n" + second + b"\n"
    for cut in range(len(content) + 1):
        found = scan(io.BytesIO(content[:cut]))
        whole = (cut >= len(first)) + (cut >= len(first) + 1 + len(second))
        assert found.trials == small[:whole], cut
        ends = {0, len(first), len(first) + 1, len(content) - 1, len(content)}
        assert len(found.notes) == (cut not in ends), cut


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (b"scribble", "line 2 of trials.jsonl is not JSON"),
        (b"\xff\xfe\x00", "line 2 of trials.jsonl is not JSON \\(byte 0 is not UTF-8\\)"),
        (b"\0" * 4096, "line 2 of trials.jsonl is not JSON"),
        (b"[" * 100_000, "line 2 of trials.jsonl is not JSON \\(nested too deeply\\)"),
        (b"9" * 10_000, "line 2 of trials.jsonl is not JSON"),
        (b"null", "line 2 of trials.jsonl is not a trial \\(trial is None, not an object\\)"),
        (b"[]", "line 2 of trials.jsonl is not a trial"),
        (b'"text"', "line 2 of trials.jsonl is not a trial"),
        (b"{}", "line 2 of trials.jsonl is not a trial \\(trial lacks case, outcome, replicate\\)"),
        (b'"' + b"x" * 10_000_000 + b'"', "line 2 of trials.jsonl is not a trial"),
        (b"y" * 10_000_000, "line 2 of trials.jsonl is not JSON"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_damaged_line_is_left_out_and_reported_and_the_rest_is_used(tmp_path, line, note):
    run = run_with(tmp_path, b"\n".join([GOOD_LINES[0], line, GOOD_LINES[1], b""]))
    assert run.trials == GOOD
    (said,) = run.notes
    assert re.match(note, said)
    assert len(said) < 300
    derive_everything(run)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_time_that_is_no_number_damages_only_its_line(tmp_path, number):
    line = GOOD_LINES[0].replace(b'"elapsed_s": 0.7', b'"elapsed_s": ' + number)
    run = run_with(tmp_path, line + b"\n" + GOOD_LINES[1] + b"\n")
    assert run.trials == GOOD[1:]
    assert "trial.elapsed_s is" in run.notes[0]
    assert "not a finite number" in run.notes[0]


def test_blank_lines_and_windows_line_ends_are_harmless(tmp_path):
    run = run_with(tmp_path, b"\r\n\n".join([*GOOD_LINES, b"  "]))
    assert (run.trials, run.notes) == (GOOD, [])


@given(junk=st.binary(max_size=200), at=st.sampled_from([0, 1, 2]))
def test_random_bytes_between_lines_never_cost_another_line(junk, at):
    lines = [*GOOD_LINES[:at], junk, *GOOD_LINES[at:]]
    assert scan(io.BytesIO(b"\n".join(lines) + b"\n")).trials == GOOD


@each_example_in_one_folder
@given(position=st.integers(0, len(GOOD_LINES[0]) - 1), byte=st.binary(min_size=1, max_size=1))
def test_one_changed_byte_costs_at_most_its_own_line(tmp_path, position, byte):
    hurt = GOOD_LINES[0][:position] + byte + GOOD_LINES[0][position + 1 :]
    run = run_with(tmp_path, hurt + b"\n" + GOOD_LINES[1] + b"\n")
    assert run.trials[-1] == GOOD[1]
    derive_everything(run)


def places(value, path=()):
    """Every path into a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value, path, by):
    if not path:
        return by
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], by)
    return changed


NUMBERS = [0, -1, 2**62, 2**64, 10**400, 0.0, -1.0, 1e308, 5e-324, float("nan"), float("inf")]
WORDS = ["", "NaN", "ok", "crashed", "\udcff", "\n"]
CONTAINERS = [[], [[]], [None], [0.0], {}, {"": 0}, {"a": [-1, 10**9]}]
hostile = st.sampled_from([None, True, False, *NUMBERS, *WORDS, *CONTAINERS])


@each_example_in_one_folder
@given(path=st.sampled_from(list(places(GOOD[0].to_json()))), value=hostile)
def test_a_value_of_the_wrong_kind_anywhere_in_a_line_is_survived(tmp_path, path, value):
    changed = replaced(GOOD[0].to_json(), path, value)
    run = run_with(tmp_path, json.dumps(changed).encode() + b"\n" + GOOD_LINES[1] + b"\n")
    assert run.trials[-1] == GOOD[1]
    assert len(run.trials) + len(run.notes) == 2
    derive_everything(run)


@each_example_in_one_folder
@given(path=st.sampled_from(list(places(PLAN.to_json()))), value=hostile)
def test_a_value_of_the_wrong_kind_anywhere_in_a_manifest_is_refused_or_survived(tmp_path, path, value):
    folder = tmp_path / PLAN.run_id
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(replaced(PLAN.to_json(), path, value)))
    (folder / "trials.jsonl").write_bytes(b"\n".join(GOOD_LINES))
    problem = None
    try:
        derive_everything(load(folder))
    except StoreError as error:
        problem = str(error)
    assert problem is None or ("\n" not in problem and len(problem) < 400 + len(str(folder)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "manifest.json is damaged .*: restore it, or name another run"),
        (b'{"run_id": ', "manifest.json is damaged"),
        (b"\xff", "manifest.json is damaged .byte 0 is not UTF-8"),
        (b"[" * 100_000, "manifest.json is damaged .nested too deeply"),
        (b"[]", "has schema None, which no headbench writes"),
        (b"{}", "has schema None, which no headbench writes"),
        (b'{"schema": 0}', "has schema 0, which no headbench writes"),
        (b'{"schema": true}', "has schema True, which no headbench writes"),
        (b'{"schema": "1"}', "has schema '1', which no headbench writes"),
        (b'{"schema": 1}', "damaged .manifest lacks baselines, cases, "),
    ],
)
def test_a_damaged_manifest_is_refused_in_one_line(tmp_path, content, message):
    path = stored(tmp_path, PLAN)
    (path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=message) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_run_of_a_newer_schema_asks_for_a_newer_headbench(tmp_path):
    path = stored(tmp_path, PLAN)
    data = PLAN.to_json() | {"schema": SCHEMA_VERSION + 2, "a_new_field": 1}
    (path / "manifest.json").write_text(json.dumps(data))
    expected = f"manifest.json has schema {SCHEMA_VERSION + 2}, this headbench reads up to {SCHEMA_VERSION}"
    with pytest.raises(StoreError, match=f"{expected}: upgrade headbench"):
        load(path)


def test_a_run_without_its_trials_file_has_no_trials_and_says_so(tmp_path):
    path = stored(tmp_path, PLAN)
    (path / "trials.jsonl").unlink()
    run = load(path)
    assert (run.trials, run.notes) == ([], ["trials.jsonl is missing: the run has no trials"])
    assert set(derive_everything(run)["outcome"].isna()) == {True}


def test_a_trials_file_that_cannot_be_read_is_refused(tmp_path):
    path = stored(tmp_path, PLAN)
    (path / "trials.jsonl").unlink()
    (path / "trials.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"cannot read .*trials.jsonl: Is a directory"):
        load(path)


@pytest.mark.parametrize("name", ["manifest.json", "trials.jsonl"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path, name):
    path = stored(tmp_path, PLAN)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(StoreError, match=f"cannot read .*{name}: it is no plain file"):
        load(path)


def test_a_link_to_a_plain_file_is_read(tmp_path):
    path = stored(tmp_path, PLAN)
    (path / "trials.jsonl").rename(tmp_path / "elsewhere")
    (path / "trials.jsonl").symlink_to(tmp_path / "elsewhere")
    assert load(path).trials == trials(PLAN)
