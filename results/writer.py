"""Writing a run so that a kill, a power loss or a full disk loses at most the trial in hand."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import ExitStack, suppress
from errno import ENOENT, ENOLCK, ENOTSUP
from typing import TYPE_CHECKING, Any, Self

from results.errors import StoreError, refused
from results.run import CEILINGS, MANIFEST, OBSERVATION, TRIALS, Run, load_manifest, scan

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from results.schema import Ceilings, Manifest, Observation, Trial

OTHER_FOLDER = "choose another folder with --out DIR"


class RunWriter:
    """The one writer of a run, open for appending; `create` starts a run, `resume` continues one.

    Holds an exclusive lock on trials.jsonl until closed or dead, whatever killed it.
    """

    def __init__(self, run: Run, file: FileIO) -> None:
        self.run = run
        self._file = file
        self._end = file.seek(0, os.SEEK_END)
        self._pending = b""

    @classmethod
    def create(cls, out: Path, manifest: Manifest) -> Self:
        """Make the folder `<out>/<run_id>/` with its manifest and no trials.

        Raises:
            StoreError: `out` cannot be written to, or has a run of that name already.
        """
        path = out / manifest.run_id
        _make_folders(out, path)
        with ExitStack() as on_error:
            on_error.callback(_remove_unfinished, path)  # by an interrupt, too, while a slow disk syncs
            try:
                # The manifest comes last: whoever sees a run sees one that is already locked.
                run = Run(path, manifest)
                file = on_error.enter_context(_open_locked(run))
                _write_whole(path / MANIFEST, _json(manifest.to_json(), indent=1) + b"\n")
                _sync_folder(out)
            except OSError as error:
                raise refused("start a run in", path, error, OTHER_FOLDER) from None
            on_error.pop_all()
        return cls(run, file)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Reopen the run at `path`; text after its last whole line is cut off and reported in the notes.

        Raises:
            StoreError: it is not a run that can be read and written, or another process is writing it.
        """
        run = Run(path, load_manifest(path))
        with ExitStack() as on_error:
            try:
                file = on_error.enter_context(_open_locked(run))
                lines = scan(file)
                run.take(lines)
                file.truncate(lines.whole_bytes)
                writer = cls(run, file)
                if lines.unended:
                    writer._store(b"\n")
            except OSError as error:
                other = "make it writable, or start a new run with --out DIR"
                raise refused("continue", path, error, other) from None
            on_error.pop_all()
        return writer

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.run.path

    def append(self, trial: Trial) -> None:
        """Store one trial; on return it is on the disk. It stays in `run.trials` whatever the disk says.

        What an earlier append could not store goes with it, so that a disk with room again loses nothing.

        Raises:
            StoreError: the disk refused; the file still ends with a whole line as soon as it can be cut.
        """
        self.run.trials.append(trial)
        self._append(trial.to_json(), "a trial")

    def observe(self, observation: Observation) -> None:
        """Store one observation, in the same way.

        Raises:
            StoreError: the disk refused.
        """
        self.run.observations.append(observation)
        self._append({OBSERVATION: observation.to_json()}, "an observation")

    def note_ceilings(self, ceilings: Ceilings) -> None:
        """Store what the machine reached at most, in the same way; a later line replaces an earlier one.

        Raises:
            StoreError: the disk refused.
        """
        self.run.ceilings = ceilings
        self._append({CEILINGS: ceilings.to_json()}, "the ceilings")

    def _append(self, plain: dict[str, Any], what: str) -> None:
        try:
            self._store(_json(plain) + b"\n")
        except OSError as error:
            again = "start anew" if self.run.manifest.of_session else f"continue with --resume {self.path}"
            way_out = f"make it writable again, then {again}"
            raise refused(f"store {what} in", self.path / TRIALS, error, way_out) from None

    def close(self) -> None:
        """Release the run for other writers."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, line: bytes) -> None:
        self._pending += line
        try:
            self._file.seek(self._end)
            _write_all(self._file, self._pending)
            os.fsync(self._file.fileno())
            self._check_still_there()
        except OSError:
            with suppress(OSError):
                self._file.truncate(self._end)
            raise
        self._end += len(self._pending)
        self._pending = b""

    def _check_still_there(self) -> None:
        """An open file can be written to long after somebody has deleted it."""
        there, ours = (self.path / TRIALS).stat(), os.fstat(self._file.fileno())
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise FileNotFoundError(ENOENT, "it was replaced by another file")


def _make_folders(out: Path, path: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused("make the folder", out, error, OTHER_FOLDER) from None
    try:
        path.mkdir()
    except FileExistsError:
        taken = f"{path} is there already: continue it with --resume {path}"
        raise StoreError(f"{taken}, or {OTHER_FOLDER}") from None
    except OSError as error:
        raise refused("make the folder", path, error, OTHER_FOLDER) from None


def _open_locked(run: Run) -> FileIO:
    path = run.path / TRIALS
    file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)  # noqa: PTH123, SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreError(
            f"run {run.path.name} is being written by another process: wait for it to end"
        ) from None
    except OSError as error:
        if error.errno not in (ENOLCK, ENOTSUP):
            file.close()
            raise
        run.notes.append(f"{path} cannot be locked on this file system: let no other process write it")
    return file


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either absent or complete, even after a power loss."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems cannot sync a folder, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: FileIO, content: bytes) -> None:
    """An unbuffered write may take less than it is given."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _remove_unfinished(path: Path) -> None:
    with suppress(OSError):
        for name in (TRIALS, MANIFEST, f".{MANIFEST}.unfinished"):
            (path / name).unlink(missing_ok=True)
        path.rmdir()


def _json(plain: dict[str, Any], indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    return json.dumps(plain, indent=indent, separators=separators, allow_nan=False).encode()
