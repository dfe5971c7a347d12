"""A run as the `customSmallerIsBetter` entries that github-action-benchmark charts: one line per case over time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from results.ranking import Standing
    from results.run import Run

UNIT = "µs"
"""One unit for all: a chart's points must not change theirs from commit to commit."""


def to_github_action_benchmark(run: Run) -> str:
    """`[{"name", "unit", "value", "range", "extra"}, …]`, each ok case in its group's headline mode."""
    entries = [_entry(standing) for standing in run.standings() if standing.time]
    return json.dumps(entries, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _entry(standing: Standing) -> dict[str, Any]:
    time, manifest = standing.time, standing.manifest
    assert time is not None
    machine = manifest.environment.get("gpu") or manifest.environment.get("cpu") or {}
    told = {
        "machine": machine.get("name"),
        "replicates": time.replicates,
        "samples": time.samples,
        "run": standing.record.run_id,
        "flags": ", ".join(standing.record.flags) or None,
    }
    entry = {
        "name": f"{standing.record.case.key} [{standing.mode}]",
        "unit": UNIT,
        "value": time.value_s * 1e6,
        "extra": "\n".join(f"{label}: {value}" for label, value in told.items() if value is not None),
    }
    if time.low_s is not None and time.high_s is not None:
        entry["range"] = f"± {(time.high_s - time.low_s) / 2 * 1e6:.4g}"
    return entry
