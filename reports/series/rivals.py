"""How our fused attention kernels stand to the fastest library at the same shape, by the replay of a graph.

Graphs, because a kernel is what is compared: eager times hold the launches of Python wrappers as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.medians import medians
from results.within_run import Ratio, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.content import Report
    from results.medians import Medians
    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case

MODE = "graph"
OURS = ("flash_hopper", "flash_portable")
LIBRARIES = ("sdpa", "flex", "fa4")
"""What their names begin with: PyTorch's attention and its backends, its flex_attention, FlashAttention-4."""


@dataclass(frozen=True, slots=True)
class Rival:
    """The time of `library`, the fastest of `among`, ÷ the row's own: above 1 the row is the faster one."""

    row: Standing
    library: str
    among: tuple[str, ...]
    ratio: Ratio


def rivals(report: Report, run: Run) -> tuple[Rival, ...]:
    """Of every group that has one of ours and a library, both with a graph, of one run; in plan order, then `OURS`'."""
    times = medians(run.trials)
    return tuple(found for group in report.groups for found in _group(group.rows, times))


def _group(rows: Sequence[Standing], times: dict[Case, Medians]) -> Iterator[Rival]:
    timed = [row for row in rows if MODE in row.record.estimates and not row.implausible]
    libraries = [row for row in timed if row.variant.startswith(LIBRARIES)]
    best = min(libraries, key=lambda row: row.record.estimates[MODE].value_s, default=None)
    if best is None:
        return
    among = tuple(sorted(row.variant for row in libraries))
    of_best = times.get(best.record.case, {}).get(MODE, {})
    for row in sorted((row for row in timed if row.variant in OURS), key=lambda row: OURS.index(row.variant)):
        found = ratio(of_best, times.get(row.record.case, {}).get(MODE, {}))
        if row.record.run_id == best.record.run_id and not isinstance(found, str):
            yield Rival(row, best.variant, among, found)
