"""Backward and step: gradients that are wrong though the output is right, and modes that would spoil a neighbour."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from harness.directed import SECOND, direct
from results.schema import Outcome
from variants.inputs import make_inputs
from variants.reference import reference
from variants.registry import discover
from variants.shape import Shape

from .groups import CPU, Right, ScriptedTimer, measured

SHAPE = Shape(batch=2, seq_len=16, d_model=48, n_head=3)
WRONG = discover([Path(__file__).parents[1] / "wrong_gradients.py"]).variants
MISSING = (
    "autograd must find the way through `call`, and through `prepare` to what it keeps in attributes, or in lists, "
    "tuples, dicts, dataclasses and modules there; a closure or another object hides it"
)
SAID = {
    "attention": {
        "wrong_detaches_values": f"before timing: gives no dV: {MISSING}",
        "wrong_scales_queries": "before timing: worst row off by 5 % (limit 0.004 %), whole tensor off by",
        "wrong_forgets_the_mask_backwards": "before timing: worst row off by",
        "wrong_loses_a_row": "before timing: worst row off by 100 %",
    },
    "qkv": {
        "wrong_detaches_an_output": "autograd finds no way back from 1 of the 3 tensors of its output",
        "wrong_learns_nothing": "before timing: worst row off by 100 %",
        "wrong_detaches_a_weight": f"before timing: gives no dW_K: {MISSING}",
        "wrong_cuts_its_weights_off": f"before timing: gives no dW_Q, dW_K, dW_V: {MISSING}",
        "wrong_copies_a_weight": "learns 9,216 elements where the stage's weights have 6,912: adding the gradients",
        "wrong_stale_gradient": "after timing: worst row off by",
    },
}
WORST = {
    "wrong_scales_queries": "dQ",
    "wrong_forgets_the_mask_backwards": "dK",
    "wrong_loses_a_row": "dV",
    "wrong_learns_nothing": "dW_V",
    "wrong_stale_gradient": "dX",
}


@pytest.mark.parametrize("direction", ["backward", "step"])
@pytest.mark.parametrize("stage", SAID)
def test_a_wrong_gradient_is_incorrect_and_no_speed_is_shown(stage, direction):
    """A naive tool checks the output, which is right, and ranks the backward that computes least as the fastest."""
    right = {"attention": "sdpa", "qkv": "fused"}[stage]
    trials = measured(
        *(WRONG[stage, name] for name in (*SAID[stage], right)), shape=SHAPE, direction=direction
    )
    for name, said in SAID[stage].items():
        trial = trials[name]
        assert (trial.outcome, trial.timings) == (Outcome.INCORRECT, {}), name
        if name == "wrong_stale_gradient" and direction == "backward":
            assert trial.reason == SECOND
            continue
        assert trial.reason.startswith(said), f"{name}: {trial.reason}"
        if name in WORST:
            assert trial.reason.endswith(f"of its gradients {WORST[name]} is the worst"), trial.reason
    assert trials[right].outcome is Outcome.OK, trials[right].reason
    assert trials[right].timings["eager"].used_s


@pytest.mark.parametrize("direction", ["backward", "step"])
def test_a_call_that_autograd_does_not_see_at_all_has_no_backward(direction):
    """As a kernel of one's own, which does not say so."""
    kind = WRONG["attention", "wrong_detaches_its_output"]
    trial = measured(kind, shape=SHAPE, direction=direction)[kind.name]
    assert (trial.outcome, trial.timings) == (Outcome.UNSUPPORTED, {})
    assert trial.reason == "has no backward: autograd finds no way back from its output"


@pytest.mark.parametrize("stage", SAID)
def test_forward_all_of_them_are_right(stage):
    """What is wrong of them shows nowhere but in the gradients."""
    trials = measured(*(WRONG[stage, name] for name in SAID[stage]), shape=SHAPE)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}


def test_a_check_of_the_whole_tensor_alone_would_let_a_lost_row_pass():
    """In bf16, of many rows: dV of the last token is the smallest of all, for one query alone looks at it."""
    shape = Shape(batch=4, seq_len=128, d_model=48, n_head=3, dtype="bf16")
    inputs = make_inputs("attention", shape, 0, CPU, "backward")
    from harness.directed import expect
    from harness.verification import checks

    directed = direct("backward", WRONG["attention", "wrong_loses_a_row"], shape, inputs)
    expected = expect("backward", "attention", shape, inputs)
    _, check = checks(directed.found(directed.timed()), expected, shape, "before")
    assert not check.passed
    assert check.worst_row_error == pytest.approx(1)
    assert check.relative_error < 0.05


def test_the_gradient_of_the_output_is_random():
    """A naive tool calls `.sum().backward()`: of a softmax, whose rows sum to one, ones would be easy."""
    inputs = make_inputs("qkv", SHAPE, 0, CPU, "backward")
    for d in inputs.output_gradients:
        assert d.std() == pytest.approx(1, rel=0.2)
        assert (d == 0).double().mean() < 1e-3


class ChangesItsInput(Right):
    """In place, on what gradients are wanted of."""

    name = "changes_its_input"

    def call(self, q, k, v):
        return super().call(q.mul_(2), k, v)


class Witness(Right):
    """Notes the mode in which it is called."""

    name = "witness"
    noted: ClassVar[set[tuple[bool, bool, bool]]] = set()

    def call(self, q, k, v):
        self.noted.add((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), q.requires_grad))
        return super().call(q, k, v)


@pytest.mark.parametrize("direction", ["backward", "step"])
def test_an_in_place_op_on_an_input_fails_and_its_neighbour_is_right(direction):
    trials = measured(ChangesItsInput, Right, timer=ScriptedTimer(), seconds=5, direction=direction)
    assert trials["changes_its_input"].outcome is Outcome.CRASHED
    assert "in-place operation" in trials["changes_its_input"].reason
    assert trials["right"].outcome is Outcome.OK, trials["right"].reason


@pytest.mark.parametrize(
    ("direction", "noted"),
    [("forward", (False, True, False)), ("backward", (True, False, True)), ("step", (True, False, True))],
)
def test_gradients_are_recorded_where_they_are_wanted_and_nowhere_else(direction, noted):
    """A naive tool times the forward with autograd's records, or leaves them on for the next case."""
    Witness.noted.clear()
    with torch.inference_mode():
        trials = measured(Witness, timer=ScriptedTimer(), seconds=5, direction=direction)
        assert torch.is_inference_mode_enabled()
    assert trials["witness"].outcome is Outcome.OK, trials["witness"].reason
    assert Witness.noted == {noted}
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


class CountsForwards(Right):
    """Notes how often it is called."""

    name = "counts_forwards"
    calls = 0

    def call(self, q, k, v):
        type(self).calls += 1
        return super().call(q, k, v)


def test_the_forward_is_timed_in_a_step_and_not_in_a_backward():
    """A naive tool calls forward and backward, and subtracts a forward that was measured elsewhere."""
    calls = {}
    for direction in ("backward", "step"):
        inputs = make_inputs("attention", SHAPE, 0, CPU, direction)
        directed = direct(direction, CountsForwards, SHAPE, inputs)
        before = CountsForwards.calls
        for _ in range(5):
            directed.timed()
        calls[direction] = CountsForwards.calls - before
    assert calls == {"backward": 0, "step": 5}
    assert torch.allclose(directed.timed()[0].double(), reference("attention", SHAPE, inputs)[0], atol=1e-5)


def test_work_and_least_bytes_are_those_of_the_direction():
    trials = {
        direction: measured(Right, shape=SHAPE, direction=direction)["right"]
        for direction in ("forward", "backward", "step")
    }
    forward = trials["forward"].useful_flops
    assert [trial.useful_flops for trial in trials.values()] == [forward, 2 * forward, 3 * forward]
    activation = 2 * 16 * 48 * 4
    # Q, K, V → O; Q, K, V, dO → dQ, dK, dV; both.
    assert [trial.least_bytes for trial in trials.values()] == [
        4 * activation,
        7 * activation,
        8 * activation,
    ]


class SavesALot(Right):
    """Its forward leaves a witness that lives as long as what autograd saved of it."""

    name = "saves_a_lot"
    alive: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def call(self, q, k, v):
        out = super().call(q, k, v)
        if out.requires_grad:
            self.alive.add(out)
        return out


class Neighbour(SavesALot):
    """Notes how many forwards are kept while it is timed."""

    name = "neighbour"
    most: ClassVar[list[int]] = []

    def call(self, q, k, v):
        out = super().call(q, k, v)
        self.most.append(len(self.alive))
        return out


def test_what_one_backward_keeps_is_not_in_its_neighbours_memory():
    """A naive tool keeps every variant's forward: a small GPU then runs out of memory for others' sake."""
    trials = measured(SavesALot, Neighbour, timer=ScriptedTimer(), seconds=5, direction="backward")
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}
    assert len(Neighbour.most) > 5
    assert max(Neighbour.most) == 1
    assert not SavesALot.alive


class InItsOwnForm(Right):
    """Right values in a form that is none of the stage's."""

    def call(self, q, k, v):
        return self.formed(super().call(q, k, v))


class Nothing(InItsOwnForm):
    name = "nothing"

    def formed(self, out):
        return None


class Integers(InItsOwnForm):
    name = "integers"

    def formed(self, out):
        return out.int()


class Wide(InItsOwnForm):
    name = "wide"

    def formed(self, out):
        return out.double()


class Named(InItsOwnForm):
    name = "named"

    def formed(self, out):
        return {"o": out}

    def canonical(self, output):
        return (output["o"],)


class WithMore(InItsOwnForm):
    name = "with_more"

    def formed(self, out):
        return out, out.detach().sum(-1), None

    def canonical(self, output):
        return output[:1]


class MergesHeads(InItsOwnForm):
    name = "merges_heads"

    def formed(self, out):
        return out.flatten(2)


FORMS = {
    Nothing: "gave a NoneType where a tensor belongs",
    Integers: "gave torch.int32 where torch.float32 belongs",
    Wide: "gave torch.float64 where torch.float32 belongs",
    Named: "`call` gave a dict: a tensor, or tensors in tuples and lists, would do",
    WithMore: "`canonical` gives other values than `call` returned",
    MergesHeads: "gave the shape [2, 3, 256] where [2, 3, 16, 16] belongs",
}


@pytest.mark.parametrize("direction", ["forward", "backward", "step"])
def test_an_output_of_another_form_is_incorrect_in_the_same_words_in_every_direction(direction):
    """A naive tool hands it to autograd, which fails in words of its own, or gives gradients of another arithmetic."""
    trials = measured(*FORMS, shape=SHAPE, direction=direction)
    for kind, said in FORMS.items():
        assert trials[kind.name].outcome is Outcome.INCORRECT, kind.name
        assert said in trials[kind.name].reason, trials[kind.name].reason


@pytest.mark.parametrize("direction", ["backward", "step"])
def test_a_split_that_moves_nothing_has_no_gradient_either(direction):
    wrong = discover([Path(__file__).parents[1] / "wrong_variants.py"]).variants
    names = ("wrong_returns_views", "wrong_copies_untimed")
    trials = measured(*(wrong["split", name] for name in names), shape=SHAPE, direction=direction)
    for name in names:
        assert trials[name].outcome is Outcome.INCORRECT
        assert "not contiguous as `call` returns it" in trials[name].reason


class PreparesAnew(Right):
    """Keeps one tensor more every time."""

    name = "prepares_anew"
    times = 0

    def prepare(self, weights):
        type(self).times += 1
        self.kept = [weights.w_q.clone() for _ in range(self.times)]


def test_a_prepare_that_keeps_other_tensors_the_second_time_is_told_so():
    trial = measured(PreparesAnew, shape=SHAPE, direction="step")["prepares_anew"]
    assert trial.outcome is Outcome.CRASHED
    assert "`prepare` kept 1 tensors the first time and 2 the second" in trial.reason


class OffByAFactor(Right):
    """2 % too much of one gradient: as much as bf16 may be off by at random."""

    def call(self, *activations):
        given = [x * (1 + GAIN) - x.detach() * GAIN if n == self.at else x for n, x in enumerate(activations)]
        return super().call(*given)


GAIN = 0.02
FACTORS = {
    f"factor_of_{name}": type(f"Of{name}", (OffByAFactor,), {"name": f"factor_of_{name}", "at": at})
    for at, name in enumerate(("dQ", "dK", "dV"))
}


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("direction", ["backward", "step"])
def test_a_gradient_that_is_two_percent_too_large_throughout_is_no_noise_in_any_dtype(direction, dtype):
    shape = Shape(batch=2, seq_len=64, d_model=128, n_head=2, dtype=dtype)
    trials = measured(*FACTORS.values(), Right, shape=shape, direction=direction)
    assert trials.pop("right").outcome is Outcome.OK
    for trial in trials.values():
        assert trial.outcome is Outcome.INCORRECT, trial.case.variant
