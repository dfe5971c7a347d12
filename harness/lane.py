"""One case on its way through a group, from its first check to the trial that is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from results.schema import Case, Memory, Outcome, Timing, Trial, Utilisation, Verification
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.rounds import Series
    from variants.variant import Variant


class IncorrectOutput(Exception):
    """The output is not the reference's; the message says how far off it is."""


@dataclass(slots=True)
class Lane:
    """A case, its variant, and what has been found out about it so far."""

    case: Case
    variant: Variant
    started: float = field(default_factory=time.monotonic)
    started_utc: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    call: Callable[[], Any] = lambda: None
    series: list[Series] = field(default_factory=list)
    mode_reasons: dict[str, str] = field(default_factory=dict)
    memory: Memory | None = None
    utilisation: Utilisation | None = None
    checks: list[Verification] = field(default_factory=list)

    def trial(self, replicate: int, outcome: Outcome, reason: str | None = None) -> Trial:
        """What is stored; times go with `ok` alone."""
        stage, shape = STAGES[self.case.stage], self.variant.shape
        return Trial(
            case=self.case,
            replicate=replicate,
            outcome=outcome,
            reason=reason,
            useful_flops=stage.flops(shape),
            least_bytes=stage.least_bytes(shape),
            parameters=stage.parameters(shape),
            started_utc=self.started_utc,
            elapsed_s=time.monotonic() - self.started,
            timings=self._timings() if outcome is Outcome.OK else {},
            memory=self.memory,
            utilisation=self.utilisation,
            verifications=tuple(self.checks),
        )

    def _timings(self) -> dict[str, Timing]:
        reasons = {mode: Timing(reason=reason) for mode, reason in self.mode_reasons.items()}
        return reasons | {series.mode: series.timing() for series in self.series}
