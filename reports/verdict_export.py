"""A comparison for other programs: CSV, JSON, JUnit, Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from reports.junit import CaseResult, junit
from reports.text import csv
from reports.verdict_markdown import to_markdown
from reports.verdicts import change
from results.codec import encode
from results.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from results.comparison import Comparison, Comparisons


def to_csv(of: Comparisons) -> str:
    """A row per case and mode, under the names of `Comparisons.frame()`; an empty cell is a missing value."""
    return csv(of.frame())


def to_json(of: Comparisons) -> str:
    """All of the comparison as strict JSON, and whether any of it is `comparable`: what is unknown is null."""
    everything = {"comparable": of.comparable, **asdict(of)}
    return json.dumps(encode(everything), allow_nan=False, indent=1) + "\n"


def to_junit(of: Comparisons) -> str:
    """A test per row: slower in a guarded mode fails, what has no verdict is skipped, a case that failed is an error.

    Without any guarded row, as `compare` has it, nothing fails.
    """
    failed = set(of.failed)
    results = [_result(row, failed=row.case in failed) for row in of.rows]
    for side, cases in (("base", of.only_base), ("head", of.only_head)):
        results += [
            CaseResult(
                case.group, case.variant, "skipped", f"only_in_{side}", f"only in {side}: not compared"
            )
            for case in cases
        ]
    return junit(f"{of.base} → {of.head}", results)


WRITERS: dict[str, Callable[[Comparisons], str]] = {
    "csv": to_csv,
    "json": to_json,
    "markdown": to_markdown,
    "junit": to_junit,
}
"""What can be written to stdout, by the name of its option."""


def _result(row: Comparison, *, failed: bool) -> CaseResult:
    ended = None
    if row.verdict is Verdict.INCOMPARABLE:
        ended = "error" if failed and row.guarded else "skipped"
    elif row.verdict is Verdict.UNDECIDED:
        ended = "skipped"
    elif row.verdict is Verdict.SLOWER and row.guarded:
        ended = "failure"
    return CaseResult(
        group=row.case.group,
        name=f"{row.case.variant} [{row.mode}]",
        ended=ended,
        kind=row.verdict.value,
        reason=row.reason or _measured(row),
        output=f"{row.verdict.value}: {_measured(row)}",
    )


def _measured(row: Comparison) -> str:
    """`+3.02 % (+2.80 % … +3.24 %), 0.0001 s → 0.000103 s`, as far as it is known."""
    if row.ratio is None or row.base_s is None or row.head_s is None:
        return row.reason or "not measured"
    known = f" ({change(row.low)} … {change(row.high)})" if row.low is not None else ""
    return f"{change(row.ratio)}{known}, {row.base_s:.6g} s → {row.head_s:.6g} s"
