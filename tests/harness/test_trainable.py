"""Where a variant may keep its weights for their gradients to be taken: elsewhere it is refused, in words."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.verification import FOUND_IN
from results.schema import Outcome
from tests.traps.groups import ScriptedTimer, measured
from variants.layout import split_heads
from variants.variant import Variant

DIRECTIONS = pytest.mark.parametrize("direction", ["backward", "step"])


class Kept(Variant):
    """Projections as they should be, their weights wherever `keep` puts them and `taken` finds them again."""

    stage = "qkv"

    def prepare(self, weights):
        self.kept = self.keep(weights.w_q, weights.w_k, weights.w_v)

    def call(self, x):
        return tuple(split_heads(x @ w, self.shape.n_head) for w in self.taken(self.kept))

    def keep(self, *weights) -> Any:
        raise NotImplementedError

    def taken(self, kept):
        return kept


def keeping(where: str, keep, taken=lambda kept: kept) -> type[Variant]:
    return type(
        where, (Kept,), {"name": where, "keep": lambda _, *w: keep(*w), "taken": lambda _, k: taken(k)}
    )


@dataclass(frozen=True, slots=True)
class Three:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    def all(self):
        return self.q, self.k, self.v


class Module(torch.nn.Module):
    """Tensors in the places of parameters: a `torch.nn.Parameter` would cut them off from the weights."""

    def __init__(self, *weights) -> None:
        super().__init__()
        self.q, self.k, self.v = weights


class Plain:
    """An object like any other."""

    def __init__(self, *weights) -> None:
        self.weights = weights


class Slotted:
    __slots__ = ("weights",)

    def __init__(self, *weights) -> None:
        self.weights = weights


FOUND = (
    keeping("list", lambda *w: list(w)),
    keeping("tuple_in_a_tuple", lambda q, k, v: (q, (k, v)), lambda kept: (kept[0], *kept[1])),
    keeping("dict", lambda *w: dict(enumerate(w)), dict.values),
    keeping("dataclass", Three, Three.all),
    keeping("module", Module, lambda kept: (kept.q, kept.k, kept.v)),
)
HIDDEN = (
    keeping("closure", lambda *w: lambda: w, lambda kept: kept()),
    keeping("partial", lambda *w: functools.partial(tuple, w), lambda kept: kept()),
    keeping("object", Plain, lambda kept: kept.weights),
    keeping("object_in_a_list", lambda *w: [Plain(*w)], lambda kept: kept[0].weights),
    keeping("slots", Slotted, lambda kept: kept.weights),
    keeping("namespace", lambda *w: SimpleNamespace(weights=w), lambda kept: kept.weights),
    keeping("method", lambda *w: Plain(*w).__getattribute__, lambda kept: kept("weights")),
)
ONE_HIDDEN = keeping("one_hidden", lambda q, k, v: (q, Plain(k), v), lambda t: (t[0], *t[1].weights, t[2]))


@DIRECTIONS
def test_weights_are_found_in_attributes_and_in_what_holds_others_there(direction):
    trials = measured(*FOUND, timer=ScriptedTimer(), direction=direction)
    assert {name: (trial.outcome, trial.reason) for name, trial in trials.items()} == {
        kind.name: (Outcome.OK, None) for kind in FOUND
    }


@DIRECTIONS
def test_a_weight_that_is_found_nowhere_is_told_with_where_it_is_looked_for_and_no_time_is_shown(direction):
    """Otherwise the gradients of the activations alone would be timed, and look fast."""
    trials = measured(*HIDDEN, ONE_HIDDEN, timer=ScriptedTimer(), direction=direction)
    for kind in (*HIDDEN, ONE_HIDDEN):
        trial = trials[kind.name]
        assert (trial.outcome, trial.timings) == (Outcome.INCORRECT, {}), kind.name
        lacks = "dW_K" if kind is ONE_HIDDEN else "dW_Q, dW_K, dW_V"
        assert trial.reason.startswith(f"before timing: gives no {lacks}: autograd must find the way"), (
            kind.name
        )
        assert f"{FOUND_IN}; a closure or another object hides it" in trial.reason
    for way in ("lists", "tuples", "dicts", "dataclasses", "modules"):
        assert way in FOUND_IN


def test_forward_it_does_not_matter_where_they_are():
    trials = measured(*FOUND, *HIDDEN, ONE_HIDDEN, timer=ScriptedTimer())
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}
