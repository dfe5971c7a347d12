"""The parent: starts replicates, stores every trial before it says so, and survives whatever a worker does.

It imports no torch and never creates a CUDA context. A worker that dies or hangs loses the case it had in
hand; a new worker repeats that case's group without the culprit, and what was stored before stands.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from harness.child import RUNNING, Child, Program
from harness.errors import HeadbenchError
from harness.following import Fault, InHand, follow, machine_job
from harness.plan import figures
from harness.probe import START_S
from harness.series import PRECISE
from results.schema import Case, Outcome, Trial
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.progress import Progress
    from results.store import RunWriter

START_GUESS_S = {"cpu": 3.0, "cuda": 7.0}


class Runner:
    """Measures cases for a run, in workers of `program`; `start_s` is what a worker's start takes, in seconds."""

    def __init__(self, writer: RunWriter, progress: Progress, program: Program = RUNNING) -> None:
        self._writer, self._progress, self._program = writer, progress, program
        self._settings = writer.run.manifest.settings
        self._environment = writer.run.manifest.environment
        self._device = self._environment["device"].partition(":")[0]
        self._killed: Counter[str] = Counter()
        self._needs: dict[str, tuple[float, float]] = {}
        self.start_s = START_GUESS_S[self._device]

    def run(self, budget_s: float) -> None:
        """Every replicate's missing trials, within about `budget_s` seconds.

        Raises:
            HeadbenchError: workers cannot start, or make no progress.
            StoreError: a trial could not be stored; the trials before it are.
        """
        deadline = time.monotonic() + budget_s
        replicates = self._writer.run.manifest.replicates
        for replicate in range(replicates):
            cases = [case for of, case in self._writer.run.missing() if of == replicate]
            if cases:
                self._progress.begin(f"{replicate + 1}/{replicates}")
                left_s = deadline - time.monotonic() - (replicates - replicate) * self.start_s
                self.replicate(replicate, cases, max(left_s, 0.0) / (replicates - replicate))

    def replicate(self, replicate: int, cases: Sequence[Case], seconds: float) -> None:
        """One trial of each of these cases, in about `seconds` seconds after the worker's start.

        A worker that dies is followed by another, with its part of the seconds, for the cases that are left.

        Raises:
            HeadbenchError: workers cannot start, or make no progress.
            StoreError: a trial could not be stored; the trials before it are.
        """
        left = list(cases)
        while left:
            kills = self._killed.total()
            self._one_worker(replicate, left, seconds * len(left) / len(cases))
            before, left = left, self._without_trial(replicate, left)
            if len(left) == len(before) and self._killed.total() == kills:
                raise HeadbenchError(
                    f"replicate {replicate} makes no progress, unmeasured: {counted(len(left), 'case')}"
                )

    def _without_trial(self, replicate: int, cases: Sequence[Case]) -> list[Case]:
        measured = {trial.case for trial in self._writer.run.trials if trial.replicate == replicate}
        return [case for case in cases if case not in measured]

    def _one_worker(self, replicate: int, cases: list[Case], seconds: float) -> None:
        started = time.monotonic()

        def handle(event: dict[str, Any]) -> None:
            if event["event"] == "ready":
                self.start_s = time.monotonic() - started
            elif event["event"] == "need":
                self._needs[event["group"]] = (event["fixed_s"], event["wanted_s"])
            elif event["event"] == "trial":
                self._store(Trial.from_json(event["trial"]))

        job = self._job(replicate, cases, seconds)
        with Child("harness.worker", job, START_S, self._program) as child:
            if fault := follow(child, self._settings["silence_s"], self._progress, handle):
                self._blame(replicate, cases, fault)

    def _job(self, replicate: int, cases: list[Case], seconds: float) -> dict[str, Any]:
        return {
            **machine_job(self._environment),
            "plugins": self._settings["plugins"],
            "seed": self._settings["seed"],
            "replicate": replicate,
            "seconds": seconds,
            "needs": self._needs,
            "target_precision": self._settings.get("target_precision", PRECISE),
            "precise": self._settings.get("target_precision", PRECISE),  # its name in some earlier versions
            "watch": False,  # an earlier version's worker, as the base of an `ab`, asks for it
            "cases": [case.plain() for case in cases],
        }

    def _blame(self, replicate: int, cases: list[Case], fault: Fault) -> None:
        """Settle the case in hand; the whole group when what it shares was in hand."""
        if fault.killed and self._first_kill(fault.in_hand):
            during = f"{fault.in_hand.step} of {fault.in_hand.what}" if fault.in_hand else "its start"
            self._progress.note(f"{fault.reason}, during {during}: once more")
            return
        if fault.in_hand is None:
            raise HeadbenchError(f"a worker could not start: {fault.reason}")
        for case in filter(fault.in_hand.holds, self._without_trial(replicate, cases)):
            self._store(unmeasured(case, replicate, fault.outcome, fault.during))

    def _first_kill(self, in_hand: InHand | None) -> bool:
        key = in_hand.what if in_hand else ""
        self._killed[key] += 1
        return self._killed[key] == 1

    def _store(self, trial: Trial) -> None:
        self._writer.append(trial)
        self._progress.trial(trial)


def unmeasured(case: Case, replicate: int, outcome: Outcome, reason: str) -> Trial:
    """A trial without times: the case's figures, the outcome and why."""
    return Trial(case=case, replicate=replicate, outcome=outcome, reason=reason, **figures(case))
