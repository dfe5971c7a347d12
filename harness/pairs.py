"""The pairs of an `ab` session: which cases are measured when, on which side first, and for how long."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from harness.errors import HeadbenchError
from results.paired_case import FIRST, FRESH, LOOKED_AT, SECOND
from results.schema import Outcome
from results.session import SIDES
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.progress import Progress
    from harness.runner import Runner
    from results.paired import PairedRuns
    from results.schema import Case

MOST_PAIRS = len(LOOKED_AT)
"""What a case is given before any confirmation."""


class PairMeasurement:
    """Measures as many pairs as the verdicts on `runs` need, with one runner a side; replicate i is pair i."""

    def __init__(self, runners: dict[str, Runner], runs: PairedRuns, progress: Progress, seed: int) -> None:
        self._runners, self._runs, self._progress, self._seed = runners, runs, progress, seed

    def measure(self, cases: Sequence[Case], budget_s: float) -> None:
        """The first pairs of every case, the second of those still open, fresh ones of those that are slower.

        `MOST_PAIRS` of everything would take about `budget_s` seconds. What a case gets of it in each process
        after the first look is what it got in the last pair before.

        Raises:
            HeadbenchError: a side's workers cannot start or make no progress; the message names the side.
            StoreError: a trial could not be stored; the trials before it are.
        """
        first_look_ends = time.monotonic() + budget_s * len(FIRST) / MOST_PAIRS
        a_case_s = 0.0
        for pair in FIRST:
            if left := self._measurable(cases):
                processes = len(SIDES) * (len(FIRST) - pair)
                share_s = (first_look_ends - time.monotonic()) / processes - self._start_s()
                a_case_s = max(share_s, 0.0) / len(left)
                self._pair(pair, len(FIRST), left, a_case_s)
        self._more(SECOND, self._runs.open_cases(), a_case_s, f"for what {len(FIRST)} leave undecided")
        self._more(FRESH, self._runs.to_confirm(), a_case_s, "to confirm what is slower")

    def _more(self, pairs: range, cases: Sequence[Case], a_case_s: float, why: str) -> None:
        """Further pairs of some of the cases."""
        if not cases:
            return
        processes = len(SIDES) * len(pairs)
        self._progress.more(processes * len(cases), processes * (self._start_s() + a_case_s * len(cases)))
        self._progress.note(f"{len(pairs)} more pairs of {counted(len(cases), 'case')}, {why}")
        for pair in pairs:
            if left := self._measurable(cases):
                self._pair(pair, pairs.stop, left, a_case_s)

    def _pair(self, pair: int, of: int, cases: Sequence[Case], a_case_s: float) -> None:
        for side in order(pair, self._seed):
            self._progress.begin(f"{pair + 1}/{of} {side}")
            try:
                self._runners[side].replicate(pair, cases, a_case_s * len(cases))
            except HeadbenchError as error:
                raise type(error)(f"{side}: {error}") from error

    def _measurable(self, cases: Sequence[Case]) -> list[Case]:
        """Those that no side has failed: a case that is wrong or crashes has no time to compare."""
        trials = (*self._runs.base.trials, *self._runs.head.trials)
        failed = {trial.case for trial in trials if trial.outcome is not Outcome.OK}
        return [case for case in cases if case not in failed]

    def _start_s(self) -> float:
        return sum(runner.start_s for runner in self._runners.values()) / len(self._runners)


def order(pair: int, seed: int) -> tuple[str, ...]:
    """The sides in the order in which this pair measures them.

    Of each two pairs one begins with the base, the other with the head, and which does is drawn: what heats up
    or wears off falls on both sides alike.
    """
    base_first = random.Random(f"{seed} {pair // 2}").random() < 0.5
    return SIDES if base_first != bool(pair % 2) else SIDES[::-1]
