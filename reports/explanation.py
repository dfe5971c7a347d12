"""Where a case's time goes, for every renderer: a grid of bars, beside another case's where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.columns import UNSURE_MARK, Column, Grid, Line, case_title
from reports.text import MISSING, plain
from results.explanation import GAPS, GAPS_AND_KERNELS, LAUNCH, LAUNCHES_AND_GAPS, PARTS, WHOLE, why_no_time
from results.machines import whence
from results.ranking import is_wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from results.explanation import Explanation
    from results.ranking import Standing

METHOD = (
    "bars add up to the eager time of a call; useful and padding at the dtype's peak at the clock held; launch "
    "and gaps are differences of two measurements: below 0 they say by how much these disagree; "
    f"{UNSURE_MARK}: known to no better than ± 25 %"
)
EAGER = "eager call"
OF_MODE = {
    "eager": (LAUNCH, LAUNCHES_AND_GAPS, WHOLE, EAGER),
    "graph": (LAUNCH, GAPS, GAPS_AND_KERNELS),
}
"""The lines that are known no better than a mode's time."""
BAR = 30
"""Characters of a bar that is the whole."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One shape: its title, the grid, what stands beside the sum, and as `reasons` what must be known of the bars.

    That is of which runs they are where these differ, which are of an implausible time, and why some are not split.
    """

    title: str
    grid: Grid[str]
    reasons: tuple[str, ...]
    beside: tuple[str, ...]


def explained(sides: Sequence[tuple[Standing, Explanation]]) -> Explained:
    """One case, or it and the one that it is held against, at one shape."""
    names = [standing.variant for standing, _ in sides]
    return Explained(
        title=" · ".join(case_title(sides[0][0].record.case)),
        grid=_grid(names, sides),
        reasons=tuple(dict.fromkeys([*_caveats(sides), *_reasons(sides)])),
        beside=tuple(
            dict.fromkeys(line for standing, of in sides if (line := _beside(standing.variant, of)))
        ),
    )


def _caveats(sides: Sequence[tuple[Standing, Explanation]]) -> Iterator[str]:
    """What keeps bars from being believed, or held against each other."""
    runs = whence(standing.manifest for standing, of in sides if of.eager_s is not None)
    for standing, _ in sides if len(runs) > 1 else ():
        run = plain(runs[standing.manifest.run_id])
        yield f"{plain(standing.variant)}: from run {run}, the bars beside it from another"
    for standing, of in sides:
        if standing.implausible and of.eager_s is not None:
            yield f"{plain(standing.variant)}: implausible: {plain(standing.implausible)}"


def _reasons(sides: Sequence[tuple[Standing, Explanation]]) -> Iterator[str]:
    """Why one has no bars, or why some are not split further; what holds for both is said once."""
    about: dict[str, list[str]] = {}
    for standing, of in sides:
        if of.eager_s is None:
            yield f"{plain(standing.variant)} has no eager time: {plain(why_no_time(standing))}"
        for bar in of.bars:
            if bar.reason:
                said = f"{bar.name} not taken apart further: {plain(bar.reason)}"
                about.setdefault(said, []).append(plain(standing.variant))
    for said, names in about.items():
        yield f"{', '.join(dict.fromkeys(names))}: {said}"


def _grid(names: Sequence[str], shown: Sequence[tuple[Standing, Explanation]]) -> Grid[str]:
    sides = [explanation for _, explanation in shown]
    parts = [part for part in PARTS if any(bar.name == part for side in sides for bar in side.bars)]
    times = [{bar.name: bar.seconds for bar in side.bars} for side in sides]
    largest = max((side.eager_s or 0.0 for side in sides), default=0.0)
    scale = units.time_scale([side.eager_s for side in sides])
    columns: list[Column[str]] = [Column("part", str, left=True)]
    for name, side in zip(names, sides, strict=True):
        columns.append(Column(plain(name), str))
        if side.bars:
            columns.append(Column("", str, left=True))
    lines = []
    for part in (*parts, EAGER):
        cells = [part]
        for of, (standing, side) in zip(times, shown, strict=True):
            seconds = side.eager_s if part == EAGER else of.get(part)
            cells += [MISSING if seconds is None else _mark(standing, part) + scale(seconds, 3)]
            cells += [_bar(seconds, largest)] if side.bars else []
        lines.append(Line(tuple(cells)))
    return Grid(tuple(columns), tuple(lines))


def _mark(standing: Standing, part: str) -> str:
    """`~` where a time that the part is made of is known to no better than ± 25 %."""
    times = (standing.record.estimates.get(mode) for mode, parts in OF_MODE.items() if part in parts)
    return UNSURE_MARK if any(time and is_wide(time) for time in times) else ""


def _bar(seconds: float | None, whole_s: float) -> str:
    return "█" * round(BAR * seconds / whole_s) if seconds and seconds > 0 and whole_s > 0 else ""


def _beside(name: str, of: Explanation) -> str:
    """What is measured but in no sum, then estimates, labelled as such."""
    told = [
        f"clock {of.clock_mhz:.0f} MHz" if of.clock_mhz else "",
        f"tensor rate while active {units.percent(of.rate_while_active)}" if of.rate_while_active else "",
        f"DRAM {units.percent(of.dram_percent / 100)} of its peak" if of.dram_percent is not None else "",
        f"estimate: memory floor {units.duration(of.memory_floor_s, 3)}" if of.memory_floor_s else "",
        f"estimate: the longest kernel's last wave {units.percent(of.last_wave)} empty"
        if of.last_wave
        else "",
    ]
    known = "; ".join(one for one in told if one)
    return f"{plain(name)}: {known}" if known else ""
