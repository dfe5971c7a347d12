"""What each variant reached, against what its arithmetic intensity and its machine allow at the clock it held.

The intensity is the algorithm's: useful FLOPs ÷ the least bytes that any implementation must move. All variants of a
group therefore share one; how far a point lies below the roof is what its implementation leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from results.peaks import peak_bytes_per_s, peak_flops_per_s, why_no_peak
from results.schema import MODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reports.content import Report
    from results.ranking import Standing
    from results.schema import Manifest


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """One case: useful FLOPs ÷ least bytes, and its useful FLOP/s."""

    row: Standing
    flop_per_byte: float
    flops_per_s: float
    sm_clock_mhz: float | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """All cases of one dtype, under the memory's rate and the tensor cores' at the clocks held.

    `low_` and `high_flops_per_s` are the peak at the lowest and the highest clock that a case held,
    `flops_per_s` at the median; all three are the datasheet's own where no clock is known (`at_clock` False).
    Without a peak or a memory rate it is None, and `missing` says why.
    """

    dtype: str
    points: tuple[RoofPoint, ...]
    flops_per_s: float | None = None
    low_flops_per_s: float | None = None
    high_flops_per_s: float | None = None
    clock_mhz: float | None = None
    at_clock: bool = False
    bytes_per_s: float | None = None
    missing: tuple[str, ...] = ()

    def roof(self, flop_per_byte: float, flops_per_s: float | None = None) -> float | None:
        """The most FLOP/s at this intensity, by default under the peak at the median clock."""
        flat = flops_per_s if flops_per_s is not None else self.flops_per_s
        if flat is None or self.bytes_per_s is None:
            return flat
        return min(flat, flop_per_byte * self.bytes_per_s)


def rooflines(report: Report) -> tuple[Roofline, ...]:
    """One for each dtype with a time."""
    points: dict[str, list[RoofPoint]] = {}
    for row in report.rows:
        if row.time and row.flops_per_s and row.record.least_bytes and not row.implausible:
            intensity = row.record.useful_flops / row.record.least_bytes
            points.setdefault(row.record.case.dtype, []).append(
                RoofPoint(row, intensity, row.flops_per_s, _clock(row))
            )
    return tuple(_roofline(report.manifest, dtype, of) for dtype, of in points.items())


def _roofline(manifest: Manifest, dtype: str, points: list[RoofPoint]) -> Roofline:
    clocks = [point.sm_clock_mhz for point in points if point.sm_clock_mhz]
    held = [peak_flops_per_s(manifest, dtype, mhz) for mhz in _three(clocks)]
    sheet = peak_flops_per_s(manifest, dtype)
    at_clock = all(one is not None for one in held) and bool(held)
    low, middle, high = held if at_clock else (sheet, sheet, sheet)
    bytes_per_s = peak_bytes_per_s(manifest)
    missing = (
        *([] if sheet else [why_no_peak(manifest, dtype)]),
        *([] if bytes_per_s else ["no memory rate is known for this device"]),
    )
    clock = median(clocks) if clocks and at_clock else None
    return Roofline(dtype, tuple(points), middle, low, high, clock, at_clock, bytes_per_s, missing)


def _clock(row: Standing) -> float | None:
    """The SM clock that the row's time was taken at."""
    for mode in (row.mode, *MODES):
        sampling = row.record.sampling.get(mode or "")
        if sampling and sampling.sm_clock_mhz:
            return sampling.sm_clock_mhz
    return None


def _three(clocks: list[float]) -> Iterable[float]:
    return (min(clocks), median(clocks), max(clocks)) if clocks else ()
