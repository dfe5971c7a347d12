"""Trap: activations arranged for one variant are verified like any others, and what spoils them is found out."""

from __future__ import annotations

import torch

from harness.group import CHANGED
from results.schema import Outcome
from tests.traps.groups import Right, ScriptedTimer, measured
from variants.variant import Variant

given: list[torch.Tensor] = []


class Strided(Right):
    """Right, on views of one buffer."""

    name = "strided"
    arrives = "strided"

    def call(self, q, k, v):
        given.append(k)
        return super().call(q, k, v)


class SpoilsItsBuffer(Right):
    """Right, and leaves other keys in the buffer that it shares with every strided variant."""

    name = "spoils_its_buffer"
    arrives = "strided"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        k.zero_()
        return out


class RemembersTheBuffer(Right):
    """Right for the buffer it saw first, whose output it gives for every other."""

    name = "remembers_the_buffer"
    arrives = "strided"

    def call(self, q, k, v):
        seen = self.__dict__.setdefault("seen", {})
        if q.data_ptr() not in seen:
            seen[q.data_ptr()] = super().call(q, k, v)
        return seen[q.data_ptr()]


class AsIfContiguous(Right):
    """Takes memory as it lies, which is right for contiguous heads alone."""

    name = "as_if_contiguous"
    arrives = "strided"

    def call(self, q, k, v):
        q, k, v = (
            x.as_strided(x.shape, torch.empty(x.shape).stride(), x.storage_offset()) for x in (q, k, v)
        )
        return super().call(q, k, v)


def test_a_strided_variant_is_right_and_its_trial_says_how_its_activations_arrived():
    given.clear()
    trials = measured(Right, Strided, timer=ScriptedTimer())
    assert [(name, trial.outcome, trial.arrives) for name, trial in trials.items()] == [
        ("right", Outcome.OK, "contiguous"),
        ("strided", Outcome.OK, "strided"),
    ]
    assert len(given) > 5
    assert all(not k.is_contiguous() and k.stride(2) == 3 * 32 for k in given)
    assert len({k.data_ptr() for k in given}) == 2, "the buffer that is timed, and the one never seen before"


def test_a_change_of_the_shared_buffer_is_laid_at_the_door_of_who_made_it():
    trials = measured(Right, SpoilsItsBuffer, Strided, timer=ScriptedTimer())
    outcomes = {name: trial.outcome for name, trial in trials.items()}
    assert outcomes == {
        "right": Outcome.OK,
        "strided": Outcome.OK,
        "spoils_its_buffer": Outcome.INCORRECT,
    }
    assert trials["spoils_its_buffer"].reason == CHANGED
    assert trials["spoils_its_buffer"].arrives is None, "nothing was timed"


def test_strided_buffers_get_fresh_values_after_timing_too():
    trial = measured(RemembersTheBuffer, timer=ScriptedTimer())["remembers_the_buffer"]
    assert trial.outcome is Outcome.INCORRECT
    assert trial.reason is not None
    assert trial.reason.startswith("after timing")


def test_who_reads_strided_heads_as_contiguous_ones_is_incorrect():
    trial = measured(AsIfContiguous, timer=ScriptedTimer())["as_if_contiguous"]
    assert trial.outcome is Outcome.INCORRECT


def test_a_variant_that_says_nothing_is_given_contiguous_activations():
    assert Variant.arrives == "contiguous"
