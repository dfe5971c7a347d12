"""What the user sees while a run measures: on a terminal one live line, elsewhere a plain line now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from results.schema import Trial

CASE_WIDTH = 44


class Progress:
    """Goes to stderr, so that stdout holds the tables alone."""

    def __init__(self, trials: int, done: int, replicates: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live = self._console.is_terminal
        self._replicates, self._replicate = replicates, -1
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("to go"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task("starting".ljust(CASE_WIDTH), total=trials, completed=done)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def replicate(self, index: int) -> None:
        """A worker is being started for this replicate."""
        if not self._live and index != self._replicate:
            self.note(f"replicate {index + 1} of {self._replicates}")
        self._replicate = index
        self._describe(f"replicate {index + 1}/{self._replicates}: starting")

    def case(self, key: str, step: str) -> None:
        """This case, or this group, is in hand."""
        _, _, *rest = key.split("/")
        stage = key.partition("/")[0]
        self._describe(f"{stage} {' '.join(reversed(rest))}: {step}")

    def trial(self, trial: Trial) -> None:
        """This trial has been stored."""
        self._bar.advance(self._task)
        if trial.outcome.failed:
            self.note(f"{trial.outcome.value}: {trial.case.key}: {trial.reason}")

    def note(self, text: str) -> None:
        """A line that stays."""
        self._bar.console.print(Text(text), soft_wrap=True)

    def _describe(self, text: str) -> None:
        short = text if len(text) <= CASE_WIDTH else text[: CASE_WIDTH - 1] + "…"
        self._bar.update(self._task, description=short.ljust(CASE_WIDTH))
