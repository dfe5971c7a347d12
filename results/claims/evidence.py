"""What a stored run holds that claims ask for: times of cases, figures of records, experiments beside them.

A replicate is a fresh process that measured every group, so the times of two cases are paired by replicate: what both
owe to that process (heat, clocks, neighbours) falls out of their ratio, whose logs give the t interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from results.claims.claim import CONFIDENCE, Number, Unit
from results.claims.observed import Observed, load
from results.medians import medians, why_no_time
from results.merged import MergedRun
from results.ranking import HEADLINE_MODES
from results.schema import Outcome
from results.statistics import estimate
from results.verdict import interval, log_ratios
from results.words import counted, ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from results.medians import Median, Medians
    from results.ranking import Standing
    from results.run import Run
    from results.schema import Case

FORWARD = "forward"

Named = tuple[str, str]
"""A stage and one of its variants."""


class Place(NamedTuple):
    """The shape that cases of several stages share."""

    batch: int
    seq_len: int
    d_model: int
    n_head: int
    causal: bool
    dtype: str

    def properties(self) -> dict[str, str]:
        """Each property but the width and the heads, in words."""
        return {
            "batch": f"batch {self.batch}",
            "seq_len": f"{self.seq_len:,} tokens",
            "causal": "causal" if self.causal else "no mask",
            "dtype": self.dtype,
        }


@dataclass
class Evidence:
    """A run and its experiments, as claims look at them."""

    run: Run
    observed: Observed
    _standings: dict[tuple[Named, Place], Standing] = field(init=False, repr=False)
    """Of stacks that differ in their depth alone, the deepest that is ok."""
    _times: dict[Case, Medians] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._standings = {
            ((one.record.case.stage, one.variant), place_of(one.record.case)): one
            for one in sorted(self.run.standings(), key=_preferred)
            if one.record.case.direction == FORWARD and _coupled(one.record.case)
        }
        self._times = medians(self.run.trials)

    @classmethod
    def of(cls, run: Run) -> Evidence:
        """A run with the experiments stored beside it; of several merged, those of all, the oldest first.

        Raises:
            StoreError: a file of theirs cannot be read.
        """
        folders = [part.path for part in reversed(run.parts)] if isinstance(run, MergedRun) else [run.path]
        return cls(run, load(*folders))

    @property
    def on_gpu(self) -> bool:
        """Whether any of its times was taken on a GPU; of a folder of runs, the newest may know none."""
        return any(environment.get("gpu") for environment in self._environments)

    @property
    def machine(self) -> str:
        """The GPU's name, or the CPU's, and what all shapes have in common: `NVIDIA H200 (1,024 tokens, causal)`.

        Of a folder of runs: of every machine that a time is from.
        """
        found = [environment.get("gpu") or environment.get("cpu") for environment in self._environments]
        names = (str(one.get("name")) if isinstance(one, dict) else "an unknown device" for one in found)
        name, common = " and ".join(dict.fromkeys(names)), ", ".join(self._common.values())
        return f"{name} ({common})" if common else name

    def words(self, place: Place) -> str:
        """The shape as far as it differs among the run's: `batch 32`."""
        common = self._common
        return ", ".join(told for name, told in place.properties().items() if name not in common)

    @cached_property
    def _common(self) -> dict[str, str]:
        every = [place.properties() for named, place in self._standings if self.standing(named, place)]
        names = [name for name in (every[0] if every else ()) if name != "batch"]
        return {name: every[0][name] for name in names if len({of[name] for of in every}) == 1}

    @cached_property
    def _environments(self) -> list[dict[str, Any]]:
        """Of the runs that times are from; where there are none, of the run itself."""
        timed = [found.manifest for found in self._standings.values() if found.outcome is Outcome.OK]
        return [manifest.environment for manifest in timed or [self.run.manifest]]

    def sm_count(self, named: Named, place: Place) -> int | None:
        """The multiprocessors of the GPU that this case was measured on, where its run knows them."""
        found = self._standings.get((named, place))
        gpu = found.manifest.environment.get("gpu") if found else None
        count = gpu.get("sm_count") if isinstance(gpu, dict) else None
        return count if isinstance(count, int) and count > 0 else None

    def places(
        self, needs: Iterable[Named], d_model: int | None = None, n_head: int | None = None
    ) -> list[Place]:
        """The shapes at which each of these is ok, the largest batch first, of one width and number of heads if named.

        Where none of them is named: every shape of the run.
        """
        needs = list(needs)
        held = [{place for named, place in self._standings if named == one} for one in needs]
        both = sorted(
            set.intersection(*held) if held else {place for _, place in self._standings}, reverse=True
        )
        return [
            place
            for place in both
            if d_model in (None, place.d_model) and n_head in (None, place.n_head)
            if all(self.standing(one, place) for one in needs)
        ]

    def variants(self, stage: str) -> list[str]:
        """The variants of a stage that have a time anywhere, by name."""
        return sorted(
            {
                named[1]
                for named, place in self._standings
                if named[0] == stage and self.standing(named, place)
            }
        )

    def standing(self, named: Named, place: Place) -> Standing | None:
        """A case that is ok, or None."""
        found = self._standings.get((named, place))
        return found if found and found.outcome is Outcome.OK and not found.implausible else None

    def has(self, named: Named, place: Place) -> bool:
        """Whether this case was to be measured, however it ended."""
        return (named, place) in self._standings

    def all_at(self, place: Place) -> list[Standing]:
        """Every case that is ok at this shape."""
        found = (self.standing(named, at) for named, at in self._standings if at == place)
        return [one for one in found if one]

    def bounds(self, named: Named, place: Place) -> tuple[float, float, float] | None:
        """(time, low, high) in seconds of a case in its headline mode, the interval a claim's; None where unknown."""
        standing = self.standing(named, place)
        times = self._times.get(standing.record.case, {}).get(standing.mode or "", {}) if standing else {}
        if len(times) < 2 or why_no_time("it", times.values()):
            return None
        known = estimate(
            [one.value_s for one in times.values()], max(one.resolution for one in times.values()), CONFIDENCE
        )
        return known.value_s, known.low_s or 0.0, known.high_s or math.inf

    def why_left_out(self, needs: Iterable[Named], d_model: int | None, n_head: int | None) -> str | None:
        """How the first of these cases ended that the run has and that is not ok; None where it lacks one."""
        for one in needs:
            of_one = [
                found
                for (named, place), found in self._standings.items()
                if named == one and d_model in (None, place.d_model) and n_head in (None, place.n_head)
            ]
            if not of_one:
                return None
            if not any(found.outcome is Outcome.OK for found in of_one):
                return f"{'/'.join(one)} is {ended(of_one[0].record)}"
        return None

    def why_not_forward(self, needs: Iterable[Named], d_model: int | None, n_head: int | None) -> str | None:
        """Of the first of these cases that the run has not: in which directions it has it, if in any."""
        fits = [
            case
            for case in self.run.manifest.cases
            if _coupled(case) and d_model in (None, case.d_model) and n_head in (None, case.n_head)
        ]
        for one in needs:
            directions = dict.fromkeys(of.direction for of in fits if (of.stage, of.variant) == one)
            if FORWARD not in directions:
                told = f"the run has {'/'.join(one)} {' and '.join(directions)} alone, and claims are about forward"
                return told if directions else None
        return None

    def ratio(
        self, over: Sequence[Named], under: Sequence[Named], place: Place, mode: str | None = None,
        under_place: Place | None = None,
    ) -> Number | str:  # fmt: skip
        """Σ times of `over` ÷ Σ times of `under`, with its interval; or in words why there is none.

        In the `mode` that is named, else in the first of isolated, eager and graph that all of them have. `under` is
        looked up at `under_place` where that is given.
        """
        wanted = [(one, place) for one in over] + [(one, under_place or place) for one in under]
        found = [one for named, at in wanted if (one := self.standing(named, at))]
        if len(found) < len(wanted):
            return self._why_no_time(wanted)
        if len({one.record.run_id for one in found}) > 1:
            return "they were measured in different runs, whose processes do not pair"
        times = [self._times.get(one.record.case, {}) for one in found]
        modes = [mode] if mode else [one for one in HEADLINE_MODES if all(one in of for of in times)]
        if not modes or not all(modes[0] in of for of in times):
            return f"not all of them have a time in {mode or 'one mode'}"
        return _paired([of[modes[0]] for of in times], len(over))

    def _why_no_time(self, wanted: Iterable[tuple[Named, Place]]) -> str:
        """How the first of these ended that is in the run and has no time that counts."""
        for named, place in wanted:
            found = self._standings.get((named, place))
            if found and found.implausible:
                return f"{'/'.join(named)}: {found.implausible}"
            if found and found.outcome is not Outcome.OK:
                return f"{'/'.join(named)} is {ended(found.record)}"
        return "not all of these cases are in the run"


def _preferred(one: Standing) -> tuple[bool, int]:
    return one.outcome is Outcome.OK, one.record.case.n_layer


def _coupled(case: Case) -> bool:
    """Whether its heads are as wide as the model, as the lesson's are: others would pass for them in a `Place`."""
    return case.n_head * case.head_dim == case.d_model


def place_of(case: Case) -> Place:
    """The case's shape."""
    return Place(case.batch, case.seq_len, case.d_model, case.n_head, case.causal, case.dtype)


def exp(log: float) -> float:
    """e to this power; beyond what a float holds, as good as unbounded."""
    return math.exp(min(log, 700.0))


def mean_interval(values: Sequence[float], unit: Unit) -> Number | str:
    """The mean of seeds or trials, with its t interval; in words where there are too few."""
    if len(values) < 2:
        return f"{len(values)} of at least 2 samples: no interval"
    centre, margin = (float(one) for one in interval(values, confidence=CONFIDENCE))
    return Number(centre, unit, centre - margin, centre + margin)


def _paired(times: Sequence[Mapping[int, Median]], over: int) -> Number | str:
    """The ratio of the sums of the first `over` times and of the rest, over the replicates that have all of them."""
    shared = sorted(set.intersection(*(set(of) for of in times)))
    if len(shared) < 2:
        return f"{counted(len(shared), 'replicate')}: an interval needs at least 2"
    picked = [[of[replicate] for of in times] for replicate in shared]
    every = [one for of in picked for one in of]
    if wrong := why_no_time("a case", every):
        return wrong
    above, below = (
        [sum(one.value_s for one in of[part]) for of in picked] for part in (slice(over), slice(over, None))
    )
    resolution = max(one.resolution for one in every)
    centre, margin = (float(one) for one in interval(log_ratios(below, above), resolution, CONFIDENCE))
    low, high = (exp(centre + side) for side in (-margin, margin))
    return Number(exp(centre), Unit.TIMES, low, high)
