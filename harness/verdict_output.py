"""Verdicts on stdout, for every command that has some: `ab`, `compare` and `report`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.comparison import Comparisons


def print_verdicts(comparisons: Comparisons, formats: Sequence[str] = ()) -> None:
    """Print the comparison as tables, as wide as the terminal, or in the one format that is named.

    Raises:
        UsageError: two formats were asked for, or one that only a run has.
    """
    if len(formats) > 1:
        raise UsageError(f"--{' and --'.join(formats)} exclude each other: one would do")
    if not formats:
        from reports.terminal import new_console
        from reports.verdict_terminal import render

        render(comparisons, new_console())
        return
    from reports.verdict_export import WRITERS

    if formats[0] not in WRITERS:
        known = ", ".join(f"--{name}" for name in WRITERS)
        raise UsageError(f"--{formats[0]} is a run's, not a comparison's: {known} would do")
    sys.stdout.write(WRITERS[formats[0]](comparisons))
