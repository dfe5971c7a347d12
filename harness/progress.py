"""What the user sees while a run measures: on a terminal one live line, elsewhere a plain line now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from harness.errors import printable

if TYPE_CHECKING:
    from types import TracebackType

    from results.schema import Trial

CASE_WIDTH = 44
PLAIN_LINE_S = 15.0


class Progress:
    """Goes to stderr, so that stdout holds the tables alone."""

    def __init__(self, trials: int, budget_s: float, unit: str = "replicate") -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live = self._console.is_terminal
        self._trials, self._done = trials, 0
        self._unit, self._part = unit, ""
        self._budget_s = budget_s
        self._started = self._told = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[clock]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("starting".ljust(CASE_WIDTH), total=trials, clock="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, part: str) -> None:
        """A worker is being started for this part of the whole, as in `2/3`, in units of replicates or pairs."""
        self._part = part
        self._show("starting a process")

    def case(self, key: str, step: str) -> None:
        """This case, or this group, is in hand."""
        stage, *rest = key.split("/")
        variant = rest[2:]
        self._show(" ".join([stage, *variant, "·", step]))

    def trial(self, trial: Trial) -> None:
        """This trial has been stored."""
        self._done += 1
        self._bar.advance(self._task)
        if trial.outcome.failed:
            self.note(f"{trial.outcome.value}: {trial.case.key}: {trial.reason}")

    def more(self, trials: int, seconds: float) -> None:
        """So many trials are to be measured beyond those announced, in about so many seconds more."""
        self._trials += trials
        self._budget_s += seconds
        self._bar.update(self._task, total=self._trials)

    def note(self, text: str) -> None:
        """A line that stays."""
        self._bar.console.print(Text(printable(text)), soft_wrap=True)

    def _show(self, text: str) -> None:
        text = f"{self._part} {text}"
        short = text if len(text) <= CASE_WIDTH else text[: CASE_WIDTH - 1] + "…"
        self._bar.update(self._task, description=short.ljust(CASE_WIDTH), clock=self._clock())
        if not self._live and time.monotonic() - self._told >= PLAIN_LINE_S:
            self._told = time.monotonic()
            self.note(f"{self._done} of {self._trials} trials, {self._clock()}; {self._unit} {text}")

    def _clock(self) -> str:
        """Elapsed, and what is left of the budget, or, once that is spent, at the pace so far."""
        elapsed_s = time.monotonic() - self._started
        left_s = self._budget_s - elapsed_s
        if left_s < 0:
            left_s = elapsed_s * (self._trials - self._done) / max(self._done, 1)
        return f"{elapsed_s:.0f} s, about {left_s:.0f} s to go"
