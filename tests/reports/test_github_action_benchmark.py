from __future__ import annotations

import json

import pytest

from reports.github_action_benchmark import to_github_action_benchmark
from tests.reports import runs

REQUIRED = {"name": str, "unit": str, "value": (int, float)}
OPTIONAL = {"range": str, "extra": str}
"""What the action's README and its parser ask of an entry of `customSmallerIsBetter`."""


def strictly(text: str) -> list[dict[str, object]]:
    """The entries, each of the documented fields and types only."""
    entries = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert isinstance(entries, list)
    for entry in entries:
        assert REQUIRED.keys() <= entry.keys() <= REQUIRED.keys() | OPTIONAL.keys()
        for name, value in entry.items():
            assert isinstance(value, {**REQUIRED, **OPTIONAL}[name])
    return entries


@pytest.mark.parametrize("of", [runs.gpu_run(), runs.cpu_run(), runs.cpu_run(1), runs.every_outcome()])
def test_every_entry_has_the_documented_form(of: runs.Run) -> None:
    entries = strictly(to_github_action_benchmark(of))
    timed = [standing for standing in of.standings() if standing.time]
    assert len(entries) == len(timed)
    assert len({entry["name"] for entry in entries}) == len(entries)


def test_the_value_is_the_headline_time_in_microseconds_with_its_interval() -> None:
    entries = {entry["name"]: entry for entry in strictly(to_github_action_benchmark(runs.gpu_run()))}
    fused = entries["qkv/forward/b32-t1024-h12x64-causal-bf16/fused [isolated]"]
    assert fused["unit"] == "µs"
    assert fused["value"] == pytest.approx(191e-6 * 1.002 * 1e6, rel=1e-6)
    # t interval at 95 % of three logs 0.2 % apart: 4.3027 · 0.002 / √3, and the timer's 10 ns.
    half_us = 191.382 * (4.3027 * 0.001998 / 3**0.5) + 0.01
    assert float(str(fused["range"]).removeprefix("± ")) == pytest.approx(half_us, rel=2e-3)
    assert "machine: NVIDIA H200\nreplicates: 3\nsamples: 27" in str(fused["extra"])


def test_one_replicate_has_no_range() -> None:
    assert all("range" not in entry for entry in strictly(to_github_action_benchmark(runs.cpu_run(1))))


def test_a_case_without_a_time_has_no_point() -> None:
    names = [str(entry["name"]) for entry in strictly(to_github_action_benchmark(runs.every_outcome()))]
    assert [name.rpartition("/")[2] for name in names] == [
        "per_head [isolated]",
        "fused [isolated]",
        "uncaptured [isolated]",
    ]
