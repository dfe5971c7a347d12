"""A run for other programs, or for pasting elsewhere: CSV, JSON, Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from reports import content, markdown
from results.codec import encode

if TYPE_CHECKING:
    from results.run import Run


def to_csv(run: Run) -> str:
    """The run's frame, a row per case under the names of its columns; an empty cell is a missing value."""
    return str(run.frame().to_csv(index=False))


def to_json(run: Run) -> str:
    """`{"manifest": …, "records": […]}` as strict JSON: what is unknown or not a number is null."""
    records = [asdict(record) for record in run.records()]
    everything = {"manifest": run.manifest.to_json(), "records": records}
    return json.dumps(encode(everything), allow_nan=False, indent=1) + "\n"


def to_markdown(run: Run) -> str:
    """The terminal's report as GitHub Markdown."""
    return markdown.to_markdown(content.from_run(run))
