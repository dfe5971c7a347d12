"""An `ab` session: two runs measured side by side, replicate i of both being pair i.

A session is a folder that holds two runs, `base/` and `head/`. Pairs 0 to 4 are the first look, 5 to 9 the second,
10 to 19 the confirmation of a `slower`. Every case is measured in the first five, the others only where needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.comparison import Comparison, Comparisons
from results.errors import StoreError
from results.medians import medians
from results.paired_case import FIRST, FRESH, LOOKED_AT, SECOND, PairedCase
from results.record import newest
from results.run import MANIFEST, Run, load
from results.schema import MODES, Case, Outcome
from results.session import SIDES, is_session
from results.verdict import Verdict
from results.words import counted, ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from results.record import Record

GUARDED = ("isolated", "graph")
"""The modes that may fail a CI unless told otherwise: `eager` moves by a third between processes."""


def read_pairs(folder: Path) -> PairedRuns:
    """The session in `folder`, with the guard that it was recorded with.

    Raises:
        StoreError: there is none, or a side of it is damaged; the message is one line.
    """
    if not is_session(folder):
        raise StoreError(f"{folder} is not an ab session: it lacks base/{MANIFEST} or head/{MANIFEST}")
    base, head = (load(folder / side) for side in SIDES)
    return PairedRuns(base, head, _recorded_guard(base))


@dataclass(frozen=True)
class PairedRuns:
    """Both runs of a session, as far as they have come, and the modes that may fail a CI.

    Everything is derived from the runs' trials at each call, so a session can be asked while it is measured.
    """

    base: Run
    head: Run
    guard: tuple[str, ...] = GUARDED

    @property
    def guarded(self) -> tuple[str, ...]:
        """The modes of `guard`; on a CPU, which has no other mode, `eager`."""
        return ("eager",) if self.base.manifest.environment.get("device") == "cpu" else self.guard

    @property
    def is_self_check(self) -> bool:
        """Whether both sides were the same code on purpose."""
        return _settings(self.base).get("self_check") is True

    def cases(self) -> list[PairedCase]:
        """Each case that both sides have, as far as it was measured; not those that failed on a side."""
        return list(self._paired(*self._records()))

    def open_cases(self) -> list[Case]:
        """The cases that a first look leaves undecided in a guarded mode, and that lack pairs 5 to 9."""
        return [
            one.case
            for one in self.cases()
            if one.has(FIRST) and not one.has(SECOND) and self._any(one, Verdict.UNDECIDED, FIRST)
        ]

    def to_confirm(self) -> list[Case]:
        """The cases that are `slower` in a guarded mode and lack their fresh pairs."""
        return [one.case for one in self.cases() if not one.has(FRESH) and self._any(one, Verdict.SLOWER)]

    def comparisons(self) -> Comparisons:
        """A row for each case of both sides and each mode that a side was timed in, in plan order."""
        base, head = self._records()
        common = [case for case in base if case in head]
        paired = {one.case: one for one in self._paired(base, head)}
        untried = [case for case in common if _untried(base[case]) and _untried(head[case])]
        rows = [
            row
            for case in common
            if case not in untried
            for row in (
                self._rows(paired[case]) if case in paired else self._not_ok(case, base[case], head[case])
            )
        ]
        return Comparisons(
            rows=tuple(rows),
            unit="pairs",
            base=_label(self.base, "base"),
            head=_label(self.head, "head"),
            only_base=tuple(case for case in base if case not in head),
            only_head=tuple(case for case in head if case not in base),
            failed=tuple(case for case in common if _failed(head[case])),
            notes=tuple(self._notes(len(untried))),
        )

    def _records(self) -> tuple[dict[Case, Record], dict[Case, Record]]:
        base, head = ({record.case: record for record in run.records()} for run in (self.base, self.head))
        return base, head

    def _paired(self, base: dict[Case, Record], head: dict[Case, Record]) -> Iterator[PairedCase]:
        """The cases of both sides in plan order, without those that any trial says are not ok."""
        base_times, head_times = medians(self.base.trials), medians(self.head.trials)
        base_tried, head_tried = _replicates(self.base), _replicates(self.head)
        for case in base:
            if case in head and all(side[case].outcome in (Outcome.OK, None) for side in (base, head)):
                yield PairedCase(
                    base[case],
                    head[case],
                    base_times.get(case, {}),
                    head_times.get(case, {}),
                    frozenset(base_tried.get(case, set()) & head_tried.get(case, set())),
                )

    def _any(self, of: PairedCase, verdict: Verdict, replicates: range = LOOKED_AT) -> bool:
        """Whether these replicates say so in any guarded mode."""
        return any(of.verdict(mode, replicates) is verdict for mode in self.guarded)

    def _rows(self, of: PairedCase) -> list[Comparison]:
        shown = of.modes() | set(self.guarded)
        return [of.row(mode, mode in self.guarded) for mode in MODES if mode in shown]

    def _not_ok(self, case: Case, base: Record, head: Record) -> list[Comparison]:
        """A row for each guarded mode: a verdict was asked for in these."""
        sides = (("base", base), ("head", head))
        failed = [(side, one) for side, one in sides if one.outcome not in (Outcome.OK, None)]
        why = "; ".join(f"{side} is {ended(one)}" for side, one in failed)
        lost = all(side == "head" for side, _ in failed) and not _failed(head)
        return [
            Comparison(case, mode, guarded=True, verdict=Verdict.INCOMPARABLE, reason=why, lost=lost)
            for mode in MODES
            if mode in self.guarded
        ]

    def _notes(self, untried: int) -> Iterator[str]:
        if self.guarded != self.guard:
            yield "measured on a CPU, where eager is the only mode: it is guarded"
        if untried:
            yield f"{counted(untried, 'case')} left out: unavailable or unsupported on both sides"
        for side, run in (("base", self.base), ("head", self.head)):
            yield from (f"{side}: {note}" for note in run.notes)


def _replicates(run: Run) -> dict[Case, set[int]]:
    """The replicates in which each case has a trial."""
    tried: dict[Case, set[int]] = {}
    for trial in newest(run.trials):
        tried.setdefault(trial.case, set()).add(trial.replicate)
    return tried


def _untried(record: Record) -> bool:
    return record.outcome is not None and record.outcome.never_tried


def _failed(record: Record) -> bool:
    return record.outcome is not None and record.outcome.failed


def _settings(run: Run) -> dict[str, object]:
    """What the session wrote into a side's manifest; empty where somebody edited it away."""
    settings = run.manifest.settings.get("ab")
    return settings if isinstance(settings, dict) else {}


def _label(run: Run, side: str) -> str:
    return str(_settings(run).get("label") or side)


def _recorded_guard(run: Run) -> tuple[str, ...]:
    recorded = _settings(run).get("guard")
    if not isinstance(recorded, list) or not recorded or any(mode not in MODES for mode in recorded):
        return GUARDED
    return tuple(recorded)
