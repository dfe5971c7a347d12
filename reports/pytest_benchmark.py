"""A run as the JSON that pytest-benchmark writes, for its `compare`, its histograms and the tools that read it.

A benchmark is a case in one timing mode, a round one replicate: its median. The format is pytest-benchmark 5's.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

from results.codec import encode
from results.exchange import every_sample, machine_facts
from results.medians import medians

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results.record import Record
    from results.run import Run
    from results.schema import Manifest, Trial

FORMAT = "5.2.0"


def to_pytest_benchmark(run: Run) -> str:
    """Every ok case in each mode it has times in; the others are not there, as failed tests never are."""
    of_case: dict[str, list[Trial]] = {}
    for trial in run.trials:
        of_case.setdefault(trial.case.key, []).append(trial)
    rounds = medians(run.trials)
    benchmarks = [
        _benchmark(record, mode, [one.value_s for one in rounds[record.case][mode].values()], of_case)
        for record in run.records()
        for mode in record.estimates
    ]
    document = {
        "machine_info": _machine(run.manifest),
        "commit_info": _commit(run.manifest),
        "benchmarks": benchmarks,
        "datetime": run.manifest.created_utc,
        "version": FORMAT,
    }
    return json.dumps(encode(document), allow_nan=False, indent=1) + "\n"


def _benchmark(
    record: Record, mode: str, rounds_s: Sequence[float], of_case: dict[str, list[Trial]]
) -> dict[str, Any]:
    case = record.case
    trials = of_case[case.key]
    return {
        "group": f"{case.group} {mode}",
        "name": f"{case.variant}[{mode}]",
        "fullname": f"{case.key}[{mode}]",
        "params": {**asdict(case), "mode": mode},
        "param": mode,
        "extra_info": {
            "run_id": record.run_id,
            "flags": list(record.flags),
            "peak_delta_bytes": record.peak_delta_bytes,
            "samples": every_sample(trials).get(mode, []),
        },
        "options": {"timer": "headbench", "rounds_are": "medians of fresh processes"},
        "stats": {**summary(rounds_s), "data": list(rounds_s), "iterations": 1},
    }


def summary(rounds_s: Sequence[float]) -> dict[str, Any]:
    """What pytest-benchmark derives from rounds, in its own terms; times in seconds.

    Raises:
        ValueError: there is no round.
    """
    if not rounds_s:
        raise ValueError("no rounds: a benchmark has at least one")
    ordered = sorted(rounds_s)
    middle, spread = mean(ordered), stdev(ordered) if len(ordered) > 1 else 0.0
    q1, q3 = _quartiles(ordered)
    fence = 1.5 * (q3 - q1)
    inside = [one for one in ordered if q1 - fence <= one <= q3 + fence]
    far = sum(abs(one - middle) > spread for one in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": middle,
        "stddev": spread,
        "rounds": len(ordered),
        "median": median(ordered),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": len(ordered) - len(inside),
        "stddev_outliers": far,
        "outliers": f"{far};{len(ordered) - len(inside)}",
        "ld15iqr": min(inside),
        "hd15iqr": max(inside),
        "ops": len(ordered) / sum(ordered),
        "total": sum(ordered),
    }


def _quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    """The halves' medians; of an odd number, halfway between those with the middle one in both and in neither."""
    count = len(ordered)
    if count == 1:
        return ordered[0], ordered[0]
    without, within = count // 2, (count + 1) // 2
    low = (median(ordered[:without]) + median(ordered[:within])) / 2
    high = (median(ordered[-without:]) + median(ordered[-within:])) / 2
    return low, high


def _machine(manifest: Manifest) -> dict[str, Any]:
    environment = manifest.environment
    cpu = environment.get("cpu") or {}
    return {
        "node": "",
        "system": environment.get("platform"),
        "python_version": environment.get("python"),
        "cpu": {"brand_raw": cpu.get("name"), "count": cpu.get("cores")},
        **machine_facts(environment),
    }


def _commit(manifest: Manifest) -> dict[str, Any]:
    """The commit of headbench itself: what was measured is its variants."""
    git = manifest.environment.get("git") or {}
    return {
        "id": git.get("commit") or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": git.get("clean") is not True,
        "project": "headbench",
        "branch": "(unknown)",
    }
