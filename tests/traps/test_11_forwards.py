"""Backward and step: an output that is wrong though its gradients are right."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch

from harness import group
from harness.directed import direct, expect
from harness.nested import flat, mapped
from harness.verification import checks, explain
from results.schema import Outcome
from variants.direction import BACKWARD
from variants.inputs import fresh_inputs, make_inputs
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES

from .groups import CPU, Right, ScriptedTimer, measured

if TYPE_CHECKING:
    from variants.variant import Variant

SHAPE = Shape(batch=2, seq_len=16, d_model=48, n_head=3)
BUILT_IN = discover().variants
RIGHT = {
    "qkv": "fused",
    "split": "torch_contiguous",
    "attention": "sdpa",
    "output": "concat_matmul",
    "sublayer": "fused_sdpa",
    "stack": "fused_sdpa",
}


class Spoiled:
    """A right variant whose output is changed where autograd does not see it."""

    right: ClassVar[type[Variant]]

    def call(self, *activations):
        return mapped(self.spoiled, self.right.call(self, *activations))

    def spoiled(self, out: torch.Tensor) -> torch.Tensor:
        return out + (self.wrong(out.detach().clone()) - out.detach())

    def wrong(self, out: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Scales(Spoiled):
    """5 % too much throughout."""

    said = "before timing: worst row off by 5 % (limit 0.002 %), whole tensor off by 5 % (limit 0.001 %)"

    def wrong(self, out):
        return out * 1.05


class LosesARow(Spoiled):
    """The last token's row is zero."""

    said = "before timing: worst row off by 100 % (limit 0.002 %), whole tensor off by"

    def wrong(self, out):
        out[..., -1, :] = 0
        return out


class PermutesSequences(Spoiled):
    """Each sequence's output in the place of its neighbour's."""

    said = "before timing: worst row off by"

    def wrong(self, out):
        return out.roll(1, dims=0)


class Remembers(Spoiled):
    """Right until the inputs change; then the first output again."""

    said = "after timing: worst row off by"

    def call(self, *activations):
        out = self.right.call(self, *activations)
        if not hasattr(self, "first"):
            self.first: Any = mapped(lambda x: x.detach().clone(), out)
        given = iter(flat(self.first))
        return mapped(lambda x: x + (next(given) - x.detach()), out)


class HoldsANan(Spoiled):
    """One element is NaN."""

    said = "before timing: in its forward's output: "

    def wrong(self, out):
        out[(-1,) * out.ndim] = torch.nan
        return out


WAYS = (Scales, LosesARow, PermutesSequences, Remembers, HoldsANan)


def spoilt(way: type[Spoiled], right: type[Variant]) -> type[Variant]:
    return type(way.__name__, (way, right), {"name": way.__name__, "right": right})


@pytest.mark.parametrize("direction", ["backward", "step"])
@pytest.mark.parametrize("stage", STAGES)
def test_an_output_wrong_in_forward_alone_is_incorrect_where_gradients_are_measured_too(stage, direction):
    """A naive tool compares the gradients of a backward and ranks one that no training could stand on."""
    right = BUILT_IN[stage, RIGHT[stage]]
    trials = measured(
        *(spoilt(way, right) for way in WAYS), right, shape=SHAPE, timer=ScriptedTimer(), direction=direction
    )
    assert trials.pop(right.name).outcome is Outcome.OK
    for way in WAYS:
        trial = trials[way.__name__]
        assert (trial.outcome, trial.timings) == (Outcome.INCORRECT, {}), way.__name__
        assert trial.reason.startswith(way.said), trial.reason
        assert "in its forward's output" in trial.reason, trial.reason
    assert {trial.outcome for trial in trials.values()} == {Outcome.INCORRECT}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("way", WAYS)
def test_their_gradients_are_right(stage, way):
    """So the reasons above are of the output, and a check of the gradients alone would let all of them pass."""
    kind = spoilt(way, BUILT_IN[stage, RIGHT[stage]])
    inputs = make_inputs(stage, SHAPE, 1, CPU, BACKWARD)
    directed = direct(BACKWARD, kind, SHAPE, inputs)
    fresh = fresh_inputs(stage, SHAPE, 2, inputs.weights, BACKWARD)
    inputs.copy_from(fresh)
    directed.renew()
    found, expected = directed.found(directed.timed()), expect(BACKWARD, stage, SHAPE, inputs)
    output, gradients = checks(found, expected, SHAPE, "after")
    assert gradients.passed, explain(gradients)
    assert not output.passed


class Watched(Right):
    """Notes its forwards, its backwards and how many of its outputs are kept."""

    name = "watched"
    log: ClassVar[list[str]] = []
    kept: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def call(self, q, k, v):
        out = super().call(q, k, v)
        if out.requires_grad:
            self.log.append("forward")
            self.kept.add(out)
            out.register_hook(lambda _: self.log.append("gradients"))
        return out


def test_the_forward_of_a_backward_gets_poisoned_memory_and_not_that_of_its_last_output(monkeypatch):
    """A naive tool poisons what the timed call gets: what the forward never writes is the right value of before."""
    Watched.log.clear()

    def poisoned(*_, **__):
        gc.collect()
        Watched.log.append(f"poison beside {len(Watched.kept)}")

    monkeypatch.setattr(group, "poison", poisoned)
    assert measured(Watched, timer=ScriptedTimer(), direction="backward")["watched"].outcome is Outcome.OK
    rehearsal = ["gradients"] * 2
    steps = ["poison beside 0", "forward", *rehearsal, "poison beside 1", "gradients"]
    starts = [n for n, step in enumerate(Watched.log) if step == "poison beside 0"]
    assert len(starts) == 3, "before timing, after it, and in storage never seen"
    assert all(Watched.log[start : start + len(steps)] == steps for start in starts), Watched.log
