"""One group in one replicate, as a script: admit, size, bind, measure, check again.

Every variant of the group is prepared from the same inputs and stays alive until the group ends, so that the
rounds can interleave them. A variant that fails at any step loses its own case and no other's.
"""

from __future__ import annotations

import gc
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from harness import rounds, verification
from harness.directed import NoGradient, direct
from harness.faults import classify, is_fatal, is_out_of_memory
from harness.group_inputs import GroupInputs
from harness.lane import IncorrectOutput, Lane
from harness.output_form import form_fault
from harness.poison import poison
from harness.sensors.memory import MemorySensor
from harness.sensors.nvml import NOTHING_READ
from harness.timers import Unmeasurable
from harness.tools import ContextLost, Tools
from results.schema import Case, Outcome
from variants.direction import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.directed import Directed, Expected
    from harness.plan import Group
    from harness.series import Series
    from results.figures import Memory

LONGEST_BLOCKS_S = {"cpu": rounds.LONGEST_BLOCK_S, "cuda": 0.03}
"""A GPU's clock holds some 50 ms of full load before its power cap lowers it; then another case takes its turn."""
LEAST_SERIES_S = 0.025
"""What a case's mode gets at least, though a group whose first calls load libraries has spent its time on that."""
CHANGED = "changes its inputs in place: each timed call would see another input"


class SharedFault(Exception):
    """What all cases of the group stand on has failed; its cause is the exception that says why."""


class GroupMeasurement:
    """Measures one group within about `seconds`."""

    def __init__(self, group: Group, tools: Tools) -> None:
        self._group, self._tools = group, tools
        self._direction = group.direction
        self._lanes: list[Lane] = []
        self._settled: set[str] = set()
        self._preparing_s = 0.0
        # Alike in every replicate would hide a variant that is wrong for some inputs only.
        self._seed = tools.seed + 1000 * tools.replicate
        self._inputs = GroupInputs(group, self._seed, tools.device)

    def run(self, seconds: float) -> None:
        """The whole script; reports one trial per case.

        Raises:
            ContextLost: the GPU's context is gone; cases without a trial must be measured elsewhere.
        """
        clock = self._tools.clock_s
        start = clock()
        try:
            expected = self._shared(self._inputs.make)
            self._admit_all(expected)
            del expected
            checking_s = clock() - start - self._preparing_s
            self._size()
            self._bind()
            left_s = start + seconds - clock() - checking_s  # checking again takes as long
            self._measure(max(left_s, LEAST_SERIES_S * sum(len(lane.series) for lane in self._lanes)))
            self._note_need(clock() - start + checking_s)
            self._check_again()
        except SharedFault as fault:
            self._settle_all(fault.__cause__ or fault)
        finally:
            self._lanes.clear()
            del self._inputs  # or their memory would not be freed
            gc.collect()
            self._tools.free_memory()
            self._tools.state.infer()

    def _shared(self, make: Callable[[], Expected]) -> Expected:
        """Inputs, and what is expected of them; captured graphs give up their memory if it is wanting."""
        self._begin(None, "inputs and reference")
        try:
            try:
                return make()
            except (RuntimeError, MemoryError) as error:
                if not (is_out_of_memory(error) and any(lane.replay for lane in self._lanes)):
                    raise
            for lane in self._lanes:
                lane.replay = None
            self._tools.free_memory()
            return make()
        except (RuntimeError, MemoryError) as error:
            raise SharedFault from error

    def _admit_all(self, expected: Expected) -> None:
        """Prepare and verify every variant; those that fail are reported and gone."""
        for case in self._group.cases:
            self._begin(case, "verify")
            lane = Lane(case)
            with self._guarding(lane):
                kind = self._tools.registry.variants[case.stage, case.variant]
                lane.arrives, begun = kind.arrives, self._tools.clock_s()
                lane.directed = direct(
                    self._direction, kind, self._group.shape, self._inputs.given(kind.arrives)
                )
                self._preparing_s += self._tools.clock_s() - begun
                lane.call = lane.directed.timed
                self._check(lane, lane.directed, lane.call, expected, "before")
                self._refuse_changed_inputs()
                self._lanes.append(lane)

    def _check(
        self, lane: Lane, directed: Directed, call: Callable[[], object], expected: Expected, when: str
    ) -> None:
        """Compare one call with the reference; the memory it gets is poisoned first."""
        self._restore()
        if self._direction == BACKWARD:
            # Its forward runs when it is renewed, maybe where the last one left its output.
            directed.release()
            self._poison()
        directed.renew()
        directed.rehearse()
        self._poison()
        found = directed.found(call())
        for check in verification.checks(found, expected, self._group.shape, when):
            lane.checks.append(check)
            if not check.passed:
                raise IncorrectOutput(verification.explain(check))
        if fault := form_fault(self._group.stage, found.returned, found.outputs):
            raise IncorrectOutput(fault)
        directed.release()

    def _poison(self) -> None:
        poison(self._group.shape, self._tools.device, gradients=self._direction != FORWARD)

    def _refuse_changed_inputs(self) -> None:
        """Called after every step that runs a variant, so that the change is laid at the right door."""
        self._restore()  # it may have left a state in which nothing can be compared, or written again
        if not self._inputs.are_as_made():
            self._inputs.restore()
            raise IncorrectOutput(CHANGED)

    def _size(self) -> None:
        sensor = MemorySensor(self._tools.device)
        for lane in list(self._lanes):
            self._begin(lane.case, sensor.step)
            with self._guarding(lane):
                lane.take_up()
                lane.memory = cast("Memory", sensor.sample(lane.call)["memory"])
                lane.put_down()

    def _bind(self) -> None:
        """Bind every timing mode to every case; a mode that cannot time it leaves its reason."""
        for lane in list(self._lanes):
            lane.mode_reasons.update(self._tools.missing_modes)
            for timer in self._tools.timers:
                if lane.case.key in self._settled:
                    break
                self._begin(lane.case, timer.mode)
                with self._guarding(lane):
                    lane.take_up()
                    try:
                        lane.bind(timer, self._tools.cooling, self._tools.target_precision)
                    except Unmeasurable as reason:
                        lane.mode_reasons[timer.mode] = str(reason)
                    lane.put_down()
                    self._refuse_changed_inputs()

    def _measure(self, seconds: float) -> None:
        """Interleaved rounds; a case that fails in the middle is settled and the others go on."""
        tools = self._tools
        order = random.Random(f"{self._seed} {self._group.cases[0].group}")
        deadline = tools.clock_s() + seconds
        tools.cooling.allow(seconds)
        in_hand: list[Lane] = []

        def before_block(series: Series) -> None:
            in_hand[:] = [lane for lane in self._lanes if lane.case.key == series.case_key]
            self._begin(in_hand[0].case, series.mode)
            tools.cooling.rest()
            in_hand[0].take_up()
            gc.disable()

        def after_block() -> None:
            in_hand[0].put_down()
            self._refuse_changed_inputs()

        around = rounds.Surroundings(
            clock_s=tools.clock_s,
            before_block=before_block,
            after_block=after_block,
            read=tools.nvml.reading if tools.nvml else lambda: NOTHING_READ,
            longest_block_s=LONGEST_BLOCKS_S[tools.device.type],
        )
        gc.collect()
        try:
            while self._lanes:
                try:
                    series = [one for lane in self._lanes for one in lane.series if one.stopped is None]
                    rounds.measure(series, deadline - tools.clock_s(), order, around)
                    return
                except BaseException as error:
                    self._settle(in_hand[0], error)
        finally:
            gc.enable()

    def _note_need(self, taken_s: float) -> None:
        """Tell the parent how long this group took, and how long it would have if let: the next replicate's share."""
        series = [one for lane in self._lanes for one in lane.series]
        wanted_s = sum(one.wanted_s() for one in series)
        self._tools.note_need(
            self._group.cases[0].group, taken_s - sum(one.spent_s for one in series), wanted_s
        )

    def _check_again(self) -> None:
        """Fresh values twice: in the storage that was timed, through graphs too, and in storage never seen.

        What was right only by remembering an output, its address or its input is found out.
        """
        for lane in self._lanes:
            lane.end_timing()
        if not self._lanes:
            return
        expected = self._shared(self._inputs.renew)
        for lane in list(self._lanes):
            self._begin(lane.case, "verify again")
            self._inputs.restore_elsewhere()
            with self._guarding(lane):
                assert lane.directed, "it was admitted"
                self._check(lane, lane.directed, lane.call, expected, "after")
                if lane.replay:
                    self._check(lane, lane.directed, lane.replay, expected, "in its graph")
                elsewhere = lane.directed.on(self._inputs.elsewhere(lane.arrives))
                self._check(lane, elsewhere, elsewhere.timed, expected, "after")
                self._refuse_changed_inputs()
                self._report(lane, Outcome.OK)

    @contextmanager
    def _guarding(self, lane: Lane) -> Iterator[None]:
        """Settle the lane if the block raises, whatever it raises: a variant is foreign code."""
        try:
            yield
            self._tools.synchronize()
        except BaseException as error:
            self._settle(lane, error)

    def _settle_all(self, error: BaseException) -> None:
        for case in self._group.cases:
            if case.key not in self._settled:
                self._report(Lane(case), *_outcome_of(error))
        if is_fatal(error):
            raise ContextLost(str(error))

    def _settle(self, lane: Lane, error: BaseException) -> None:
        """The case's last word: report it without times and go on without it."""
        self._report(lane, *_outcome_of(error))
        self._lanes = [other for other in self._lanes if other is not lane]
        if is_fatal(error):
            raise ContextLost(str(error))
        self._restore()
        self._inputs.restore()  # it may have spoiled them before it failed
        error.__traceback__ = None  # it holds the frames, and they the tensors
        gc.collect()
        self._tools.free_memory()

    def _report(self, lane: Lane, outcome: Outcome, reason: str | None = None) -> None:
        self._settled.add(lane.case.key)
        self._tools.report(lane.trial(self._tools.replicate, outcome, reason))

    def _begin(self, case: Case | None, step: str) -> None:
        """Say what is in hand, and begin it in the state of a fresh process, whatever the step before left."""
        self._tools.begin(self._group.cases[0].group, case.key if case else None, step)
        self._restore()

    def _restore(self) -> None:
        self._tools.state.restore(self._group.shape.dtype, gradients=self._direction != FORWARD)


def _outcome_of(error: BaseException) -> tuple[Outcome, str]:
    wrong = isinstance(error, IncorrectOutput | NoGradient)
    return (Outcome.INCORRECT, str(error)) if wrong else classify(error)
