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

from harness.child import Child, Silent
from harness.errors import HeadbenchError
from harness.plan import figures
from harness.probe import START_S
from harness.utilisation import USUAL_WINDOW_S
from results.schema import Case, Outcome, Trial

if TYPE_CHECKING:
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
    """Measures what a run still lacks."""

    def __init__(self, writer: RunWriter, progress: Progress) -> None:
        self._writer, self._progress = writer, progress
        self._settings = writer.run.manifest.settings
        self._environment = writer.run.manifest.environment
        self._device = self._environment["device"].partition(":")[0]
        self._start_s = START_GUESS_S[self._device]
        self._killed: Counter[str] = Counter()

    def run(self, budget_s: float) -> None:
        """Every replicate's missing trials, within about `budget_s` seconds.

        Raises:
            HeadbenchError: workers cannot start, or make no progress.
            StoreError: a trial could not be stored; the trials before it are.
        """
        deadline = time.monotonic() + budget_s
        for replicate in range(self._writer.run.manifest.replicates):
            while cases := self._missing(replicate):
                self._progress.replicate(replicate)
                kills = self._killed.total()
                self._one_worker(replicate, cases, self._share(replicate, cases, deadline))
                if len(self._missing(replicate)) == len(cases) and self._killed.total() == kills:
                    raise HeadbenchError(
                        f"replicate {replicate} makes no progress: {len(cases)} cases stay unmeasured"
                    )

    def _missing(self, replicate: int) -> list[Case]:
        return [case for of, case in self._writer.run.missing() if of == replicate]

    def _share(self, replicate: int, cases: list[Case], deadline: float) -> float:
        """This replicate's part of what is left, after the starts and the NVML windows that are still to come."""
        replicates_left = self._writer.run.manifest.replicates - replicate
        watching_s = USUAL_WINDOW_S * len(cases) if self._watches(replicate) else 0.0
        left_s = deadline - time.monotonic() - replicates_left * self._start_s - watching_s
        return max(left_s, 0.0) / replicates_left + watching_s

    def _watches(self, replicate: int) -> bool:
        return replicate == 0 and self._device == "cuda"

    def _one_worker(self, replicate: int, cases: list[Case], seconds: float) -> None:
        in_hand: InHand | None = None
        done = False
        started = time.monotonic()
        with Child("harness.worker", self._job(replicate, cases, seconds), START_S) as child:
            try:
                for event in child.events():
                    if event["event"] == "ready":
                        self._start_s = time.monotonic() - started
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
                self._blame(replicate, in_hand, Outcome.TIMED_OUT, silence, child)
                return
            if not done:
                self._blame(replicate, in_hand, Outcome.CRASHED, f"the worker {child.how_it_ended()}", child)

    def _job(self, replicate: int, cases: list[Case], seconds: float) -> dict[str, Any]:
        gpu = self._environment["gpu"]
        return {
            "device": self._environment["device"],
            "gpu_uuid": gpu["uuid"] if gpu else None,
            "memory_bytes": self._environment["cpu"]["memory_bytes"],
            "plugins": self._settings["plugins"],
            "seed": self._settings["seed"],
            "replicate": replicate,
            "seconds": seconds,
            "watch": self._watches(replicate),
            "cases": [asdict(case) for case in cases],
        }

    def _blame(
        self, replicate: int, in_hand: InHand | None, outcome: Outcome, reason: str, child: Child
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
            for case in self._missing(replicate)
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
