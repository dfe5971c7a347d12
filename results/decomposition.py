"""Where the time of an eager call goes: launches, gaps between kernels, and kernels.

    eager − graph   what a Python caller pays for launching, hot against hot
    graph − busy    gaps between kernels that a graph does not close
    busy            the union of the kernels' intervals

A difference is an estimate of its own: kernels are timed under a profiler, in another process than replays, so that it
may come out negative, by as much as the two disagree. It is shown so, and attributed to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.record import Record


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Seconds per call; None where a part was not measured."""

    eager_s: float | None
    graph_s: float | None
    busy_s: float | None

    @property
    def launch_overhead_s(self) -> float | None:
        """What a Python caller waits for beyond a graph's replay."""
        return _difference(self.eager_s, self.graph_s)

    @property
    def gaps_s(self) -> float | None:
        """What a graph's replay takes beyond its kernels."""
        return _difference(self.graph_s, self.busy_s)


def decompose(record: Record) -> Decomposition:
    """The parts of one case, from its estimates and its dispatch observation."""
    eager, graph = record.estimates.get("eager"), record.estimates.get("graph")
    return Decomposition(
        eager.value_s if eager else None,
        graph.value_s if graph else None,
        record.dispatch.busy_s if record.dispatch else None,
    )


def _difference(whole_s: float | None, part_s: float | None) -> float | None:
    return None if whole_s is None or part_s is None else whole_s - part_s
