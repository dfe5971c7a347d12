"""The parent's side of Nsight Compute: every case that lacks counters gets them, or the reason it has none.

A profiler slows a process, writes nothing before its end and may be refused by the driver: so it gets processes
of its own after everything else, a few cases each, and none of its faults ends the run.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.following import machine_job
from harness.profiled import Profile, profile
from harness.sensors.ncu import Ncu, NcuUnavailable
from harness.sensors.ncu_counters import counters
from harness.sensors.ncu_csv import RANGE, Uncounted
from harness.sensors.ncu_metrics import Chip, chip_of, flop_per_clock
from results.figures import Counters
from results.schema import Observation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.progress import Progress
    from results.schema import Case
    from results.store import RunWriter

MOST_CASES = 24
"""Cases a process: an interrupt loses no more than these."""
USUAL_START_S = 10.0
USUAL_CASE_S = 0.4
USUAL_LAUNCH_S = 0.11
"""A launch runs once for every pass, between which the memory it wrote is put back. An H200 took 46 s for 24 cases of
245 launches together, and 47 s for 21 of 274."""
UNKNOWN_LAUNCHES = 10.0
MOST_LAUNCHES = 400
"""Of a call, to be counted one by one: three quarters of a minute. A stack head by head has thousands."""
LONGEST_LAUNCH_S = 1.0
"""What a launch may take before its silence counts as one."""
MATMUL_SIZE = 8192
MATMUL_SILENCE_S = 60.0


def usual_s(launches: Iterable[float | None]) -> float:
    """About how long it takes to count cases that launch so many kernels each; None is not known."""
    each = [UNKNOWN_LAUNCHES if one is None else one for one in launches]
    processes = -(-len(each) // MOST_CASES)
    return processes * USUAL_START_S + len(each) * USUAL_CASE_S + sum(each) * USUAL_LAUNCH_S


class Counting:
    """Counts every case of a run that has a time and wants counters; to be run after the observing.

    Where `asked` names cases, the others get a reason instead: counting takes as long as timing.
    """

    def __init__(self, writer: RunWriter, progress: Progress, asked: Collection[Case] | None = None) -> None:
        self._writer, self._progress, self._asked = writer, progress, asked
        self._environment = writer.run.manifest.environment
        self._without_a_kernel = 0

    def run(self) -> None:
        """One process after the other, until every case has its counters or the reason it has none.

        Raises:
            HeadbenchError: a plugin has changed since the run began.
            StoreError: an observation could not be stored.
        """
        self._leave_out_the_unasked()
        self._leave_out_the_longest()
        if not self._lacking():
            return
        try:
            chip = chip_of(self._environment["gpu"])
            ncu = Ncu.find()
            while lacking := self._lacking():
                self._progress.begin("counting")
                self._one_process(ncu, chip, lacking[:MOST_CASES])
        except NcuUnavailable as why:
            for case in self._lacking():
                self._store(case, Counters(reason=str(why)))

    def _leave_out_the_unasked(self) -> None:
        """A reason for each case that nobody asked to have counted."""
        for case in self._lacking():
            if self._asked is not None and case not in self._asked:
                self._store(
                    case, Counters(reason="no claim asks for its counters: run --counters ncu has them")
                )

    def _leave_out_the_longest(self) -> None:
        """A reason for each case that launches more than `MOST_LAUNCHES`."""
        known = self._launches()
        for case in self._lacking():
            if (launches := known[case]) and launches > MOST_LAUNCHES:
                why = f"a call launches {launches:,.0f} kernels, and Nsight Compute counts at most {MOST_LAUNCHES}"
                self._store(case, Counters(reason=f"{why} here: one layer's counters tell as much"))

    def _lacking(self) -> list[Case]:
        return self._writer.run.unobserved().get("counters", [])

    def _one_process(self, ncu: Ncu, chip: Chip, cases: list[Case]) -> None:
        """Count these cases, as far as one process gets: at least one of them is settled.

        Raises:
            NcuUnavailable: none can be counted, these or others.
        """
        called: dict[str, Case] = {}

        def handle(event: dict[str, Any]) -> None:
            observation = Observation.from_json(event["observation"])
            assert observation.counters
            if observation.counters.reason:
                self._store(observation.case, observation.counters)
            else:
                called[observation.counters.source or ""] = observation.case

        try:
            found = profile(ncu, chip, self._job(cases), self._silence_s(cases), self._progress, handle)
        except Uncounted as why:
            raise NcuUnavailable(f"{ncu.source}: {why}") from why
        self._settle(found, called, ncu, chip)
        if refusal := ncu.refusal(found.said):
            raise NcuUnavailable(refusal)
        self._give_up_if_barren(found, ncu)
        self._explain(found, [case for case in cases if case in self._lacking()], called, ncu)

    def _settle(self, found: Profile, called: dict[str, Case], ncu: Ncu, chip: Chip) -> None:
        """Store what was counted."""
        rates = flop_per_clock(self._environment["gpu"], self._environment["peaks"])
        for number, launches in (found.launches or {}).items():
            if case := called.get(RANGE.format(number)):
                self._store(case, counters(launches, chip, rates, ncu.source))

    def _give_up_if_barren(self, found: Profile, ncu: Ncu) -> None:
        """One kernel that cannot be profiled is its case's fault; two processes in which none can are no accident."""
        complaint = None if found.launches else ncu.complaint(found.said)
        self._without_a_kernel = self._without_a_kernel + 1 if complaint else 0
        if complaint and self._without_a_kernel > 1:
            raise NcuUnavailable(complaint)

    def _explain(self, found: Profile, left: list[Case], called: dict[str, Case], ncu: Ncu) -> None:
        """A reason for those in hand at a fault and for those called without a kernel counted; others come again."""
        complaint, fault = ncu.complaint(found.said), found.fault
        if fault and not fault.in_hand:
            raise NcuUnavailable(
                complaint or f"the process under {ncu.source} could not start: {fault.reason}"
            )
        for case in left:
            if fault and fault.in_hand and fault.in_hand.holds(case):
                self._store(case, Counters(reason=complaint or f"{fault.outcome.value}: {fault.during}"))
            elif fault is None or (case in called.values() and found.launches is not None):
                nothing = "wrote no table" if found.launches is None else "counted no kernel of this case"
                self._store(case, Counters(reason=complaint or f"{ncu.source} {nothing}"))

    def _silence_s(self, cases: list[Case]) -> float:
        """A call may be silent for as long as a variant may, and for each of its launches on top."""
        known = self._launches()
        launches = [known[case] or UNKNOWN_LAUNCHES for case in cases]
        silence_s: float = self._writer.run.manifest.settings["silence_s"]
        return silence_s + LONGEST_LAUNCH_S * max(launches)

    def _launches(self) -> dict[Case, float | None]:
        """How many kernels a call of each case launches, as far as that was observed."""
        return {
            record.case: record.dispatch.launches if record.dispatch else None
            for record in self._writer.run.records()
        }

    def _job(self, cases: list[Case]) -> dict[str, Any]:
        settings = self._writer.run.manifest.settings
        return {
            **machine_job(self._environment),
            "plugins": settings["plugins"],
            "seed": settings["seed"],
            "cases": [asdict(case) for case in cases],
            "matmul_size": None,
        }

    def _store(self, case: Case, seen: Counters) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._writer.observe(Observation(case, now, counters=seen))


def try_matmul(environment: dict[str, Any]) -> Counters:
    """What Nsight Compute counts in an 8192³ bf16 matmul on the environment's GPU; the reason where it cannot."""
    job = {**machine_job(environment), "plugins": [], "seed": 0, "cases": [], "matmul_size": MATMUL_SIZE}
    try:
        gpu, ncu = environment["gpu"], Ncu.find()
        chip = chip_of(gpu)
        found = profile(ncu, chip, job, MATMUL_SILENCE_S, None, lambda _: None)
        if launches := (found.launches or {}).get(0):
            return counters(launches, chip, flop_per_clock(gpu, environment["peaks"]), ncu.source)
        why = ncu.refusal(found.said) or ncu.complaint(found.said)
        ended = found.fault.reason if found.fault else "no kernel was counted"
        return Counters(source=ncu.source, reason=why or f"{ncu.source}: {ended}")
    except (NcuUnavailable, Uncounted) as why_not:
        return Counters(reason=str(why_not))
