"""One case on its way through a group, from its first check to the trial that is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.plan import figures
from harness.series import Series
from results.schema import Case, Outcome, Timing, Trial, Verification

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.clocks import Cooling
    from harness.directed import Directed
    from harness.timers import Timer
    from results.figures import Memory


class IncorrectOutput(Exception):
    """The output or its form is wrong, or an input was changed; the message says which, and how far off it is."""


@dataclass(slots=True)
class Lane:
    """A case, and what has been found out about it so far; `directed` is its variant, once that is prepared."""

    case: Case
    arrives: str = "contiguous"
    started: float = field(default_factory=time.monotonic)
    started_utc: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    directed: Directed | None = None
    call: Callable[[], Any] = lambda: None
    series: list[Series] = field(default_factory=list)
    mode_reasons: dict[str, str] = field(default_factory=dict)
    memory: Memory | None = None
    checks: list[Verification] = field(default_factory=list)
    timings: dict[str, Timing] = field(default_factory=dict)
    replay: Callable[[], object] | None = None

    def take_up(self) -> None:
        """Untimed: make ready what a call needs to have run, as a backward its forward."""
        if self.directed:
            self.directed.renew()

    def put_down(self) -> None:
        """Let go of it: while others are measured it would only take their memory."""
        if self.directed:
            self.directed.release()

    def bind(self, timer: Timer, cooling: Cooling, target_precision: float) -> None:
        """Make the call ready to be timed in one more mode.

        Raises:
            Unmeasurable: the timer refuses the call.
        """
        self.series.append(
            Series(self.case.key, timer.mode, timer.bracket(self.call), cooling, target_precision)
        )

    def end_timing(self) -> None:
        """Keep the samples, and of the brackets only the graph's replay: it is verified, too."""
        reasons = {mode: Timing(reason=reason) for mode, reason in self.mode_reasons.items()}
        self.timings = reasons | {series.mode: series.timing() for series in self.series}
        self.replay = next((s.bracket.replay for s in self.series if s.bracket.replay), None)
        self.series.clear()

    def trial(self, replicate: int, outcome: Outcome, reason: str | None = None) -> Trial:
        """What is stored; times go with `ok` alone."""
        return Trial(
            case=self.case,
            replicate=replicate,
            outcome=outcome,
            reason=reason,
            started_utc=self.started_utc,
            elapsed_s=time.monotonic() - self.started,
            timings=self.timings if outcome is Outcome.OK else {},
            memory=self.memory,
            verifications=tuple(self.checks),
            arrives=self.arrives if outcome is Outcome.OK else None,
            **figures(self.case),
        )
