"""The one place where numbers become text: times, intervals, rates, shares, bytes, ratios.

Every function takes the number in its base unit, or None for a value that is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from reports.text import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TIME_UNITS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_RATE_PREFIXES = ((1e6, "M"), (1e9, "G"), (1e12, "T"))
_BYTE_UNITS = tuple((1024.0**power, unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB")))

MOST_IN_A_COLUMN = 99_950
"""Numbers from here on have six digits: a column that holds such a number takes a larger unit."""

SMALLEST_IN_FULL, LARGEST_IN_FULL = 1e-9, 1e15
"""What lies beyond is no measurement's number, and as digits it would push everything else out of a table."""


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit for a column, so that its numbers can be compared at a glance."""

    unit: str
    divisor: float

    def __call__(self, value: float | None, digits: int) -> str:
        """`191.2 µs`: the number and its unit."""
        return f"{self.number(value, digits)} {self.unit}" if _known(value) else MISSING

    def number(self, value: float | None, digits: int) -> str:
        """The bare number, where the unit stands in the column's title."""
        return significant(value / self.divisor, digits) if _known(value) else MISSING


def rate_scale(rates_per_s: Iterable[float | None], what: str) -> Scale:
    """The largest of M, G and T in which the column's largest rate is 1 or more; `what` is `FLOP` or `B`."""
    largest = max((rate for rate in rates_per_s if _known(rate)), default=1e9)
    fitting = [pair for pair in _RATE_PREFIXES if largest >= 0.9995 * pair[0]]
    divisor, prefix = fitting[-1] if fitting else _RATE_PREFIXES[0]
    return Scale(f"{prefix}{what}/s", divisor)


def time_scale(times_s: Iterable[float | None]) -> Scale:
    """The unit of the column's shortest time, or a larger one where its longest would need six digits."""
    return _shared_scale(times_s, _TIME_UNITS)


def size_scale(counts: Iterable[int | None]) -> Scale:
    """The unit of the column's smallest size above 0 B, or a larger one where its largest needs six digits."""
    return _shared_scale(counts, _BYTE_UNITS)


def _shared_scale(values: Iterable[float | None], units: Sequence[tuple[float, str]]) -> Scale:
    known = [value for value in values if _known(value) and value > 0]
    smallest, largest = min(known, default=0.0), max(known, default=0.0)
    fitting = [pair for pair in units if smallest >= 0.99995 * pair[0]] or [units[0]]
    roomy = [pair for pair in units if pair >= fitting[-1] and largest < MOST_IN_A_COLUMN * pair[0]]
    divisor, unit = roomy[0] if roomy else units[-1]
    return Scale(unit, divisor)


def rate(per_s: float | None, what: str = "FLOP") -> str:
    """`597 TFLOP/s`, `48.1 GFLOP/s`, `2.31 TB/s`."""
    return rate_scale([per_s], what)(per_s, 3)


def duration(seconds: float | None, digits: int = 4) -> str:
    """`191.2 µs`: four significant digits, or as many as wanted, in ns, µs, ms or s, of either sign."""
    if not _known(seconds):
        return MISSING
    if seconds == 0:
        return "0 s"
    rounded = float(f"{seconds:.{digits}g}")
    fitting = [pair for pair in _TIME_UNITS if abs(rounded) >= pair[0]]
    scale, unit = fitting[-1] if fitting else _TIME_UNITS[0]
    return f"{significant(rounded / scale, digits)} {unit}"


def percent(fraction: float | None) -> str:
    """`60 %`, `4.2 %`, `0.3 %`, `<0.1 %`: as many digits as a table needs, never a rounded-down zero."""
    if not _known(fraction):
        return MISSING
    value = 100 * fraction
    if 0 < abs(value) < 0.05:
        return "<0.1 %" if value > 0 else ">-0.1 %"
    if abs(value) >= LARGEST_IN_FULL:
        return f"{value:.0e} %"
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"


def elapsed(seconds: float) -> str:
    """`8 s`, `10 min 4 s`, `1 h 3 min`: what a clock on the wall tells."""
    minutes, rest_s = divmod(round(seconds), 60)
    hours, rest_min = divmod(minutes, 60)
    if hours:
        return f"{hours} h {rest_min} min"
    if minutes:
        return f"{minutes} min {rest_s} s"
    return f"{rest_s} s" if rest_s else "less than 1 s"


def interval(share: float | None) -> str:
    """`0.4 %` for an interval of ± 0.4 %; `>100 %` where it says next to nothing."""
    return ">100 %" if _known(share) and share > 1 else percent(share)


def ratio(value: float | None) -> str:
    """`3.04 ×`, `12.6 ×`, `0.083 ×`: three significant digits."""
    return f"{significant(value, 3)} ×" if _known(value) else MISSING


def ratio_range(values: Iterable[float | None]) -> str:
    """`3.42 to 4.74 ×`, the least and the largest of those that are known, or `3.42 ×` where both read alike."""
    known = [value for value in values if _known(value)]
    if not known:
        return MISSING
    low, high = ratio(min(known)), ratio(max(known))
    return low if low == high else f"{low.removesuffix(' ×')} to {high}"


def size(count: int | None) -> str:
    """`384 MiB`, `1.50 GiB`, `512 B`: three significant digits in powers of 1024."""
    if not _known(count):
        return MISSING
    value, power = float(count), 0
    while abs(value) >= (999.5 if power else 1024) and power < len(_BYTE_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{count} B" if power == 0 else f"{significant(value, 3)} {_BYTE_UNITS[power][1]}"


def count(number: int) -> str:
    """`28.3 M`, `2.36 M`, `147,456`: three significant digits in millions and billions."""
    fitting = [pair for pair in ((1e6, "M"), (1e9, "G")) if number >= 0.9995 * pair[0]]
    return f"{significant(number / fitting[-1][0], 3)} {fitting[-1][1]}" if fitting else f"{number:,}"


def significant(value: float, digits: int) -> str:
    """`value` with `digits` significant digits: 1.000, 23.4, 12345; an exponent only where no table has room."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if not SMALLEST_IN_FULL <= abs(rounded) < LARGEST_IN_FULL:
        return f"{value:.{digits - 1}e}"
    return f"{rounded:.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
