"""One HTML file of a run, or of what runs are against each other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from results.comparison import Comparisons
    from results.paired import PairedRuns
    from results.run import Run

NEEDS = "altair and vl-convert-python"


def write_run(run: Run, path: Path) -> None:
    """Write the run's page to `path`, where a file is replaced, and say so.

    Raises:
        UsageError: what draws the charts is not installed, or the file cannot be written.
        HeadbenchError: what is stored cannot be shown.
    """
    with _libraries(), damage_told(run):
        from reports.html.run_page import run_page

        page = run_page(run)
    _write(page, path)


def write_session(session: PairedRuns, path: Path) -> None:
    """Write the page of an `ab` session.

    Raises:
        UsageError, HeadbenchError: as `write_run`.
    """
    told: list[str] = []
    if session.is_self_check:
        from reports.self_check import sentences
        from results.self_check import self_check

        told = sentences(self_check(session))
    write_comparisons([session.comparisons()], [session.base, session.head], path, told)


def write_comparisons(
    of: Sequence[Comparisons], runs: Sequence[Run], path: Path, told: Sequence[str] = ()
) -> None:
    """Write the page of these comparisons, of which `runs` are the sides.

    Raises:
        UsageError, HeadbenchError: as `write_run`.
    """
    with _libraries(), damage_told(*runs):
        from reports.html.comparison_page import comparison_page

        page = comparison_page(of, runs, told)
    _write(page, path)


@contextmanager
def _libraries() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(f"--html needs {NEEDS}: pip install altair vl-convert-python") from error


def _write(page: str, path: Path) -> None:
    from reports import units
    from reports.text import plain

    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path} cannot be written: {error.strerror or error}") from error
    print(f"{plain(path)}: {units.size(path.stat().st_size)}, for any browser")
