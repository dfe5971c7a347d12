"""Stored runs by path or by name: reading one, several merged, or a reference; `RunWriter` writes one.

A run is a folder, `manifest.json` written once and `trials.jsonl` appended and synced line by line.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from results.errors import StoreError, refused
from results.merged import MergedRun, merge
from results.run import MANIFEST, TRIALS, Run, load
from results.session import SIDES, is_session
from results.words import counted
from results.writer import RunWriter

__all__ = ["LATEST", "MergedRun", "Run", "RunWriter", "StoreError", "locate", "read", "read_each"]

REFERENCE = Path(__file__).parent / "reference"
"""Committed runs: `<gpu>/<name>/`, each a run."""

RUNS = Path("results/runs")
"""Where runs go unless told otherwise, under the current folder."""

LATEST = "latest"
"""The word for the newest run, or `ab` session, in `RUNS`."""


def read(where: str | Path) -> Run:
    """A stored run, or several in one folder merged, by any of the names that `locate` knows.

    Raises:
        StoreError: it is not there, is not a run, or is damaged beyond use; the message says what would do.
    """
    folder = locate(where)
    try:
        return _read_folder(folder)
    except OSError as error:
        raise refused("read", folder, error, "name another run") from None


def read_each(where: str | Path) -> list[Run]:
    """Every run that `where` means, oldest first and none merged: one, or all in a folder of runs.

    What of a folder could not be read stands in the oldest run's notes.

    Raises:
        StoreError: as `read`.
    """
    folder = locate(where)
    try:
        runs, left_out = _read_all(folder)
    except OSError as error:
        raise refused("read", folder, error, "name another run") from None
    runs.sort(key=lambda run: (run.manifest.created_utc, run.manifest.run_id))
    runs[0].notes += left_out
    return runs


def locate(where: str | Path) -> Path:
    """The folder that is meant; whether a run is in it is for the reader to find out.

    `where` is a folder, a file of a run, a reference's name, the id of a run in `results/runs` of the current
    folder, or `latest`, the newest there: the first of these that is there.

    Raises:
        StoreError: nothing of the kind is there; the message says where it looked and what would do.
    """
    try:
        return _locate(where)
    except OSError as error:
        raise refused("read", Path(where), error, "name another run") from None


def _locate(where: str | Path) -> Path:
    path = Path(where)
    if not str(where).strip() or "\0" in str(where):
        raise StoreError(f"{str(where)!r} is not a path: name a run's folder or a reference")
    if path.name in (MANIFEST, TRIALS) and path.is_file():
        return path.parent
    if path.is_dir():
        return path
    if path.exists():
        raise StoreError(f"{path} is a file, not a run: name the folder that holds its {MANIFEST}")
    if path.is_absolute() or ".." in path.parts:
        raise StoreError(f"no run at {path}{_nearest(path)}")
    for named in (REFERENCE / path, RUNS / path):
        if named.is_dir():
            return named
    if str(path) == LATEST and (stored := sorted([*runs_in(RUNS), *sessions_in(RUNS)])):
        return stored[-1]
    looked = f"looked in {Path.cwd()}, in its {RUNS} and among the references in {REFERENCE}"
    raise StoreError(f"no run at {path}: {looked}{_nearest(path)}")


def _read_folder(folder: Path) -> Run:
    runs, left_out = _read_all(folder)
    if len(runs) == 1:
        runs[0].notes += left_out
        return runs[0]
    return merge(folder, runs, left_out)


def _read_all(folder: Path) -> tuple[list[Run], list[str]]:
    """The run that the folder is, or those inside it that can be read, by name; then what was left out, and why."""
    if (folder / MANIFEST).exists():
        return [load(folder)], []
    if is_session(folder):
        raise StoreError(
            f"{folder} is an ab session, which is two runs: `python -m harness report` shows its verdicts; "
            f"to read one of them, name its base or its head folder"
        )
    if not (inside := runs_in(folder)):
        if sessions := [path.name for path in sessions_in(folder)]:
            raise StoreError(
                f"{folder} holds no runs but ab sessions: name one of them, {', '.join(sessions)}"
            )
        raise StoreError(f"{folder} is not a run and holds none: it has no {MANIFEST}{_nearest(folder)}")
    runs: list[Run] = []
    problems: list[str] = []
    for path in inside:
        try:
            runs.append(load(path))
        except StoreError as error:
            problems.append(str(error))
    if lone := [run.path for run in runs if run.manifest.of_session and run.path.name in SIDES]:
        raise StoreError(
            f"{folder} is half of an ab session, one side of it is gone: to read what is left, name {lone[0]}"
        )
    if not runs:
        raise StoreError(f"of {counted(len(inside), 'run')} in {folder} none can be read: {problems[0]}")
    return runs, [f"left out: {problem}" for problem in problems]


def runs_in(folder: Path) -> list[Path]:
    """The runs directly inside a folder, by name, which is also by age."""
    return sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))


def sessions_in(folder: Path) -> list[Path]:
    """The `ab` sessions directly inside a folder, by name, which is also by age."""
    return sorted(path for path in folder.glob("*/") if is_session(path))


def _nearest(path: Path) -> str:
    """`: the nearest are …`, else what runs there are, else how to make one."""
    folders = dict.fromkeys((RUNS, path.parent) if len(path.parts) == 1 else (path.parent,))
    stored = [run for folder in folders for run in (*runs_in(folder), *sessions_in(folder))]
    siblings = {run.name: str(run) for run in sorted(stored)}
    references = reference_names()
    known = dict(zip(references, references, strict=True)) | siblings
    close = get_close_matches(path.name, siblings, n=3) + get_close_matches(str(path), references, n=3)
    if close:
        return f": the nearest are {', '.join(known[name] for name in close)}"
    newest = [*list(siblings)[-3:], *references]
    if newest:
        return f": there are {', '.join(known[name] for name in newest)}"
    return ": `python -m harness run` makes one"


def reference_names() -> list[str]:
    """Of all references, as `<gpu>/NAME`, sorted."""
    return sorted(str(path.parent.relative_to(REFERENCE)) for path in REFERENCE.glob(f"*/*/{MANIFEST}"))
