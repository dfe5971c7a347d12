"""Useful FLOP/s, of a stage that only moves bytes B/s, against seq_len, or tokens where there is but one seq_len."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.columns import case_title, rate_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.content import Report
    from results.ranking import Standing
    from results.schema import Case


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One case: `x` as its chart has it, its useful rate and the bounds that its time's interval gives that."""

    row: Standing
    x: int
    per_s: float
    low_per_s: float | None
    high_per_s: float | None


@dataclass(frozen=True, slots=True)
class RateChart:
    """Variants of one stage at one width, direction, mask and dtype: `x` is `seq_len` or `tokens`,
    `what` a rate counts is `FLOP` or `B`.

    `title` has what its points have in common. `points` are ordered by variant, the fastest anywhere first, then by x.
    """

    stage: str
    title: tuple[str, ...]
    x: str
    what: str
    points: tuple[RatePoint, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """Each once, in the order of `points`."""
        return tuple(dict.fromkeys(point.row.variant for point in self.points))


def rate_charts(report: Report) -> tuple[RateChart, ...]:
    """A chart for every family of cases that differ in nothing but variant and x, in plan order."""
    rows = [row for row in report.rows if row.time and rate_per_s(row) and not row.implausible]
    swept = {
        stage
        for stage in {row.record.case.stage for row in rows}
        if len({row.record.case.seq_len for row in rows if row.record.case.stage == stage}) > 1
    }
    families: dict[tuple[object, ...], list[Standing]] = {}
    for row in rows:
        case = row.record.case
        alike = (
            case.stage,
            case.direction,
            case.d_model,
            case.n_head,
            case.head_dim,
            case.n_layer,
            case.causal,
            case.dtype,
        )
        families.setdefault((*alike, case.batch if case.stage in swept else None), []).append(row)
    return tuple(
        _chart(family, "seq_len" if key[0] in swept else "tokens") for key, family in families.items()
    )


def _chart(rows: Sequence[Standing], x: str) -> RateChart:
    best: dict[str, float] = {}
    for row in rows:
        best[row.variant] = max(best.get(row.variant, 0.0), rate_per_s(row) or 0.0)
    points = [_point(row, x) for row in rows]
    case = rows[0].record.case
    return RateChart(
        stage=case.stage,
        title=tuple(_common(case, x)),
        x=x,
        what="B" if rows[0].record.moves_only else "FLOP",
        points=tuple(sorted(points, key=lambda one: (-best[one.row.variant], one.row.variant, one.x))),
    )


def _point(row: Standing, x: str) -> RatePoint:
    rate = rate_per_s(row)
    assert row.time is not None
    assert rate is not None
    case, time, work = row.record.case, row.time, rate * row.time.value_s
    return RatePoint(
        row,
        case.seq_len if x == "seq_len" else case.batch * case.seq_len,
        rate,
        work / time.high_s if time.high_s else None,
        work / time.low_s if time.low_s else None,
    )


def _common(case: Case, x: str) -> list[str]:
    """The title's parts without what is the axis's."""
    stage, batch, _seq_len, *rest = case_title(case)
    return [stage, *([batch] if x == "seq_len" else []), *rest]
