"""`report --svg`: what recorded runs have to show, as pictures for a README."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import HeadbenchError, UsageError
from harness.verdict_output import at_most_one
from results.store import StoreError, read_each

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reports.pictures.draw import Drawn


def draw(runs_of: Sequence[str], folder: Path, others: Sequence[str] = ()) -> None:
    """Write every picture that a run or a folder of runs can give into `folder`, and say what each shows.

    `runs_of` has one name, as `results.store.locate` knows them. `others` are the other options that say what to make
    of a run: none goes with this one.

    Raises:
        UsageError: there is no such run, several are named, it is a session, something else was asked for as well,
            Altair or vl-convert is missing, or a file cannot be written.
        HeadbenchError: nothing there can be drawn.
    """
    at_most_one([*others, "svg"])
    if len(runs_of) > 1:
        raise UsageError(
            f"--svg draws of one run or of one folder of runs, and {len(runs_of)} are named: name the folder"
        )
    (where,) = runs_of
    try:
        runs = read_each(where)
    except StoreError as error:
        raise UsageError(str(error)) from error
    try:
        from reports.pictures.draw import drawn
    except ImportError as error:
        raise UsageError("--svg needs altair and vl-convert: pip install altair vl-convert-python") from error
    with damage_told(*runs):
        pictures = list(drawn(runs))
    if not any(picture.svg for picture in pictures):
        reasons = "; ".join(f"{picture.name}: {picture.reason}" for picture in pictures)
        raise HeadbenchError(f"--svg {folder}: {where} has nothing that can be drawn: {reasons}")
    for picture in pictures:
        _write(picture, folder)


def _write(picture: Drawn, folder: Path) -> None:
    from reports.text import plain

    if picture.svg is None:
        print(f"{picture.name}: not drawn: {picture.reason}")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / picture.file).write_text(picture.svg, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--svg {folder} cannot be written: {error.strerror or error}") from error
    print(f"{plain(folder / picture.file)}, from {plain(picture.run)}: {plain(picture.finding)}")
