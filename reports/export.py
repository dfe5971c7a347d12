"""A run for other programs, or for pasting elsewhere: one writer per format."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from reports import content, run_markdown
from reports.github_action_benchmark import to_github_action_benchmark
from reports.junit import to_junit
from reports.pytest_benchmark import to_pytest_benchmark
from reports.text import csv
from results.codec import encode
from results.tensor_use import tensor_use

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from results.run import Run


def to_csv(run: Run) -> str:
    """The run's frame, a row per case under the names of its columns; an empty cell is a missing value."""
    return csv(run.frame())


def to_json(run: Run) -> str:
    """`{"manifest": …, "ceilings": …, "records": […]}` as strict JSON: what is unknown or not a number is null.

    Each record has what is derived of its tensor-core use in `tensor_use`, with the reason for all that is missing.
    """
    records = [
        {**asdict(standing.record), "tensor_use": asdict(tensor_use(standing))}
        for standing in run.standings()
    ]
    ceilings = run.ceilings.to_json() if run.ceilings else None
    everything = {"manifest": run.manifest.to_json(), "ceilings": ceilings, "records": records}
    return json.dumps(encode(everything), allow_nan=False, indent=1) + "\n"


def to_markdown(run: Run) -> str:
    """The report as GitHub Markdown, short enough for a comment."""
    return run_markdown.to_markdown(content.from_run(run))


def to_parquet(run: Run, path: Path) -> None:
    """Write the run's frame to `path`, a row per case; a file that is there is replaced.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    run.frame().to_parquet(path, engine="pyarrow", index=False)


WRITERS: dict[str, Callable[[Run], str]] = {
    "csv": to_csv,
    "json": to_json,
    "markdown": to_markdown,
    "junit": to_junit,
    "pytest-benchmark": to_pytest_benchmark,
    "github-action-benchmark": to_github_action_benchmark,
}
"""What can be written to stdout, by the name of its option."""
