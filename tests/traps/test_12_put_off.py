"""Variants that put work off from `call`, which is timed, to `canonical`, which is not."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.utils._pytree import tree_map

from harness.output_form import NOT_CONTIGUOUS, UNTIMED, Returned, form_fault, note, only_rearranges
from results.schema import Outcome
from variants.shape import Shape
from variants.variant import Variant

from .groups import Right, ScriptedTimer, measured

SHAPE = Shape(batch=2, seq_len=16, d_model=48, n_head=3)


class WritesIntoItsOutput(Right):
    """Returns memory, which `canonical` fills: afterwards both hold the right values."""

    name = "writes_into_its_output"
    said = UNTIMED

    def call(self, q, k, v):
        self.given = q, k, v
        return torch.empty_like(q)

    def canonical(self, output):
        output.copy_(super().call(*self.given))
        return (output,)


class WaitsForAThread(Right):
    """Another thread computes; `canonical` lets it, and waits."""

    name = "waits_for_a_thread"
    said = UNTIMED

    def call(self, q, k, v):
        out = torch.zeros_like(q)
        self.may = threading.Event()
        self.thread = threading.Thread(target=self.work, args=(out, q, k, v))
        self.thread.start()
        return out

    @torch.inference_mode()
    def work(self, out, *given):
        self.may.wait()
        out.copy_(super().call(*given))

    def canonical(self, output):
        self.may.set()
        self.thread.join()
        return (output,)


class Later(torch.Tensor):
    """Computes when someone looks."""

    @staticmethod
    def __new__(cls, make, like):
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device)

    def __init__(self, make, _like):
        self.make = make

    @classmethod
    def __torch_dispatch__(cls, function, _types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda x: x.make() if isinstance(x, Later) else x, (args, kwargs or {}))
        return function(*args, **kwargs)


class ComputesWhenLookedAt(Right):
    name = "computes_when_looked_at"
    said = "`call` gave a Later: a plain tensor would do, for a subclass may put off its work"

    def call(self, q, k, v):
        right = super().call
        return Later(lambda: right(q, k, v), q)


class FillsAList(Variant):
    """Views, which `canonical` replaces by copies in the very list that `call` returned."""

    stage = "split"
    name = "fills_a_list"
    said = NOT_CONTIGUOUS

    def call(self, qkv):
        return [one.transpose(1, 2) for one in qkv.unbind(2)]

    def canonical(self, output):
        output[:] = [one.contiguous() for one in output]
        return tuple(output)


class MovesItsOutput(FillsAList):
    """The same tensors, which `canonical` moves to memory of their own."""

    name = "moves_its_output"

    def canonical(self, output):
        for one in output:
            one.data = one.contiguous()
        return tuple(output)


@pytest.mark.parametrize(
    "kind", [WritesIntoItsOutput, WaitsForAThread, ComputesWhenLookedAt, FillsAList, MovesItsOutput]
)
def test_work_that_is_put_off_until_no_clock_runs_is_refused(kind):
    """A naive tool looks at the output when `canonical` is done, and times a call that does nothing."""
    variant = measured(kind, shape=SHAPE, timer=ScriptedTimer())[kind.name]
    assert (variant.outcome, variant.timings) == (Outcome.INCORRECT, {})
    assert variant.reason == kind.said


@pytest.mark.parametrize("kind", [FillsAList, MovesItsOutput])
def test_a_split_is_refused_backwards_too(kind):
    variant = measured(kind, shape=SHAPE, timer=ScriptedTimer(), direction="backward")[kind.name]
    assert variant.outcome is Outcome.INCORRECT
    assert kind.said in variant.reason


@pytest.mark.parametrize("kind", [WritesIntoItsOutput, FillsAList, MovesItsOutput])
def test_noted_when_canonical_is_done_they_would_pass(kind):
    own = kind(SHAPE)
    given = torch.randn(2, 16, 3, 3, 16)
    output = own.call(*([given] if own.stage == "split" else given.permute(2, 0, 3, 1, 4)))
    early = note(output)
    canonical = own.canonical(output)
    assert form_fault(own.stage, note(output), canonical) is None
    assert form_fault(own.stage, early, canonical) == kind.said


def test_a_relayout_is_told_from_a_computation():
    heads = [torch.randn(2, 3, 4) for _ in range(5)]
    noted = note(heads)
    assert only_rearranges(noted, (torch.stack(heads, 1),))
    assert only_rearranges(note((heads, heads[0].half())), (torch.cat(heads).mT, heads[0].half()))
    assert not only_rearranges(noted, (torch.stack(heads, 1) * 2,))
    assert not only_rearranges(noted, (torch.stack(heads[:-1], 1),))


@pytest.mark.parametrize(
    ("output", "what"), [({"o": torch.ones(1)}, "dict"), (None, "NoneType"), (iter([]), "list_iterator")]
)
def test_what_holds_no_tensor_where_one_is_looked_for_is_named(output, what):
    said = f"`call` gave a {what}: a tensor, or tensors in tuples and lists, would do"
    assert note(output).fault == said
    assert form_fault("attention", note(output), (torch.ones(1),)) == said


@pytest.mark.parametrize("odd", [torch.ones(2).to_sparse(), torch.ones(2, device="meta"), torch.ones(2) > 0])
def test_what_is_no_output_of_any_stage_can_be_noted(odd):
    assert isinstance(note(odd), Returned)
