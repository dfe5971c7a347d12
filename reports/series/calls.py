"""Where an eager call's time goes: launching, gaps between kernels, kernels; as far as a run can tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.decomposition import Decomposition, decompose
from results.ranking import is_wide
from results.tensor_use import NOT_RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.content import Report
    from results.ranking import Standing

LAUNCH, GAPS, KERNELS = "launches", "gaps", "kernels"
GAPS_AND_KERNELS, LAUNCH_AND_GAPS, ALL = "gaps and kernels", "launches and gaps", "not taken apart"
PARTS = (KERNELS, GAPS, LAUNCH, GAPS_AND_KERNELS, LAUNCH_AND_GAPS, ALL)
"""Every part there can be, in the order it is drawn."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds a call; negative where both sides of a difference are uncertain: it is then attributed to nothing."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CallParts:
    """One case's parts, which add up to `eager_s`; `reason` says why they are not told apart further.

    `unsure`: the eager time is known to no better than ± 25 %, and so is what is left of it for launches.
    """

    row: Standing
    eager_s: float
    parts: tuple[Part, ...]
    unsure: bool
    launches: float | None
    reason: str | None

    def share(self, name: str) -> float | None:
        """A part's share of the eager time; None where it was not told apart."""
        return next((part.seconds / self.eager_s for part in self.parts if part.name == name), None)


def call_parts(report: Report) -> tuple[CallParts, ...]:
    """Of every case with an eager time, in the order of the report's tables."""
    return tuple(_call(row) for row in report.rows if "eager" in row.record.estimates and not row.implausible)


def _call(row: Standing) -> CallParts:
    parts, seen = decompose(row.record), row.record.dispatch
    assert parts.eager_s is not None
    reason = None
    if parts.busy_s is None:
        reason = f"kernels: {(seen.reason if seen else None) or NOT_RECORDED}"
    elif parts.graph_s is None:
        reason = f"graph: {row.record.mode_reasons.get('graph', NOT_RECORDED)}"
    return CallParts(
        row,
        parts.eager_s,
        tuple(_parts(parts.eager_s, parts)),
        is_wide(row.record.estimates["eager"]),
        seen.launches if seen else None,
        reason,
    )


def _parts(eager_s: float, of: Decomposition) -> Iterator[Part]:
    graph_s, busy_s = of.graph_s, of.busy_s
    if graph_s is not None and busy_s is not None:
        yield Part(KERNELS, busy_s)
        yield Part(GAPS, graph_s - busy_s)
        yield Part(LAUNCH, eager_s - graph_s)
    elif graph_s is not None:
        yield Part(GAPS_AND_KERNELS, graph_s)
        yield Part(LAUNCH, eager_s - graph_s)
    elif busy_s is not None:
        yield Part(KERNELS, busy_s)
        yield Part(LAUNCH_AND_GAPS, eager_s - busy_s)
    else:
        yield Part(ALL, eager_s)
