"""Pieces of the sentences in which a row says why it has no verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.record import Record


def counted(number: int, noun: str) -> str:
    """`1 run`, `3,000 runs`: the number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """`1.2 %`, of what was measured: one digit after the point."""
    return f"{100 * share:.1f} %"


def exact_percent(share: float) -> str:
    """`99.5 %`, `1 %`, of what a rule says: as many digits as it has."""
    return f"{100 * share:.6g} %"


def ended(record: Record) -> str:
    """`out of memory: why`: how a case ended that has no times, or `not measured`."""
    outcome = record.outcome.value.replace("_", " ") if record.outcome else "not measured"
    return f"{outcome}: {record.reason}"
