"""One group on a CPU with a scripted timer: what a captured graph computes is verified like the call itself."""

from __future__ import annotations

import weakref
from functools import partial

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness import group_inputs
from harness.clocks import Cooling
from harness.group import GroupMeasurement
from harness.plan import Group, case_of
from harness.state import PinnedState
from harness.timers import EagerTimer
from harness.tools import Tools
from results.schema import Outcome
from tests.traps.groups import Right, ScriptedTimer, measured
from variants.registry import Registry, discover
from variants.shape import Shape
from variants.variant import Variant

SHAPE = Shape(batch=1, seq_len=8, d_model=16, n_head=2)


class Replaying:
    """A timing mode with a copy of the call, as a graph is; `replay` makes that copy."""

    mode = "graph"

    def __init__(self, replay):
        self._replay = replay

    def bracket(self, call):
        bracket = EagerTimer(synchronize=lambda: None).bracket(call)
        bracket.replay = self._replay(call)
        return bracket


def faithful(call):
    return call


def stale(call):
    """As a graph whose output memory nobody writes again."""
    return partial(lambda output: output, call())


@pytest.mark.parametrize(
    ("replay", "outcome", "reason"),
    [(faithful, Outcome.OK, None), (stale, Outcome.INCORRECT, "replayed from its graph: worst row off by")],
)
def test_a_graph_that_computes_something_else_than_the_call_is_incorrect(replay, outcome, reason):
    reported = []
    device = torch.device("cpu")
    tools = Tools(
        device=device, state=PinnedState(device), registry=discover(), timers=[Replaying(replay)], missing_modes={},
        nvml=None, begin=lambda *_: None, report=reported.append, note_need=lambda *_: None, replicate=0, seed=0,
        cooling=Cooling(),
    )  # fmt: skip
    group = Group("attention", SHAPE, (case_of("attention", "sdpa", SHAPE),))
    with torch.inference_mode():
        GroupMeasurement(group, tools).run(0.01)
    (trial,) = reported
    assert trial.outcome is outcome, trial.reason
    assert reason is None or trial.reason.startswith(reason)
    assert bool(trial.timings) is (outcome is Outcome.OK)


class Compiles(Variant):
    """Attention whose `prepare` takes ten seconds by the clock, and whose `call` takes one."""

    stage, name = "attention", "compiles"
    clock_s = 0.0

    def prepare(self, weights):
        Compiles.clock_s += 10

    def call(self, q, k, v):
        Compiles.clock_s += 1
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)


def test_what_preparing_takes_is_needed_once_and_checking_twice():
    """A compiler works once; the check after timing takes as long as the one before it."""
    needs = []
    device = torch.device("cpu")
    tools = Tools(
        device=device, state=PinnedState(device), registry=Registry({("attention", "compiles"): Compiles}),
        timers=[], missing_modes={}, nvml=None, begin=lambda *_: None, report=lambda _: None,
        note_need=lambda *need: needs.append(need), replicate=0, seed=0, cooling=Cooling(),
        clock_s=lambda: Compiles.clock_s,
    )  # fmt: skip
    group = Group("attention", SHAPE, (case_of("attention", "compiles", SHAPE),))
    with torch.inference_mode():
        GroupMeasurement(group, tools).run(60)
    ((_, fixed_s, _),) = needs
    assert fixed_s == 10 + 1 + 1 + 1, (
        "preparing, the check before timing, the memory of a call, the check after"
    )


def test_nothing_holds_a_groups_inputs_when_its_memory_is_freed(monkeypatch):
    """Each is as large as what the next group needs, and the allocator gives back only what nobody holds."""
    made, left = [], []

    def noted(make):
        def making(*arguments):
            inputs = make(*arguments)
            made.extend(map(weakref.ref, inputs.activations))
            return inputs

        return making

    monkeypatch.setattr(group_inputs, "make_inputs", noted(group_inputs.make_inputs))
    monkeypatch.setattr(group_inputs, "fresh_inputs", noted(group_inputs.fresh_inputs))
    monkeypatch.setattr(Tools, "free_memory", lambda _: left.append(sum(one() is not None for one in made)))
    assert measured(Right, timer=ScriptedTimer())["right"].outcome is Outcome.OK
    assert len(made) == 6, "Q, K and V, before timing and after it"
    assert left[-1] == 0
