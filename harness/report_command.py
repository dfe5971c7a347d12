"""`report`: a stored run, or an `ab` session's verdicts, to the terminal or in another program's format."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.errors import HeadbenchError, UsageError
from harness.verdict_output import at_most_one, print_session
from results.paired import read_pairs
from results.session import is_session
from results.store import Run, StoreError, locate, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def show(where: str, formats: Sequence[str], parquet: Path | None = None) -> None:
    """Print what is stored at `where`; `formats` holds at most one name of `reports.export.WRITERS`.

    With `parquet` the run's frame goes into that file instead, and nothing is printed.

    Raises:
        UsageError: there is no such run, it cannot be read or has no such form, two formats were asked for, the
            file cannot be written, or pyarrow is missing.
        HeadbenchError: what is stored cannot be shown.
    """
    wanted = [*formats, *(["parquet"] if parquet else [])]
    form = at_most_one(wanted)
    try:
        folder = locate(where)
        stored = read_pairs(folder) if is_session(folder) else read(folder)
    except StoreError as error:
        raise UsageError(str(error)) from error
    if not isinstance(stored, Run):
        print_session(stored, stored.comparisons(), wanted)
    elif parquet:
        _write_parquet(stored, parquet)
    elif form:
        from reports.export import WRITERS

        with _damage_told(stored):
            text = WRITERS[form](stored)
        sys.stdout.write(text)
    else:
        print_report(stored)


def print_report(run: Run) -> None:
    """The run's tables on stdout, as wide as the terminal, or 100 columns where there is none.

    Raises:
        HeadbenchError: what is stored cannot be shown.
    """
    from reports.content import from_run
    from reports.terminal import new_console, render

    with _damage_told(run):
        render(from_run(run), new_console())


def _write_parquet(run: Run, path: Path) -> None:
    from reports.export import to_parquet

    try:
        to_parquet(run, path)
    except ImportError as error:
        raise UsageError("--parquet needs pyarrow: pip install pyarrow") from error
    except OSError as error:
        raise UsageError(f"--parquet {path} cannot be written: {error.strerror or error}") from error


@contextmanager
def _damage_told(run: Run) -> Iterator[None]:
    """What is plain JSON in a manifest can hold anything once somebody has edited it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HeadbenchError(
            f"{run.path} cannot be shown, its manifest may be damaged ({error!r})"
        ) from error
