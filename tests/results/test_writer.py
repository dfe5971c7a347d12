import errno
import io
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from results.run import load, scan
from results.schema import Manifest
from results.store import RunWriter, StoreError
from tests.results.builders import case, cpu_trial, manifest, stored, trial, trials

PLAN = manifest()


@pytest.fixture
def writer(tmp_path):
    with RunWriter.create(tmp_path, PLAN) as writer:
        yield writer


def lines(path):
    return (path / "trials.jsonl").read_bytes().splitlines(keepends=True)


@contextmanager
def room_for(path, more_bytes):
    """A file-size limit: the kernel takes what fits, and refuses the rest, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_new_run_is_a_folder_with_its_manifest_and_no_trials(tmp_path):
    with RunWriter.create(tmp_path / "deep" / "out", PLAN) as writer:
        assert writer.path == tmp_path / "deep" / "out" / PLAN.run_id
        assert {path.name for path in writer.path.iterdir()} == {"manifest.json", "trials.jsonl"}
        assert Manifest.from_json(json.loads((writer.path / "manifest.json").read_text())) == PLAN
        assert lines(writer.path) == []


def test_each_trial_is_one_line_on_disk_when_append_returns(writer):
    for count, one in enumerate(trials(PLAN), start=1):
        writer.append(one)
        assert len(lines(writer.path)) == count
    assert load(writer.path).trials == writer.run.trials == trials(PLAN)


def test_append_syncs_before_it_returns(writer, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    writer.append(trial())
    assert synced == [(writer.path / "trials.jsonl").stat().st_size]


def test_a_resumed_run_goes_on_where_it_stopped(tmp_path):
    first, *rest = trials(PLAN)
    with RunWriter.create(tmp_path, PLAN) as writer:
        writer.append(first)
    with RunWriter.resume(writer.path) as resumed:
        assert resumed.run.trials == [first]
        assert len(resumed.run.missing()) == 8
        for one in rest:
            resumed.append(one)
        assert resumed.run.missing() == []
    assert load(writer.path).trials == [first, *rest]


def test_a_run_killed_before_its_first_trial_can_be_resumed(tmp_path):
    path = stored(tmp_path, PLAN, [])
    (path / "trials.jsonl").unlink()
    with RunWriter.resume(path) as writer:
        writer.append(trial())
    assert load(path).trials == [trial()]


def test_a_cut_last_line_never_swallows_the_next_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of syncs would only test the disk's patience
    small = cpu_trial(case(), timings={}, memory=None, utilisation=None, verifications=())
    path = stored(tmp_path, manifest([case()]), [small, small])
    file, whole = path / "trials.jsonl", (path / "trials.jsonl").read_bytes()
    length = len(whole) // 2
    for cut in range(length - 2, len(whole) + 1):  # test_run.py cuts the first line at every byte, too
        file.write_bytes(whole[:cut])
        kept = (cut + 1) // length  # a line that only lacks its newline is whole
        with RunWriter.resume(path) as writer:
            writer.append(trial())
            is_cut = cut % length not in (0, length - 1)
            assert len(writer.run.notes) == is_cut, cut
        again = scan(io.BytesIO(file.read_bytes()))
        assert again.trials == [small] * kept + [trial()], cut
        assert again.notes == [], cut


def test_what_was_cut_off_is_reported(tmp_path):
    path = stored(tmp_path, PLAN, [trial()])
    with (path / "trials.jsonl").open("ab") as file:
        file.write(b'{"case": {"stage": "qk')
    with RunWriter.resume(path) as writer:
        assert writer.run.notes == ["line 2 of trials.jsonl is cut off after 22 bytes: left out"]


def test_resuming_leaves_whole_lines_as_they_are_even_damaged_ones(tmp_path):
    path = stored(tmp_path, PLAN, [trial()])
    with (path / "trials.jsonl").open("ab") as file:
        file.write(b"scribble\n\xff\xfe\n\n{}\n")
    before = (path / "trials.jsonl").read_bytes()
    with RunWriter.resume(path) as writer:
        writer.append(trial())
        assert len(writer.run.notes) == 3
    after = (path / "trials.jsonl").read_bytes()
    assert after.startswith(before)
    assert load(path).trials == [trial(), trial()]


def test_a_second_writer_is_refused(writer):
    with pytest.raises(StoreError, match=f"run {PLAN.run_id} is being written by another process"):
        RunWriter.resume(writer.path)
    writer.append(trial())
    assert load(writer.path).trials == [trial()]


def test_reading_needs_no_lock(writer):
    writer.append(trial())
    assert load(writer.path).trials == [trial()]


def test_closing_lets_the_next_writer_in(writer):
    writer.close()
    RunWriter.resume(writer.path).close()


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from results.store import RunWriter
from tests.results.builders import manifest, trial
with RunWriter.create(Path(sys.argv[1]), manifest()) as writer:
    for replicate in range(100_000):
        writer.append(trial(replicate=replicate))
        print(replicate, flush=True)
"""


def test_a_killed_writer_loses_at_most_the_trial_in_hand_and_its_lock(tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        said = [int(child.stdout.readline()) for _ in range(5)]
        with pytest.raises(StoreError, match="another process"):
            RunWriter.resume(tmp_path / PLAN.run_id)
        child.send_signal(signal.SIGKILL)
        said += [int(line) for line in child.stdout.read().split()]
    with RunWriter.resume(tmp_path / PLAN.run_id) as writer:
        stored_replicates = [one.replicate for one in writer.run.trials]
        assert stored_replicates == list(range(len(stored_replicates)))
        assert (
            len(said) <= len(stored_replicates) <= len(said) + 2
        )  # a line synced but not said, and one in hand


def test_a_full_disk_says_so_keeps_the_trial_in_memory_and_the_file_whole(writer):
    writer.append(trial())
    with (
        room_for(writer.path / "trials.jsonl", 100),
        pytest.raises(StoreError, match=r"cannot store a trial in .*: File too large: make it writable"),
    ):
        writer.append(trial(replicate=1))
    assert writer.run.trials == [trial(), trial(replicate=1)]
    assert load(writer.path).trials == [trial()]
    assert load(writer.path).notes == []


def test_a_disk_with_room_again_gets_what_it_refused(writer):
    with room_for(writer.path / "trials.jsonl", 100), pytest.raises(StoreError):
        writer.append(trial(replicate=0))
    writer.append(trial(replicate=1))
    assert [one.replicate for one in load(writer.path).trials] == [0, 1]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            errno.ENOSPC,
            "the disk is full: free space, or make it writable again, then continue with --resume",
        ),
        (errno.EDQUOT, "the disk quota is used up: free space, or"),
        (errno.EIO, "Input/output error: make it writable again"),
    ],
)
def test_a_refusing_disk_is_named_with_its_cause_and_the_way_out(writer, monkeypatch, number, message):
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(StoreError, match=message) as error:
        writer.append(trial())
    assert str(writer.path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_side_of_a_session_is_not_said_to_be_resumable(tmp_path, monkeypatch):
    of_session = replace(PLAN, settings={"ab": {"side": "base"}})
    with RunWriter.create(tmp_path, of_session) as writer:
        monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
        with pytest.raises(StoreError, match=r"the disk is full: free space, or .* then start anew") as error:
            writer.append(trial())
    assert "resume" not in str(error.value)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full: free space, or choose another folder with --out DIR"),
        (errno.EROFS, "the file system is read-only: choose another folder with --out DIR"),
        (errno.EACCES, "permission denied: choose another folder with --out DIR"),
    ],
)
@pytest.mark.parametrize("step", ["mkdir", "fsync", "open"])
def test_a_run_that_cannot_start_says_why_and_leaves_nothing(tmp_path, monkeypatch, number, message, step):
    monkeypatch.setattr(Path if step == "mkdir" else os, step, failing(number))
    with pytest.raises(StoreError, match=message):
        RunWriter.create(tmp_path, PLAN)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sync", [1, 2, 3])
def test_a_run_interrupted_while_it_is_made_leaves_nothing(tmp_path, monkeypatch, sync):
    left = iter(range(sync - 1, -1, -1))
    monkeypatch.setattr(os, "fsync", lambda _: next(left) or signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        RunWriter.create(tmp_path, PLAN)
    assert list(tmp_path.iterdir()) == []


def failing(number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_an_out_folder_that_is_a_file_is_refused(tmp_path, out):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file, not a folder: choose another folder with --out DIR"):
        RunWriter.create(tmp_path / out, PLAN)


def test_a_run_is_never_overwritten(writer):
    writer.append(trial())
    with pytest.raises(StoreError, match="is there already: continue it with --resume"):
        RunWriter.create(writer.path.parent, PLAN)
    assert load(writer.path).trials == [trial()]


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(StoreError, match="is not a run: it has no manifest"):
        RunWriter.resume(tmp_path)
    with pytest.raises(StoreError, match="is not a run"):
        RunWriter.resume(tmp_path / "absent")
