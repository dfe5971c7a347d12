"""Verdicts on stdout, for every command that has some: `ab`, `compare` and `report`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.comparison import Comparisons
    from results.paired import PairedRuns
    from results.run import Run


def at_most_one(formats: Sequence[str]) -> str | None:
    """The format that was asked for.

    Raises:
        UsageError: there are two.
    """
    if len(formats) > 1:
        raise UsageError(f"--{' and --'.join(formats)} exclude each other: one would do")
    return formats[0] if formats else None


def side_label(where: str, runs: Sequence[Run]) -> str:
    """What one side of a comparison is called: its run's id, or where its runs are from."""
    return runs[0].manifest.run_id if len(runs) == 1 else f"{where} ({len(runs)} runs)"


def print_session(session: PairedRuns, comparisons: Comparisons, formats: Sequence[str] = ()) -> None:
    """Print a session's comparison as `print_verdicts` does; under its tables what a self-check tells.

    Raises:
        UsageError: as `print_verdicts`.
    """
    print_verdicts(comparisons, formats)
    if session.is_self_check and not formats:
        from reports.self_check import sentences
        from results.self_check import self_check

        for line in sentences(self_check(session)):
            print(line)


def print_verdicts(comparisons: Comparisons, formats: Sequence[str] = ()) -> None:
    """Print the comparison as tables, as wide as the terminal, or in the one format that is named.

    Raises:
        UsageError: two formats were asked for, or one that only a run has.
    """
    form = at_most_one(formats)
    if form is None:
        from reports.terminal import new_console
        from reports.verdict_terminal import render

        render(comparisons, new_console())
        return
    from reports.verdict_export import WRITERS

    if form not in WRITERS:
        known = ", ".join(f"--{name}" for name in WRITERS)
        raise UsageError(f"--{form} is a run's, not a comparison's: {known} would do")
    sys.stdout.write(WRITERS[form](comparisons))
