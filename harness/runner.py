"""The parent: starts replicates, stores every trial before it says so, and survives whatever a worker does.

It imports no torch and never creates a CUDA context. A worker that dies or hangs loses the case it had in
hand; a new worker repeats that case's group without the culprit, and what was stored before stands.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.child import RUNNING, Child, Program, Silent
from harness.errors import HeadbenchError
from harness.plan import figures
from harness.probe import START_S
from harness.utilisation import USUAL_WINDOW_S
from results.schema import Case, Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.progress import Progress
    from results.store import RunWriter

START_GUESS_S = {"cpu": 3.0, "cuda": 7.0}
KILLED_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
"""No program sends itself these by mistake, so the case in hand gets one more try."""


@dataclass(slots=True)
class InHand:
    """What the worker said it was about to do."""

    group: str
    case: str | None
    step: str


class Runner:
    """Measures cases for a run, in workers of `program`; `start_s` is what a worker's start takes, in seconds."""

    def __init__(self, writer: RunWriter, progress: Progress, program: Program = RUNNING) -> None:
        self._writer, self._progress, self._program = writer, progress, program
        self._settings = writer.run.manifest.settings
        self._environment = writer.run.manifest.environment
        self._device = self._environment["device"].partition(":")[0]
        self._killed: Counter[str] = Counter()
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
                watch = replicate == 0 and self._device == "cuda"
                self.replicate(replicate, cases, self._share(replicate, cases, deadline, watch), watch)

    def replicate(self, replicate: int, cases: Sequence[Case], seconds: float, watch: bool = False) -> None:
        """One trial of each of these cases, in about `seconds` seconds after the worker's start.

        A worker that dies is followed by another, with its part of the seconds, for the cases that are left.
        With `watch`, each case gets an NVML window, too.

        Raises:
            HeadbenchError: workers cannot start, or make no progress.
            StoreError: a trial could not be stored; the trials before it are.
        """
        left = list(cases)
        while left:
            kills = self._killed.total()
            self._one_worker(replicate, left, seconds * len(left) / len(cases), watch)
            before, left = left, self._without_trial(replicate, left)
            if len(left) == len(before) and self._killed.total() == kills:
                raise HeadbenchError(
                    f"replicate {replicate} makes no progress: {len(left)} cases stay unmeasured"
                )

    def _without_trial(self, replicate: int, cases: Sequence[Case]) -> list[Case]:
        measured = {trial.case for trial in self._writer.run.trials if trial.replicate == replicate}
        return [case for case in cases if case not in measured]

    def _share(self, replicate: int, cases: list[Case], deadline: float, watch: bool) -> float:
        """This replicate's part of what is left, after the starts and the NVML windows that are still to come."""
        replicates_left = self._writer.run.manifest.replicates - replicate
        watching_s = USUAL_WINDOW_S * len(cases) if watch else 0.0
        left_s = deadline - time.monotonic() - replicates_left * self.start_s - watching_s
        return max(left_s, 0.0) / replicates_left + watching_s

    def _one_worker(self, replicate: int, cases: list[Case], seconds: float, watch: bool) -> None:
        in_hand: InHand | None = None
        done = False
        started = time.monotonic()
        job = self._job(replicate, cases, seconds, watch)
        with Child("harness.worker", job, START_S, self._program) as child:
            try:
                for event in child.events():
                    if event["event"] == "ready":
                        self.start_s = time.monotonic() - started
                    elif event["event"] == "begin":
                        in_hand = InHand(event["group"], event["case"], event["step"])
                        # What the group shares is our own work, the reference: slow is no fault of a variant.
                        child.silence_s = self._settings["silence_s"] if in_hand.case else START_S
                        self._progress.case(in_hand.case or in_hand.group, in_hand.step)
                    elif event["event"] == "trial":
                        self._store(Trial.from_json(event["trial"]))
                    elif event["event"] == "refused":
                        raise HeadbenchError(event["message"])
                    elif event["event"] == "done":
                        done = True
                        break  # threads that a variant left running must not hold us up
            except Silent:
                silence = f"no sign of life for {child.silence_s:g} s"
                self._blame(replicate, cases, in_hand, Outcome.TIMED_OUT, silence, child)
                return
            if not done:
                ended = f"the worker {child.how_it_ended()}"
                self._blame(replicate, cases, in_hand, Outcome.CRASHED, ended, child)

    def _job(self, replicate: int, cases: list[Case], seconds: float, watch: bool) -> dict[str, Any]:
        gpu = self._environment["gpu"]
        return {
            "device": self._environment["device"],
            "gpu_uuid": gpu["uuid"] if gpu else None,
            "memory_bytes": self._environment["cpu"]["memory_bytes"],
            "plugins": self._settings["plugins"],
            "seed": self._settings["seed"],
            "replicate": replicate,
            "seconds": seconds,
            "watch": watch,
            "cases": [asdict(case) for case in cases],
        }

    def _blame(
        self,
        replicate: int,
        cases: list[Case],
        in_hand: InHand | None,
        outcome: Outcome,
        reason: str,
        child: Child,
    ) -> None:
        """Settle the case in hand; the whole group when what it shares was in hand."""
        if child.exit_code in KILLED_FROM_OUTSIDE and self._first_kill(in_hand):
            during = f"{in_hand.step} of {in_hand.case or in_hand.group}" if in_hand else "its start"
            self._progress.note(f"{reason}, during {during}: once more")
            return
        if in_hand is None:
            raise HeadbenchError(f"a worker could not start: {reason}")
        culprits = [
            case
            for case in self._without_trial(replicate, cases)
            if case.key == in_hand.case or (in_hand.case is None and case.group == in_hand.group)
        ]
        for case in culprits:
            self._store(unmeasured(case, replicate, outcome, f"{reason}, during {in_hand.step}"))

    def _first_kill(self, in_hand: InHand | None) -> bool:
        key = (in_hand.case or in_hand.group) if in_hand else ""
        self._killed[key] += 1
        return self._killed[key] == 1

    def _store(self, trial: Trial) -> None:
        self._writer.append(trial)
        self._progress.trial(trial)


def unmeasured(case: Case, replicate: int, outcome: Outcome, reason: str) -> Trial:
    """A trial without times: the case's figures, the outcome and why."""
    return Trial(case=case, replicate=replicate, outcome=outcome, reason=reason, **figures(case))
