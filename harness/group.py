"""One group in one replicate, as a script: admit, size, measure, watch, check again, report.

Every variant of the group is prepared from the same inputs and stays alive until the group ends, so that the
rounds can interleave them. A variant that fails at any step loses its own case and no other's.
"""

from __future__ import annotations

import gc
import random
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch

from harness import memory, rounds, utilisation, verification
from harness.faults import classify, is_fatal
from harness.lane import IncorrectOutput, Lane
from harness.timers import Unmeasurable
from harness.tools import ContextLost, Tools, pin
from results.schema import Case, Outcome, Utilisation
from variants.inputs import Inputs, fresh_activations, make_inputs
from variants.reference import reference
from variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.plan import Group


class GroupMeasurement:
    """Measures one group within about `seconds`."""

    def __init__(self, group: Group, tools: Tools) -> None:
        self._group, self._tools = group, tools
        self._lanes: list[Lane] = []
        self._settled: set[str] = set()
        self._watcher = tools.nvml if tools.watch else None
        # Alike in every replicate would hide a variant that is wrong for some inputs only.
        self._seed = tools.seed + 1000 * tools.replicate

    def run(self, seconds: float) -> None:
        """The whole script; reports one trial per case.

        Raises:
            ContextLost: the GPU's context is gone; cases without a trial must be measured elsewhere.
        """
        deadline = time.monotonic() + seconds
        try:
            inputs = self._admit_all()
            checking_s = time.monotonic() - (deadline - seconds)
            self._size()
            self._bracket()
            watching_s = utilisation.USUAL_WINDOW_S * len(self._lanes) if self._watcher else 0.0
            self._measure(deadline - time.monotonic() - checking_s - watching_s)
            self._watch()
            self._check_again(inputs)
            self._report_all()
        finally:
            self._lanes.clear()
            gc.collect()
            self._tools.free_memory()

    def _admit_all(self) -> Inputs | None:
        """Prepare and verify every variant; those that fail are reported and gone."""
        group, tools = self._group, self._tools
        self._begin(None, "inputs and reference")
        try:
            inputs = make_inputs(group.stage, group.shape, self._seed, tools.device)
            expected = reference(group.stage, group.shape, inputs)
        except (RuntimeError, MemoryError) as error:
            self._settle_all(error)
            return None
        for case in group.cases:
            self._begin(case, "verify")
            lane = Lane(case, Variant(group.shape))
            with self._guarding(lane):
                lane.variant = tools.registry.variants[case.stage, case.variant](group.shape)
                lane.variant.prepare(inputs.weights)
                lane.call = partial(lane.variant.call, *inputs.activations)
                self._check(lane, expected, "before")
                self._refuse_changed_inputs(inputs)
                self._lanes.append(lane)
        return inputs

    def _check(self, lane: Lane, expected: tuple[torch.Tensor, ...], when: str) -> None:
        """Compare one call with the reference; the memory it gets is poisoned first."""
        verification.poison(self._group.shape, self._tools.device)
        found = lane.variant.canonical(lane.call())
        check = verification.compare(found, expected, self._group.shape.dtype, when)
        lane.checks.append(check)
        if not check.passed:
            raise IncorrectOutput(verification.explain(check))

    def _refuse_changed_inputs(self, inputs: Inputs) -> None:
        """A variant that changes what it is given would be timed on other inputs than it was verified on."""
        again = make_inputs(self._group.stage, self._group.shape, self._seed, self._tools.device)
        if not all(map(torch.equal, _tensors(inputs), _tensors(again))):
            for own, fresh in zip(_tensors(inputs), _tensors(again), strict=True):
                own.copy_(fresh)
            raise IncorrectOutput("changes its inputs in place: each timed call would see another input")

    def _size(self) -> None:
        for lane in list(self._lanes):
            self._begin(lane.case, "memory")
            with self._guarding(lane):
                lane.memory = memory.peak_of(lane.call, self._tools.device)

    def _bracket(self) -> None:
        """Bind every timing mode to every case; a mode that cannot time it leaves its reason."""
        for lane in list(self._lanes):
            lane.mode_reasons.update(self._tools.missing_modes)
            for timer in self._tools.timers:
                if lane.case.key in self._settled:
                    break
                self._begin(lane.case, timer.mode)
                with self._guarding(lane):
                    try:
                        bracket = timer.bracket(lane.call)
                    except Unmeasurable as reason:
                        lane.mode_reasons[timer.mode] = str(reason)
                        continue
                    lane.series.append(rounds.Series(lane.case.key, timer.mode, bracket))

    def _measure(self, seconds: float) -> None:
        """Interleaved rounds; a case that fails in the middle is settled and the others go on."""
        by_key = {lane.case.key: lane for lane in self._lanes}
        order = random.Random(f"{self._seed} {self._group.cases[0].group}")
        deadline = time.monotonic() + seconds
        current: list[Lane] = []

        def before_block(series: rounds.Series) -> None:
            current[:] = [by_key[series.case_key]]
            self._begin(current[0].case, series.mode)
            pin(self._group.shape.dtype)

        around = rounds.Surroundings(
            clock=time.monotonic,
            before_block=before_block,
            sm_clock_mhz=self._tools.nvml.sm_clock_mhz if self._tools.nvml else lambda: None,
        )
        gc.collect()
        gc.disable()
        try:
            while self._lanes:
                try:
                    series = [one for lane in self._lanes for one in lane.series if one.stopped is None]
                    rounds.measure(series, deadline - time.monotonic(), order, around)
                    return
                except BaseException as error:
                    self._settle(current[0], error)
        finally:
            gc.enable()

    def _watch(self) -> None:
        """The untimed NVML window of every case, in the first replicate."""
        tools = self._tools
        for lane in list(self._lanes):
            if self._watcher is None:
                lane.utilisation = Utilisation(reason=tools.nvml_reason or "watched in the first replicate")
                continue
            self._begin(lane.case, "NVML window")
            with self._guarding(lane):
                fastest = min((min(s.spans_s) for s in lane.series), default=1e-3)
                lane.utilisation = utilisation.watch(lane.call, fastest, self._watcher)

    def _check_again(self, inputs: Inputs | None) -> None:
        """Fresh inputs in new storage: what was right only by remembering is found out."""
        if inputs is None or not self._lanes:
            return
        group, tools = self._group, self._tools
        self._begin(None, "inputs and reference")
        try:
            activations = fresh_activations(group.stage, group.shape, self._seed + 1, tools.device)
            expected = reference(group.stage, group.shape, Inputs(activations, inputs.weights))
        except (RuntimeError, MemoryError) as error:
            self._settle_all(error)
            return
        for lane in list(self._lanes):
            self._begin(lane.case, "verify again")
            with self._guarding(lane):
                lane.call = partial(lane.variant.call, *activations)
                self._check(lane, expected, "after")

    def _begin(self, case: Case | None, step: str) -> None:
        self._tools.begin(self._group.cases[0].group, case.key if case else None, step)

    def _report_all(self) -> None:
        for lane in self._lanes:
            self._report(lane, Outcome.OK)

    @contextmanager
    def _guarding(self, lane: Lane) -> Iterator[None]:
        """Settle the lane if the block raises, whatever it raises: a variant is foreign code."""
        try:
            pin(self._group.shape.dtype)
            yield
            self._tools.synchronize()
        except BaseException as error:
            self._settle(lane, error)

    def _settle_all(self, error: BaseException) -> None:
        """What the group shares has failed: no case of it can be measured."""
        for case in self._group.cases:
            if case.key not in self._settled:
                self._settle(Lane(case, Variant(self._group.shape)), error)

    def _settle(self, lane: Lane, error: BaseException) -> None:
        """The case's last word: report it without times and go on without it."""
        fatal = is_fatal(error)
        if isinstance(error, IncorrectOutput):
            outcome, reason = Outcome.INCORRECT, str(error)
        else:
            outcome, reason = classify(error)
        self._report(lane, outcome, reason)
        self._lanes = [other for other in self._lanes if other is not lane]
        error.__traceback__ = None  # it holds the frames, and they the tensors
        if fatal:
            raise ContextLost(reason)
        gc.collect()
        self._tools.free_memory()

    def _report(self, lane: Lane, outcome: Outcome, reason: str | None = None) -> None:
        self._settled.add(lane.case.key)
        self._tools.report(lane.trial(self._tools.replicate, outcome, reason))


def _tensors(inputs: Inputs) -> Iterable[torch.Tensor]:
    weights = inputs.weights
    return (*inputs.activations, weights.w_q, weights.w_k, weights.w_v, weights.w_o)
