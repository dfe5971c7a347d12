"""Variants that change what they are given, variants that are wrong, and inputs that are too easy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from harness.verification import compare
from results.schema import Outcome
from variants.inputs import make_inputs
from variants.reference import reference
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES

from .groups import CPU, SHAPE, Right, ScriptedTimer, measured

CHANGED = "changes its inputs in place: each timed call would see another input"


class CentresKeys(Right):
    """Softmax does not see a vector that is added to all keys: the output stays right, and the input is another."""

    name = "centres_keys"

    def call(self, q, k, v):
        return super().call(q, k.sub_(k.mean(2, keepdim=True)), v)


class ChangesAWeight(Right):
    name = "changes_a_weight"

    def prepare(self, weights):
        self.w_o = weights.w_o

    def call(self, q, k, v):
        self.w_o.mul_(2)
        return super().call(q, k, v)


class SpoilsLater(Right):
    """Leaves its input alone until it is timed."""

    name = "spoils_later"

    def __init__(self, shape):
        super().__init__(shape)
        self.calls = 0

    def call(self, q, k, v):
        self.calls += 1
        out = super().call(q, k, v)
        if self.calls > 3:
            q.zero_()
        return out


class PutsItBack(Right):
    """Doubles V in place and halves it again, exactly."""

    name = "puts_it_back"

    def call(self, q, k, v):
        out = super().call(q, k, v.mul_(2)) * 0.5
        v.mul_(0.5)
        return out


class Witness(Right):
    """Right; notes what it is given."""

    name = "witness"
    seen: ClassVar[list[tuple[torch.Tensor, ...]]] = []

    def call(self, q, k, v):
        self.seen.append(tuple(t.clone() for t in (q, k, v)))
        return super().call(q, k, v)


@pytest.fixture
def seen():
    Witness.seen.clear()
    return Witness.seen


def is_right(variant: Right, inputs) -> bool:
    output = variant.call(*inputs.activations)
    return compare((output,), reference("attention", SHAPE, inputs), SHAPE.dtype, "before").passed


def test_an_in_place_op_as_a_variant_is_refused():
    """A naive tool compares outputs alone, and times a call whose input drifts away or is easier the second time."""
    inputs = make_inputs("attention", SHAPE, 0, CPU)
    kept = inputs.clone()
    naive = CentresKeys(SHAPE)
    assert all(is_right(naive, inputs) for _ in range(3)), "its outputs never show it"
    assert not inputs.equals(kept)
    for variant in (CentresKeys, ChangesAWeight):
        trial = measured(variant)[variant.name]
        assert (trial.outcome, trial.reason) == (Outcome.INCORRECT, CHANGED)
        assert trial.timings == {}


def test_each_timed_call_sees_the_same_input_whatever_its_neighbours_do(seen):
    """A naive tool lets the next variant work on what the last one left."""
    trials = measured(CentresKeys, SpoilsLater, Witness, PutsItBack, timer=ScriptedTimer(), seconds=5)
    assert (trials["witness"].outcome, trials["puts_it_back"].outcome) == (Outcome.OK, Outcome.OK)
    assert (trials["spoils_later"].outcome, trials["spoils_later"].reason) == (Outcome.INCORRECT, CHANGED)
    assert trials["witness"].timings["eager"].used_s
    different = [seen[0]]
    for given in seen:
        if not any(all(map(torch.equal, given, known)) for known in different):
            different.append(given)
    assert len(seen) > 20
    assert len(different) == 2, "the inputs that are timed, and the fresh ones of the last check"


WRONG = discover([Path(__file__).parents[1] / "wrong_variants.py"]).variants
SQUARE = Shape(batch=2, seq_len=16, d_model=48, n_head=3)
"""seq_len is head_dim: an output whose heads are transposed has the right shape."""
OF_THE_ROW = {
    "attention": {
        "wrong_skips_a_head": "before timing",
        "wrong_permutes_heads": "before timing",
        "wrong_transposed_head": "before timing",
        "wrong_nan": "before timing: 1 of 1,536 elements are NaN",
        "wrong_returns_its_input": "before timing",
        "wrong_stale_buffer": "after timing",
    },
    "qkv": {"wrong_reshape_without_transpose": "before timing"},
    "split": {
        "wrong_reshape_without_transpose": "before timing",
        "wrong_swaps_k_and_v": "before timing",
        "wrong_returns_views": "its output is not contiguous as `call` returns it",
        "wrong_copies_untimed": "its output is not contiguous as `call` returns it",
    },
    "stack": {
        "wrong_skips_a_layer": "before timing",
        "wrong_repeats_a_layer": "before timing",
        "wrong_forgets_the_residual": "before timing",
    },
    "output": {"wrong_reshape_without_transpose": "before timing"},
}


RIGHT = {
    "attention": "sdpa",
    "qkv": "fused",
    "output": "concat_matmul",
    "split": "torch_contiguous",
    "stack": "fused_sdpa",
}


@pytest.mark.parametrize("stage", OF_THE_ROW)
def test_a_variant_that_skips_permutes_reshapes_or_returns_nan_its_input_or_a_stale_buffer_is_incorrect(
    stage,
):
    """A naive tool times whatever returns, and ranks the variant that computes least as the fastest."""
    wrong = OF_THE_ROW[stage]
    right = RIGHT[stage]
    shape = replace(SQUARE, n_layer=12 if STAGES[stage].deep else 1)
    trials = measured(*(WRONG[stage, name] for name in (*wrong, right)), shape=shape)
    for name, said in wrong.items():
        trial = trials[name]
        assert trial.outcome is Outcome.INCORRECT, name
        assert trial.reason.startswith(said), f"{name}: {trial.reason}"
        assert trial.timings == {}, "no speed is shown"
    assert trials[right].outcome is Outcome.OK
    assert trials[right].timings["eager"].used_s


NAIVE_CHECKS = {
    "shape and dtype": (
        lambda out, right: out.shape == right.shape,
        {"wrong_skips_a_head", "wrong_permutes_heads", "wrong_transposed_head", "wrong_returns_its_input"},
    ),
    "the sum": (
        lambda out, right: torch.isclose(out.double().sum(), right.sum(), rtol=1e-4),
        {"wrong_permutes_heads", "wrong_transposed_head"},
    ),
    "no difference above a limit": (
        lambda out, right: not (out - right).abs().max() > 1e-3,
        {"wrong_nan"},  # no comparison with NaN is true
    ),
}


@pytest.mark.parametrize("check", NAIVE_CHECKS)
def test_a_weaker_check_lets_some_of_them_pass(check):
    """What naive tools compare: without these, a check as weak as they are would pass the tests above it."""
    passes, fooled_by = NAIVE_CHECKS[check]
    inputs = make_inputs("attention", SQUARE, 0, CPU)
    (right,) = reference("attention", SQUARE, inputs)
    for name in fooled_by:
        output = WRONG["attention", name](SQUARE).call(*inputs.activations)
        assert passes(output, right), name
        assert not compare((output,), (right,), SQUARE.dtype, "before").passed, name


def test_one_check_before_timing_does_not_see_a_stale_buffer():
    """A naive tool checks once."""
    variant = WRONG["attention", "wrong_stale_buffer"](SHAPE)
    variant.prepare(None)
    assert is_right(variant, make_inputs("attention", SHAPE, 0, CPU))
    assert not is_right(variant, make_inputs("attention", SHAPE, 1, CPU))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("stage", STAGES)
def test_inputs_are_never_zeros(stage, dtype):
    """A naive tool measures on zeros or on whatever memory holds: matmuls of zeros draw less power and run faster."""
    shape = Shape(batch=2, seq_len=64, d_model=96, n_head=3, dtype=dtype)
    inputs = make_inputs(stage, shape, 0, CPU)
    for tensor in inputs.tensors():
        assert (tensor == 0).double().mean() < 1e-3
        assert tensor.double().std() > 0.5 * shape.d_model**-0.5


def test_what_a_timed_call_is_given_is_not_zeros_either(seen):
    """A naive tool checks on random numbers and then times on the buffer that it has zeroed or allocated."""
    measured(Witness, timer=ScriptedTimer(), seconds=5)
    assert len(seen) > 20
    assert all((tensor != 0).double().mean() > 0.999 for given in seen for tensor in given)
