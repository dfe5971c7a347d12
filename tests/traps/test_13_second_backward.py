"""Backward: many calls are timed of one forward, so the second must do what the first did."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.directed import SECOND, direct, expect
from harness.verification import checks
from results.schema import Outcome
from variants.direction import BACKWARD
from variants.inputs import make_inputs
from variants.shape import Shape

from .groups import CPU, Right, ScriptedTimer, measured

SHAPE = Shape(batch=2, seq_len=16, d_model=48, n_head=3)


class Own(torch.autograd.Function):
    """Attention with a backward of its own, for its subclasses to spoil."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        ctx.causal, ctx.kept = causal, None
        ctx.saved = [x.detach().clone() for x in (q, k, v)]
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    @classmethod
    def computed(cls, ctx, d_out):
        given = [x.clone().requires_grad_() for x in ctx.saved]
        with torch.enable_grad():
            out = scaled_dot_product_attention(*given, is_causal=ctx.causal)
        return torch.autograd.grad(out, given, d_out)

    @classmethod
    def backward(cls, ctx, d_out):
        return *cls.computed(ctx, d_out), None


class Keeps(Own):
    """Computes once for each forward."""

    @classmethod
    def backward(cls, ctx, d_out):
        if ctx.kept is None:
            ctx.kept = cls.computed(ctx, d_out)
        return *ctx.kept, None


class KeepsOne(Own):
    """Keeps dK alone."""

    @classmethod
    def backward(cls, ctx, d_out):
        d_q, d_k, d_v = cls.computed(ctx, d_out)
        ctx.kept = d_k if ctx.kept is None else ctx.kept
        return d_q, ctx.kept, d_v, None


class WritesOverWhatWasSaved(Own):
    """Needs no more memory, and gives zeros the second time."""

    @classmethod
    def backward(cls, ctx, d_out):
        found = cls.computed(ctx, d_out)
        for one in ctx.saved:
            one.zero_()
        return *found, None


class WritesOverWhatItIsGiven(Own):
    """Spoils the gradient of the output, which is no input that is compared."""

    @classmethod
    def backward(cls, ctx, d_out):
        found = cls.computed(ctx, d_out.clone())
        d_out.zero_()
        return *found, None


class GivesOutTheSameMemory(Own):
    """As a graph of a backward does: each call overwrites what the last one gave, and is right."""

    memory: ClassVar[dict[int, torch.Tensor]] = {}

    @classmethod
    def backward(cls, ctx, d_out):
        found = cls.computed(ctx, d_out)
        given = [cls.memory.setdefault(n, torch.empty_like(one)).copy_(one) for n, one in enumerate(found)]
        return *given, None


def attention(function: type[Own]) -> type[Right]:
    def call(self, q, k, v):
        return function.apply(q, k, v, self.shape.causal)

    return type(function.__name__, (Right,), {"name": function.__name__, "call": call})


SPOILT = (Keeps, KeepsOne, WritesOverWhatWasSaved, WritesOverWhatItIsGiven)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_backward_that_lives_on_its_first_call_is_refused(dtype):
    """A naive tool checks the first backward after each forward, and times the others, which compute nothing."""
    shape = Shape(2, 16, 48, 3, dtype=dtype)
    trials = measured(
        *map(attention, (*SPOILT, Own, GivesOutTheSameMemory)),
        shape=shape,
        timer=ScriptedTimer(),
        direction="backward",
    )
    for function in SPOILT:
        trial = trials[function.__name__]
        assert (trial.outcome, trial.reason, trial.timings) == (Outcome.INCORRECT, SECOND, {})
    for right in ("Own", "GivesOutTheSameMemory"):
        assert trials[right].outcome is Outcome.OK, trials[right].reason


@pytest.mark.parametrize("function", SPOILT)
def test_the_first_backward_after_a_forward_is_right(function):
    """So a single check would let all of them pass, and for the same gradient of the output two let those that keep."""
    inputs = make_inputs("attention", SHAPE, 1, CPU, BACKWARD)
    directed = direct(BACKWARD, attention(function), SHAPE, inputs)
    expected = expect(BACKWARD, "attention", SHAPE, inputs)
    directed.renew()
    first, second = (
        all(one.passed for one in checks(directed.found(directed.timed()), expected, SHAPE, "before"))
        for _ in range(2)
    )
    assert first
    assert second is (function in (Keeps, KeepsOne))


@pytest.mark.parametrize("function", [Keeps, KeepsOne, WritesOverWhatWasSaved, Own])
def test_a_step_has_a_forward_for_every_backward(function):
    kind = attention(function)
    trial = measured(kind, shape=SHAPE, timer=ScriptedTimer(), direction="step")[kind.name]
    assert trial.outcome is Outcome.OK, trial.reason


def test_a_rehearsal_leaves_the_gradient_of_the_output_as_it_was():
    inputs = make_inputs("attention", SHAPE, 1, CPU, BACKWARD)
    directed = direct(BACKWARD, attention(Own), SHAPE, inputs)
    before = directed.timed()[1]
    directed.rehearse()
    assert all(map(torch.equal, directed.timed()[1], before))


@pytest.mark.parametrize("shape", [Shape(1, 1, 8, 1), Shape(2, 1, 8, 1, dtype="bf16")])
def test_one_token_whose_scores_have_no_gradient_but_noise_is_no_fault(shape):
    trial = measured(Right, shape=shape, timer=ScriptedTimer(), direction="backward")["right"]
    assert trial.outcome is Outcome.OK, trial.reason


class Pair(NamedTuple):
    out: torch.Tensor
    about: str


class NamesItsOutput(Right):
    """A named tuple, of whose fields one is no tensor."""

    name = "names_its_output"

    def call(self, q, k, v):
        return Pair(super().call(q, k, v), "attention")

    def canonical(self, output):
        return (output.out,)


@pytest.mark.parametrize("direction", ["forward", "backward", "step"])
def test_a_named_tuple_stays_one_in_every_direction(direction):
    trial = measured(NamesItsOutput, shape=SHAPE, timer=ScriptedTimer(), direction=direction)[
        "names_its_output"
    ]
    assert trial.outcome is Outcome.OK, trial.reason


class CutOff(Right):
    """A leaf of its own, which asks for a gradient that leads nowhere."""

    name = "cut_off"

    def call(self, q, k, v):
        return torch.nn.Parameter(super().call(q, k, v).detach())


@pytest.mark.parametrize("direction", ["backward", "step"])
def test_an_output_that_wants_a_gradient_and_leads_nowhere_has_no_backward(direction):
    trial = measured(CutOff, shape=SHAPE, timer=ScriptedTimer(), direction=direction)["cut_off"]
    assert trial.outcome is Outcome.UNSUPPORTED
    assert trial.reason == "has no backward: autograd finds no way back from its output to what it was given"


class Bare(Right):
    """`canonical` gives a tensor, which is a sequence, too: of two where the batch is two."""

    name = "bare"

    def canonical(self, output):
        return output


class Nothing(Right):
    name = "nothing"

    def canonical(self, _output):
        return None


@pytest.mark.parametrize("direction", ["forward", "backward", "step"])
def test_what_canonical_gives_must_be_a_tuple(direction):
    trials = measured(Bare, Nothing, shape=SHAPE, timer=ScriptedTimer(), direction=direction)
    for name, what in (("bare", "Tensor"), ("nothing", "NoneType")):
        assert trials[name].outcome is Outcome.INCORRECT
        assert f"`canonical` gave a {what} where a tuple of tensors belongs" in trials[name].reason
