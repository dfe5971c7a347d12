"""What Nsight Compute wrote on an H200, by the names of the cases in it; tests/data/README.md says how."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from harness.sensors.ncu_counters import counters
from harness.sensors.ncu_csv import launches
from harness.sensors.ncu_metrics import CHIPS

DATA = Path(__file__).resolve().parents[1] / "data"
HOPPER = CHIPS[9, 0]
FLOP_PER_CLOCK = {"bf16": 4096, "fp16": 4096, "tf32": 2048, "fp32": 256}
"""Of one SM of an H200."""


def text(of: str = "cases") -> str:
    """The whole table, with what stands above it."""
    return gzip.decompress((DATA / f"ncu_h200_{of}.csv.gz").read_bytes()).decode()


def numbers(table: str) -> dict[str, int]:
    """Each case's number by its name, from the names of the ranges."""
    found = re.findall(r":headbench case (\d+) a/b,c:([\w-]+):", table)
    return {name: int(number) for number, name in found}


def counted(name: str, table: str | None = None):
    """The counters of the case with this name."""
    table = text() if table is None else table
    of_case = launches(table)
    assert of_case is not None
    return counters(of_case[numbers(table)[name]], HOPPER, FLOP_PER_CLOCK, "Nsight Compute 2025.3.1")
