"""What the figures of a table mean together, in words: padding, busier yet slower, rates that do not compare.

All of it is derived from what the run recorded. A kernel's width is named only where two witnesses agree: a number in
the name of the kernel that does the work, and what the tensor cores executed over what the algorithm needs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from reports import units
from reports.columns import UNSURE_MARK
from reports.pivot_reasons import few
from reports.text import listing, plain
from results.ranking import apart
from results.schema import Outcome
from results.tensor_use import GPM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reports.pivot import Cell, PivotTable, Value
    from results.ranking import Standing
    from results.record import Record
    from results.statistics import Estimate

WASTE = 1.05
"""Issued ÷ useful from here on, or so much more than at the variant's best value, is worth a sentence."""

DEPTH_OF = "output"
"""The stage in which head_dim is the depth of a head's product: its padding is no kernel's width."""

WORTH_WORDS = 1 / 4
"""A variant whose useful rate is below this share of the best one's everywhere is not talked about."""

BUSIER = 3.0
"""Points of active that are no noise: repeated readings differ by a tenth of it."""

SLOWER = 0.05
"""A loss of useful rate that is worth a sentence."""

EQUAL = 0.001
"""Rates nearer to each other are told no difference of."""

RATES_APART = 0.1
"""Where rates while active differ by more, active shares do not compare."""

NO_SIZE = re.compile(r"sm_?\d+|(?:bfloat|float|bf|fp|tf|f)\d+", re.IGNORECASE)
"""Numbers of a kernel's name that are its architecture's or a format's."""


def sentences(table: PivotTable) -> Iterator[str]:
    """At most a few for each variant, in the table's order; then what holds across them."""
    for variant in table.variants:
        row = [(value, cell) for value, cell in table.cells_of(variant) if _believed(cell)]
        if _far_behind(row, table):
            continue
        if table.by != "dtype":  # a lower rate is what another dtype's tensor cores are made for
            wastes = _wastes(row, table.by)
            yield from (_wasted(variant, group) for group in _grouped(wastes, [value for value, _ in row]))
            told = {waste.value for waste in wastes}
            yield from _parted(variant, [place for place in row if place[0] not in told])
    yield from _rates(table)
    yield from _without(table)


def _far_behind(row: Sequence[tuple[Value, Cell]], table: PivotTable) -> bool:
    """Whether nobody would choose this variant at any of its values, so that what it wastes is of no interest."""
    return bool(row) and all(
        (cell.row.flops_per_s or 0.0) < WORTH_WORDS * max(_useful_rates(table, value), default=0.0)
        for value, cell in row
    )


def _useful_rates(table: PivotTable, value: Value) -> list[float]:
    cells = (table.cells.get((variant, value)) for variant in table.variants)
    return [rate for cell in cells if cell and _believed(cell) and (rate := cell.row.flops_per_s)]


def _believed(cell: Cell) -> bool:
    return cell.row.outcome is Outcome.OK and not cell.row.implausible


@dataclass(frozen=True, slots=True)
class _Waste:
    """A value at which the tensor cores execute more than elsewhere: `beside` is the nearest where they do not."""

    value: Value
    cell: Cell
    ratio: float
    width: int | None
    beside: tuple[Value, Cell] | None

    @property
    def busier(self) -> bool:
        return self.beside is not None and _busier_yet_slower(self.cell, self.beside[1])


def _wastes(row: Sequence[tuple[Value, Cell]], by: str) -> list[_Waste]:
    ratios = {value: cell.use.issued_ratio for value, cell in row if cell.use.issued_ratio}
    least = max(1.0, min(ratios.values(), default=1.0))  # what ran outside the tensor cores is no standard
    widths = {
        value: _width(cell.row.record, ratios[value], least)
        if by == "head_dim" and cell.row.record.case.stage != DEPTH_OF
        else None
        for value, cell in row
        if value in ratios
    }
    wasting = {value for value, ratio in ratios.items() if widths[value] or ratio >= WASTE * least}
    sound = [(value, cell) for value, cell in row if value in ratios and value not in wasting]
    return [
        _Waste(value, cell, ratios[value], widths[value], _nearest(value, sound))
        for value, cell in row
        if value in wasting
    ]


def _width(record: Record, ratio: float, least: float) -> int | None:
    """The width that the case's heads run in, where the executed work and the kernel's name say the same one.

    The mask, a padded sequence and a backward pass have a share in the ratio that no width explains: there it is
    the ratio to the variant's best value that tells. Where both name a width, neither is sure; nor is any where the
    kernel is named after heads of this very size.
    """
    head_dim = record.case.head_dim
    named = {int(number) for name in _working(record) for number in re.findall(r"\d{1,6}", name)}
    if head_dim in named:
        return None
    # counts are exact: nothing else needs rounding
    widths = {round(head_dim * padding) for padding in (ratio, ratio / least) if padding >= WASTE} & named
    return widths.pop() if len(widths) == 1 else None


def _working(record: Record) -> list[str]:
    """The names of the kernels that issue half of the tensor cores' work or more, with sizes alone as numbers."""
    kernels = record.counters.kernels if record.counters else ()
    most = max((kernel.issued_flops or 0.0 for kernel in kernels), default=0.0)
    return [
        NO_SIZE.sub("", kernel.name) for kernel in kernels if 2 * (kernel.issued_flops or 0.0) >= most > 0
    ]


def _nearest(value: Value, sound: Sequence[tuple[Value, Cell]]) -> tuple[Value, Cell] | None:
    """The sound value nearest to this one; of words, the first."""
    if isinstance(value, int):
        return min(sound, key=lambda place: abs(int(place[0]) - value), default=None)
    return sound[0] if sound else None


def _grouped(wastes: Sequence[_Waste], values: Sequence[Value]) -> Iterator[list[_Waste]]:
    """Neighbours that run in one width, or in none that is known, together."""
    group: list[_Waste] = []
    for waste in wastes:
        last = group[-1] if group else None
        if last and (last.width != waste.width or values.index(waste.value) != values.index(last.value) + 1):
            yield group
            group = []
        group.append(waste)
    if group:
        yield group


def _wasted(variant: str, group: Sequence[_Waste]) -> str:
    """`sdpa_cudnn runs 72 in a 128-wide kernel: 1.78 × issued, 19 % less useful work a second than 64`."""
    worst = max(group, key=lambda waste: waste.ratio)
    values = [waste.value for waste in group]
    where = f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"
    more = f"executes more than the algorithm needs at {where}"
    what = f"runs {where} in a {worst.width}-wide kernel" if worst.width else more
    at = "" if len(values) == 1 else f" at {worst.value}"
    told = [f"{units.ratio(worst.ratio)} issued{at}"]
    if worst.beside:
        value, cell = worst.beside
        if rate := _rate_against(worst.cell.row, cell.row):
            told.append(f"{rate} than {value}")
        if worst.busier:
            told.append(f"though the tensor cores are busier ({_active(worst.cell)} against {_active(cell)})")
    return f"{plain(variant)} {what}: {', '.join(told)}"


def _rate_against(row: Standing, other: Standing) -> str | None:
    """`19 % less useful work a second`; None where one has no rate, they are as good as equal, or of two modes."""
    if not row.flops_per_s or not other.flops_per_s or row.mode != other.mode:
        return None
    change = row.flops_per_s / other.flops_per_s - 1
    if abs(change) < EQUAL:
        return None
    unsure = "" if _surely(row, other) else UNSURE_MARK
    return f"{unsure}{units.percent(abs(change))} {'less' if change < 0 else 'more'} useful work a second"


def _surely(row: Standing, other: Standing) -> bool:
    """Whether the two rates are apart: times of different work compare only per FLOP."""
    return (
        row.time is not None
        and other.time is not None
        and row.record.run_id == other.record.run_id
        and apart(_per_flop(row.time, row.record), _per_flop(other.time, other.record))
    )


def _per_flop(time: Estimate, record: Record) -> Estimate:
    low, high = (
        None if bound is None else bound / record.useful_flops for bound in (time.low_s, time.high_s)
    )
    return replace(time, value_s=time.value_s / record.useful_flops, low_s=low, high_s=high)


def _parted(variant: str, row: Sequence[tuple[Value, Cell]]) -> Iterator[str]:
    """The two neighbouring values between which most is lost although the pipes are busier; how often that is."""
    pairs = [pair for one, other in pairwise(row) for pair in ((one, other), (other, one))]
    found = [(at, than) for at, than in pairs if _busier_yet_slower(at[1], than[1])]
    if not found:
        return
    (value, cell), (other, beside) = min(found, key=lambda pair: _rate(pair[0]) / _rate(pair[1]))
    active = f"{_active(cell)} active against {_active(beside)}"
    often = f" (one of {len(found)} such steps)" if len(found) > 1 else ""
    rate = _rate_against(cell.row, beside.row)
    yield f"{plain(variant)} is busier and yet slower at {value} than at {other}: {active}, {rate}{often}"


def _rate(place: tuple[Value, Cell]) -> float:
    return place[1].row.flops_per_s or math.nan


def _busier_yet_slower(cell: Cell, other: Cell) -> bool:
    """Whether active and useful part ways between two cells, both told alike and timed in one mode."""
    active, before = cell.use.tensor_active_percent, other.use.tensor_active_percent
    rate, rate_before = cell.row.flops_per_s, other.row.flops_per_s
    if active is None or before is None or not rate or not rate_before:
        return False
    alike = cell.row.mode == other.row.mode and _witness(cell) == _witness(other)
    return alike and active >= before + BUSIER and rate <= (1 - SLOWER) * rate_before


def _witness(cell: Cell) -> tuple[str | None, ...]:
    """What told the active share. A share of a window also hangs on what kept the queue full, and on who else ran."""
    source, window = cell.use.tensor_active_source, cell.row.record.utilisation
    if source != GPM or window is None:
        return (source,)
    return source, window.fed_by, str(window.other_processes)


def _active(cell: Cell) -> str:
    percent = cell.use.tensor_active_percent
    return units.percent(None if percent is None else percent / 100)


def _rates(table: PivotTable) -> Iterator[str]:
    """One sentence where the variants' instructions differ in how much of the tensor cores' rate they reach."""
    rates = {variant: _known(cell for _, cell in table.cells_of(variant)) for variant in table.variants}
    typical = {variant: median(known) for variant, known in rates.items() if known}
    if not typical or max(typical.values()) - min(typical.values()) <= RATES_APART:
        return
    of_rate: dict[str, list[str]] = {}
    for variant, rate in sorted(typical.items(), key=lambda pair: -pair[1]):
        of_rate.setdefault(units.percent(rate), []).append(plain(variant))
    told = "; ".join(f"{', '.join(names)} {percent}" for percent, names in of_rate.items())
    yield f"while active, the tensor cores run at these shares of their rate, so that active does not compare: {told}"


def _without(table: PivotTable) -> Iterator[str]:
    """Who computes without tensor cores what they could compute, which no other figure says in so many words."""
    names: list[str] = []
    for variant in table.variants:
        cells = [place for place in table.cells_of(variant) if _believed(place[1])]
        without = [value for value, cell in cells if cell.use.issued_flops == 0 and _for_tensor_cores(cell)]
        if without:
            names.append(variant if len(without) == len(cells) else f"{variant} at {few(without)}")
    if names:
        none = f"{'executes' if len(names) == 1 else 'execute'} no matrix instruction"
        yield f"{listing(tuple(names))} {none}: what the tensor cores could do, the vector units do"


def _for_tensor_cores(cell: Cell) -> bool:
    """Whether there is work that they have a format for: a relayout has none, and float32 is the vector units'."""
    record = cell.row.record
    return bool(record.useful_flops) and record.case.dtype != "fp32"


def _known(cells: Iterable[Cell]) -> list[float]:
    return [rate for cell in cells if (rate := cell.use.rate_while_active)]
