"""One case of an `ab` session: its pairs on both sides, and the row that they support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from results.comparison import Comparison, as_ratio, bounds, mean_s, timer_limits
from results.medians import why_no_time
from results.verdict import (
    CONFIDENCE,
    CONFIRMING,
    LOOKS,
    Verdict,
    confirmed,
    decide,
    interval,
    judge,
    log_ratios,
)
from results.words import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from results.medians import Median, Medians
    from results.record import Record
    from results.schema import Case

LOOKED_AT = range(LOOKS[-1])
"""The replicates that a first verdict is made of."""

FIRST = range(LOOKS[0])
SECOND = range(LOOKS[0], LOOKS[-1])
FRESH = range(LOOKS[-1], LOOKS[-1] + CONFIRMING)
"""The replicates that confirm a `slower`."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Medians of both sides, in order of replicate; entry i of each is pair i."""

    base: tuple[Median, ...]
    head: tuple[Median, ...]

    def __len__(self) -> int:
        return len(self.base)

    def first(self, count: int) -> Pairs:
        """The first `count` pairs, or all where there are fewer."""
        return Pairs(self.base[:count], self.head[:count])

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The log ratio of each pair."""
        return log_ratios([one.value_s for one in self.base], [one.value_s for one in self.head])

    @property
    def resolution(self) -> float:
        """The largest share that a timer's step has in any of these times."""
        return max((one.resolution for one in (*self.base, *self.head)), default=0.0)

    @property
    def nonsense(self) -> str | None:
        """The first median that is no time, in words."""
        return why_no_time("base", self.base) or why_no_time("head", self.head)


@dataclass(frozen=True)
class PairedCase:
    """A case that is ok on both sides as far as it was measured.

    `base` and `head` are its records, `base_times` and `head_times` its medians, `tried` the replicates in which
    both sides have a trial.
    """

    base: Record
    head: Record
    base_times: Medians
    head_times: Medians
    tried: frozenset[int]

    @property
    def case(self) -> Case:
        """The case itself."""
        return self.base.case

    def has(self, replicates: range) -> bool:
        """Whether both sides have tried all of these replicates."""
        return self.tried.issuperset(replicates)

    def modes(self) -> set[str]:
        """The modes that either side was timed in, or says why not."""
        return {
            mode
            for of in (self.base_times, self.head_times, self.base.mode_reasons, self.head.mode_reasons)
            for mode in of
        }

    def pairs(self, mode: str, replicates: Sequence[int]) -> Pairs:
        """The pairs among these replicates; one that lacks a side is none."""
        base, head = self.base_times.get(mode, {}), self.head_times.get(mode, {})
        both = [replicate for replicate in replicates if replicate in base and replicate in head]
        return Pairs(tuple(base[one] for one in both), tuple(head[one] for one in both))

    def looked_at(self, mode: str) -> Pairs:
        """The pairs that a first verdict is made of."""
        return self.pairs(mode, LOOKED_AT)

    def verdict(self, mode: str, replicates: range = LOOKED_AT) -> Verdict:
        """What the looks among these replicates say, before any confirmation."""
        pairs = self.pairs(mode, replicates)
        if not len(pairs):
            return Verdict.INCOMPARABLE
        return Verdict(str(judge(pairs.ratios, pairs.resolution)))

    def row(self, mode: str, guarded: bool) -> Comparison:
        """The case in this mode, judged, and confirmed where that is called for."""
        pairs = self.looked_at(mode)
        fresh = self.pairs(mode, FRESH)
        if why := self._incomparable(mode) or pairs.nonsense or fresh.nonsense:
            lost = self._lost(mode)
            return Comparison(self.case, mode, guarded, Verdict.INCOMPARABLE, reason=why, lost=lost)
        if not len(pairs):
            return Comparison(self.case, mode, guarded, Verdict.UNDECIDED, reason="no pair measured yet")
        verdict = self.verdict(mode)
        looked_at = _last_look(pairs)
        if verdict is Verdict.UNDECIDED:
            why = _why_undecided(looked_at, len(pairs))
            return self._row(mode, guarded, verdict, looked_at, reason=why)
        if verdict is not Verdict.SLOWER:
            return self._row(mode, guarded, verdict, looked_at)
        if len(fresh) < CONFIRMING and not guarded:
            return self._row(mode, guarded, verdict, looked_at, reason="not guarded, so not measured again")
        if bool(confirmed(fresh.ratios, fresh.resolution)):
            return self._row(mode, guarded, verdict, fresh, confirmed=True)
        why = _why_unconfirmed(looked_at, len(fresh))
        shown = fresh if len(fresh) >= CONFIRMING else looked_at
        return self._row(mode, guarded, Verdict.UNDECIDED, shown, reason=why, confirmed=False)

    def _incomparable(self, mode: str) -> str | None:
        """Why this mode cannot be compared although both sides have trials."""
        sides = (("base", self.base, self.base_times), ("head", self.head, self.head_times))
        lacking = [
            (side, record) for side, record, times in sides if record.replicates and not times.get(mode)
        ]
        if not lacking:
            return None
        side, record = lacking[0]
        who = side if len(lacking) == 1 else "neither side"
        have = "has no" if len(lacking) == 1 else "has a"
        return f"{who} {have} {mode} time: {record.mode_reasons.get(mode, 'it was not measured')}"

    def _lost(self, mode: str) -> bool:
        """Whether base has times in this mode and head, although it was measured, has none."""
        of_base, of_head = (times.get(mode, {}).values() for times in (self.base_times, self.head_times))
        usable = [bool(of) and why_no_time("it", of) is None for of in (of_base, of_head)]
        return usable == [True, False] and self.head.replicates > 0

    def _row(
        self,
        mode: str,
        guarded: bool,
        verdict: Verdict,
        pairs: Pairs,
        *,
        reason: str | None = None,
        confirmed: bool | None = None,
    ) -> Comparison:
        centre, margin = map(float, interval(pairs.ratios, pairs.resolution))
        return Comparison(
            self.case,
            mode,
            guarded,
            verdict,
            *bounds(centre, margin, CONFIDENCE),
            base_s=mean_s(one.value_s for one in pairs.base),
            head_s=mean_s(one.value_s for one in pairs.head),
            base_count=len(pairs),
            head_count=len(pairs),
            reason=reason,
            confirmed=confirmed,
        )


def _last_look(pairs: Pairs) -> Pairs:
    """The pairs that the verdict came from: those of the first look that decided, else of the last one taken."""
    taken = [count for count in LOOKS if len(pairs) >= count]
    for count in taken:
        looked_at = pairs.first(count)
        if str(decide(*interval(looked_at.ratios, looked_at.resolution))) != Verdict.UNDECIDED:
            return looked_at
    return pairs.first(taken[-1]) if taken else pairs


def _why_undecided(looked_at: Pairs, measured: int) -> str:
    if measured < LOOKS[0]:
        return f"{measured} of {LOOKS[0]} pairs measured"
    centre, margin = map(float, interval(looked_at.ratios, looked_at.resolution))
    if hidden := timer_limits(centre, margin, looked_at.resolution):
        return hidden
    told = f"too noisy for {len(looked_at)} pairs"
    return told if measured >= LOOKS[-1] else f"{told}, {measured} of {LOOKS[-1]} measured"


def _why_unconfirmed(looked_at: Pairs, fresh: int) -> str:
    first = f"slower by {percent(as_ratio(float(interval(looked_at.ratios)[0])) - 1)} at first"
    if fresh >= CONFIRMING:
        return f"{first}, not confirmed in {CONFIRMING} fresh pairs"
    return f"{first}, not confirmed: {fresh} of {CONFIRMING} fresh pairs measured"
