"""What Nsight Compute wrote, as launches of kernels: its raw page as CSV, in which its own words stand, too.

Above the header there may be lines such as `==PROF== …`, below it a row of units; numbers have commas between
thousands. A kernel belongs to the case whose NVTX range it was launched in.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RANGE = "headbench case {}"
"""The NVTX range around the call of the case with this number."""

HEADER = '"ID",'
NAME = "Kernel Name"
RANGES = "Push/Pop_Range"
"""What is in the name of the column of the NVTX ranges a launch was made in."""
NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?")


class Uncounted(Exception):
    """A figure that the profile does not hold; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel: its name, and what each column says, with the column's unit."""

    name: str
    cells: Mapping[str, str]
    units: Mapping[str, str]

    def value(self, metric: str, unit: str = "") -> float:
        """What was counted.

        Raises:
            Uncounted: it was not, or the tool gives it in another unit or notation.
        """
        if metric not in self.cells:
            raise Uncounted(f"{metric} was not counted: this Nsight Compute does not know it on this GPU")
        cell, given = self.cells[metric], self.units.get(metric, "")
        number = float(cell.replace(",", "")) if NUMBER.fullmatch(cell) else math.nan
        if not math.isfinite(number):
            raise Uncounted(f"{metric} was not counted: {cell[:40]!r} is what Nsight Compute gives for it")
        if unit and given != unit:
            raise Uncounted(f"{metric} is given in {given[:20]!r}, not in {unit!r}")
        return number


def launches(text: str) -> dict[int, list[Launch]] | None:
    """The launches of each case by its number, in order; None where no table was written.

    Raises:
        Uncounted: there is a table, but not one that can be read.
    """
    lines = text.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if line.startswith(HEADER)), None)
    if start is None:
        return None
    table = "".join(line for line in lines[start:] if not line.startswith("=="))
    try:
        header, *rows = csv.reader(io.StringIO(table, newline=""))
    except csv.Error as error:
        raise Uncounted(f"Nsight Compute's table cannot be read: {error}") from error
    units: dict[str, str] = {}
    ranges = next((place for place, column in enumerate(header) if RANGES in column), None)
    if ranges is None or NAME not in header:
        raise Uncounted("Nsight Compute's table lacks the kernels' names or their ranges")
    of_case: dict[int, list[Launch]] = defaultdict(list)
    for row in rows:
        if len(row) != len(header):
            continue  # cut short: the profiler was ended while it wrote
        if not row[0]:
            units = dict(zip(header, row, strict=True))
        elif number := _case(row[ranges]):
            cells = dict(zip(header, row, strict=True))
            of_case[int(number)].append(Launch(cells[NAME], cells, units))
    return dict(of_case)


def _case(ranges: str) -> str | None:
    """The number in the range's name; a variant may have ranges of its own inside."""
    found = re.search(RANGE.format(r"(\d{1,9})\b"), ranges)
    return found[1] if found else None
