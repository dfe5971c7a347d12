from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.logger import Logger
from pytest_benchmark.stats import Stats
from pytest_benchmark.storage.file import FileStorage

from reports.pytest_benchmark import summary, to_pytest_benchmark
from tests.reports import runs

if TYPE_CHECKING:
    from pathlib import Path

times = st.floats(1e-9, 1e3)


def benchmarks(of: runs.Run) -> dict[str, dict[str, Any]]:
    return {one["fullname"]: one for one in json.loads(to_pytest_benchmark(of))["benchmarks"]}


@given(st.lists(times, min_size=1, max_size=40) | st.lists(st.sampled_from([1e-4, 1.1e-4, 5e-4]), min_size=1))
def test_the_statistics_are_those_pytest_benchmark_computes(rounds_s: list[float]) -> None:
    theirs = Stats()
    for one in rounds_s:
        theirs.update(one)
    ours = summary(rounds_s)
    assert list(ours) == list(theirs.fields)
    for name, value in theirs.as_dict().items():
        if "outliers" not in name and name not in ("ld15iqr", "hd15iqr"):  # steps: a last bit may decide them
            assert ours[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name


def test_outliers_are_counted_as_pytest_benchmark_does() -> None:
    rounds_s = [1.0, 1.1, 1.2, 1.3, 9.0, 0.01]
    theirs = Stats()
    for one in rounds_s:
        theirs.update(one)
    ours = summary(rounds_s)
    names = ("outliers", "iqr_outliers", "stddev_outliers", "ld15iqr")
    assert {name: ours[name] for name in names} == {name: theirs.as_dict()[name] for name in names}
    assert ours["hd15iqr"] == 1.3  # before 5.3 pytest-benchmark gave the datum above it


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        summary([])


def test_a_round_is_a_replicate_s_median_in_each_mode() -> None:
    found = benchmarks(runs.gpu_run())
    fused = found["qkv/forward/b32-t1024-h12x64-causal-bf16/fused[isolated]"]
    assert fused["stats"]["data"] == pytest.approx([191e-6 * 1.002**n for n in range(3)])
    assert fused["stats"]["mean"] == pytest.approx(191e-6 * (1 + 1.002 + 1.002**2) / 3)
    assert fused["group"] == "qkv/forward/b32-t1024-h12x64-causal-bf16 isolated"
    assert fused["name"] == "fused[isolated]"
    assert fused["params"]["head_dim"] == 64
    assert [len(series["span_s"]) for series in fused["extra_info"]["samples"]] == [10, 10, 10]
    eager = found["qkv/forward/b32-t1024-h12x64-causal-bf16/fused[eager]"]
    assert eager["stats"]["min"] == pytest.approx(2 * 191e-6)


def test_only_cases_that_are_ok_are_benchmarks() -> None:
    variants = {one["params"]["variant"] for one in benchmarks(runs.every_outcome()).values()}
    assert variants == {"per_head", "fused", "uncaptured"}
    assert json.loads(to_pytest_benchmark(runs.run([])))["benchmarks"] == []


def test_the_machine_and_the_commit_are_told() -> None:
    data = json.loads(to_pytest_benchmark(runs.gpu_run()))
    assert data["machine_info"]["gpu"]["uuid"] == "GPU-1"
    assert data["machine_info"]["cpu"] == {"brand_raw": "Example CPU", "count": 16}
    assert data["commit_info"]["id"] == "01a299b0c0ffee"
    assert data["commit_info"]["dirty"] is False
    assert data["datetime"] == "2026-01-02T03:04:05Z"
    unknown = json.loads(to_pytest_benchmark(runs.cpu_run()))
    assert (unknown["commit_info"]["id"], unknown["commit_info"]["dirty"]) == ("unversioned", True)


def test_pytest_benchmark_s_own_storage_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(to_pytest_benchmark(runs.gpu_run()))
    read = list(FileStorage(tmp_path, Logger(Logger.NORMAL)).load_benchmarks(str(path)))
    assert len(read) == len(benchmarks(runs.gpu_run()))
    assert read[0]["rounds"] == 3


def test_pytest_benchmark_compare_shows_two_runs_and_draws_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(to_pytest_benchmark(runs.every_outcome()))
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", "one.json", "two.json", "--histogram=drawn"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fused[isolated] (one)") == 1
    assert done.stdout.count("fused[isolated] (two)") == 1
    assert list(tmp_path.glob("drawn*.svg"))
