"""`report`: a stored run, pivoted if wanted, or an `ab` session's verdicts, to the terminal or for other programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import UsageError, shown
from harness.html_output import write_comparisons, write_run, write_session
from harness.pivot_output import Pivoting, print_pivot
from harness.verdict_output import at_most_one, print_session, side_label
from results.paired import read_pairs
from results.session import is_session
from results.store import Run, StoreError, locate, read, read_each

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from results.paired import PairedRuns

NOT_PIVOTED = Pivoting()


def show(
    where: str,
    formats: Sequence[str],
    parquet: Path | None = None,
    pivoting: Pivoting = NOT_PIVOTED,
    html: Path | None = None,
    across: Sequence[str] = (),
) -> None:
    """Print what is stored at `where`; `formats` holds at most one name of `reports.export.WRITERS`.

    With `parquet` the run's frame goes into that file instead, with `html` its page. `across` is for `show_several`.

    Raises:
        UsageError: there is no such run, it cannot be read or has no such form, two formats were asked for, the
            file cannot be written, a library for it is missing, or what is pivoted or `across` does not fit.
        HeadbenchError: what is stored cannot be shown.
    """
    wanted = [*formats, *(["parquet"] if parquet else []), *(["html"] if html else [])]
    form = at_most_one(wanted)
    if across:
        keys = ",".join(across)
        raise UsageError(f"--across {shown(keys)} is between runs: name another, or leave it out")
    pivoting.check(form)
    stored = _stored(where)
    if pivoting.by and not isinstance(stored, Run):
        raise UsageError(f"--by {pivoting.by} is a run's, not a session's: name its base or its head folder")
    if html:
        write_run(stored, html) if isinstance(stored, Run) else write_session(stored, html)
    elif not isinstance(stored, Run):
        print_session(stored, stored.comparisons(), wanted)
    elif pivoting.by:
        print_pivot(stored, pivoting, form)
    elif parquet:
        _write_parquet(stored, parquet)
    elif form:
        _export(stored, form)
    else:
        print_report(stored)


def show_several(
    where: Sequence[str], others: Sequence[str], html: Path | None, across: Sequence[str] = ()
) -> None:
    """Write a page that holds each of the later runs against the first; `others` are the other options in use.

    `across` names the keys in which they may differ, as for `compare`.

    Raises:
        UsageError: a run cannot be read, the file cannot be written, `html` is missing, a key is unknown, or another
            option was given.
        HeadbenchError: what is stored cannot be shown.
    """
    if html is None:
        raise UsageError(
            f"{len(where)} runs go to one page with --html FILE; `compare` prints two against each other"
        )
    if others:
        raise UsageError(
            f"{len(where)} runs go to --html alone: leave --{' and --'.join(others)} out, or name one run"
        )
    from harness.compare_command import check_across
    from results.unpaired import compare

    check_across(across)
    try:
        base, *heads = (read_each(one) for one in where)
    except StoreError as error:
        raise UsageError(str(error)) from error
    labels = [side_label(*one) for one in zip(where, [base, *heads], strict=True)]
    found = [
        compare(base, head, across, (labels[0], name)) for head, name in zip(heads, labels[1:], strict=True)
    ]
    write_comparisons(found, [run for side in (base, *heads) for run in side], html)


def print_report(run: Run) -> None:
    """The run's tables on stdout, as wide as the terminal, or 100 columns where there is none.

    Raises:
        HeadbenchError: what is stored cannot be shown.
    """
    from reports.content import from_run
    from reports.terminal import new_console, render

    with damage_told(run):
        render(from_run(run), new_console())


def recorded(where: str) -> Run:
    """The run that `--from` names.

    Raises:
        UsageError: there is none, it cannot be read, or it is a session of two.
    """
    try:
        folder = locate(where)
        if is_session(folder):
            raise UsageError(f"--from {where} is an ab session: name its base or its head folder")
        return read(folder)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _stored(where: str) -> Run | PairedRuns:
    try:
        folder = locate(where)
        return read_pairs(folder) if is_session(folder) else read(folder)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _export(run: Run, form: str) -> None:
    from reports.export import WRITERS

    with damage_told(run):
        text = WRITERS[form](run)
    sys.stdout.write(text)


def _write_parquet(run: Run, path: Path) -> None:
    from reports.export import to_parquet

    try:
        to_parquet(run, path)
    except ImportError as error:
        raise UsageError("--parquet needs pyarrow: pip install pyarrow") from error
    except OSError as error:
        raise UsageError(f"--parquet {path} cannot be written: {error.strerror or error}") from error
