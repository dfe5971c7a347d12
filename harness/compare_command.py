"""`compare`: recorded runs against each other. Advice: it never fails a CI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UsageError, unknown
from harness.html_output import write_comparisons
from harness.verdict_output import at_most_one, print_verdicts, side_label
from results.keys import KEYS, SHAPE
from results.store import StoreError, read_each
from results.unpaired import compare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from results.run import Run

NOTHING_COMPARABLE = 4


def show(
    base: str, head: str, across: Sequence[str], formats: Sequence[str], html: Path | None = None
) -> int:
    """Print what head's runs are against base's; 0 where anything could be compared, else 4.

    A side is a run, a folder of runs or a reference, by any name that `results.store.locate` knows. `across` names
    the keys that may differ; `formats` holds at most one name of
    `reports.verdict_export.WRITERS`; with `html` a page goes into that file instead.

    Raises:
        UsageError: a side cannot be read, a key is unknown, two formats were asked for, or the file cannot be written.
    """
    check_across(across)
    sides = [_runs(where) for where in (base, head)]
    labels = (side_label(base, sides[0]), side_label(head, sides[1]))
    comparisons = compare(sides[0], sides[1], across, labels)
    if html:
        at_most_one([*formats, "html"])
        write_comparisons([comparisons], [run for side in sides for run in side], html)
    else:
        print_verdicts(comparisons, formats)
    return 0 if comparisons.comparable else NOTHING_COMPARABLE


def check_across(keys: Sequence[str]) -> None:
    """Raises UsageError where one of them is no key that two runs could differ in."""
    for key in keys:
        if key not in (*KEYS, *SHAPE):
            raise unknown("--across", key, (*KEYS, *SHAPE))


def _runs(where: str) -> list[Run]:
    try:
        return read_each(where)
    except StoreError as error:
        raise UsageError(str(error)) from error
