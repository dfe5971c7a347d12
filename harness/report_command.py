"""`report`: a stored run to the terminal, or in another program's format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.errors import HeadbenchError, UsageError
from results.store import Run, StoreError, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def show(where: str, formats: Sequence[str], parquet: Path | None = None) -> None:
    """Print what is stored at `where`; `formats` holds at most one name of `reports.export.WRITERS`.

    With `parquet` the run's frame goes into that file instead, and nothing is printed.

    Raises:
        UsageError: there is no such run, it cannot be read or has no such form, two formats were asked for, the
            file cannot be written, or pyarrow is missing.
    """
    wanted = [*formats, *(["parquet"] if parquet else [])]
    if len(wanted) > 1:
        raise UsageError(f"--{' and --'.join(wanted)} exclude each other: one would do")
    try:
        run = read(where)
    except StoreError as error:
        raise UsageError(str(error)) from error
    if parquet:
        _write_parquet(run, parquet)
    elif formats:
        from reports.export import WRITERS

        sys.stdout.write(WRITERS[formats[0]](run))
    else:
        print_report(run)


def print_report(run: Run) -> None:
    """The run's tables on stdout, as wide as the terminal, or 100 columns where there is none.

    Raises:
        HeadbenchError: what is stored cannot be shown.
    """
    from reports.content import from_run
    from reports.terminal import new_console, render

    try:
        render(from_run(run), new_console())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # What is plain JSON in a manifest can hold anything once somebody has edited it.
        raise HeadbenchError(
            f"{run.path} cannot be shown, its manifest may be damaged ({error!r})"
        ) from error


def _write_parquet(run: Run, path: Path) -> None:
    from reports.export import to_parquet

    try:
        to_parquet(run, path)
    except ImportError as error:
        raise UsageError("--parquet needs pyarrow: pip install 'headbench[parquet]'") from error
    except OSError as error:
        raise UsageError(f"--parquet {path} cannot be written: {error.strerror or error}") from error
