"""What a variant leaves behind: the next case is measured in the state of a fresh process."""

from __future__ import annotations

import gc
import os
import random
import sys

import numpy as np
import pytest
import torch

from harness.series import FEWEST_SAMPLES
from harness.state import ATTRIBUTES, SETTINGS, PinnedState
from results.schema import Outcome

from .groups import CPU, SHAPE, Right, ScriptedTimer, measured


def state_now() -> dict[str, object]:
    """All that a case could notice of another one."""
    return {
        **{name: read() for name, (read, _) in SETTINGS.items()},
        **{name: getattr(owner, attribute) for name, (owner, attribute) in ATTRIBUTES.items()},
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "grad": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default_device": str(torch.empty(0).device),
        "denormals": (torch.tensor([1e-40], dtype=torch.float32) * 0.5).item() > 0,
        "profile": sys.getprofile(),
        "affinity": frozenset(os.sched_getaffinity(0)),
        "torch_seed": hash(bytes(torch.get_rng_state().tolist())),
        "python_seed": hash(random.getstate()),
        "numpy_seed": hash(np.random.get_state()[1].tobytes()),
    }


ENTERED: list[torch.inference_mode] = []
"""Kept for ever: the end of one that is let go would set the mode again."""


def end_inference_mode() -> None:
    ENTERED.append(torch.inference_mode(mode=False))
    ENTERED[-1].__enter__()


def unsettle() -> None:
    """Leave everything changed that is process-wide."""
    end_inference_mode()
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_autocast_enabled("cpu", True)
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_fp16_accumulation = True
    torch.backends.mkldnn.enabled = False
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.setprofile(lambda *_: None)
    torch.default_generator.manual_seed(random.getrandbits(40))
    np.random.seed(int(np.random.randint(1 << 30)))
    gc.disable()


@pytest.fixture(autouse=True)
def as_it_was():
    """The tests beside these must not notice either."""
    kept, random_state = PinnedState(CPU), random.getstate()
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    precision, grad, affinity = (
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        os.sched_getaffinity(0),
    )
    yield
    with torch.inference_mode():
        kept.restore(SHAPE.dtype)
    torch.set_autocast_enabled(
        "cpu", False
    )  # the end of inference mode brings back what stood at its beginning
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(grad)
    os.sched_setaffinity(0, affinity)
    random.setstate(random_state)
    torch.set_rng_state(torch_state)
    np.random.set_state(numpy_state)


class Unsettling(Right):
    """Right, and rude."""

    name = "unsettling"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        unsettle()
        return out


class Witness(Right):
    """Right; notes the state in which it is called."""

    name = "witness"
    noted: list[dict[str, object]] = []  # noqa: RUF012 - one list for every instance

    def call(self, q, k, v):
        self.noted.append(state_now())
        return super().call(q, k, v)


def test_state_that_a_variant_leaves_behind_is_restored_before_the_next_case():
    """A naive tool measures the next variant with the flags, threads, seeds and modes that the last one set."""
    with torch.inference_mode():
        fresh = PinnedState(CPU)
        fresh.restore(SHAPE.dtype)
        calm = state_now()
        unsettle()
        sys.setprofile(None)
        torch.set_default_device(None)
        changed = {name for name, value in state_now().items() if value != calm[name]}
        fresh.restore(SHAPE.dtype)
        assert state_now() == calm
    assert {
        "grad",
        "inference_mode",
        "default_dtype",
        "mkldnn",
        "torch_seed",
        "numpy_seed",
        "denormals",
    } <= changed
    Witness.noted.clear()
    trials = measured(Unsettling, Witness, timer=ScriptedTimer(), seconds=5)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}, trials["unsettling"].reason
    assert len(Witness.noted) > FEWEST_SAMPLES
    for noted in Witness.noted:
        assert noted == calm


def test_a_variant_that_ends_inference_mode_takes_nobody_along():
    """A naive tool cannot write into its own inputs any more, and every case after this one crashes."""
    with torch.inference_mode():
        inputs = torch.ones(3)
        end_inference_mode()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            inputs.add_(0)
        state = PinnedState(CPU)
        for _ in range(3):  # over and over: an earlier return must not end the later one
            end_inference_mode()
            state.restore("fp32")
            inputs.add_(1)
    assert inputs.tolist() == [4.0] * 3
    assert not torch.is_inference_mode_enabled()


def test_recording_gradients_and_inference_take_turns_whatever_a_variant_ends():
    """A naive tool leaves gradients on for the next case, or cannot write into inputs of the mode before."""
    with torch.inference_mode():
        state = PinnedState(CPU)
        for _ in range(3):
            state.restore("fp32", gradients=True)
            leaf = torch.ones(2, requires_grad=True)
            assert torch.autograd.grad((leaf * leaf).sum(), leaf)[0].tolist() == [2, 2]
            torch.set_grad_enabled(False)
            state.restore("fp32", gradients=True)
            assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (True, False)
            state.restore("fp32")
            assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (False, True)
            end_inference_mode()
            state.restore("fp32", gradients=True)
            state.infer()
            assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (False, True)
            torch.ones(3).add_(1)
    assert not torch.is_inference_mode_enabled()


def test_random_numbers_of_a_variant_do_not_depend_on_who_drew_before():
    """A naive tool seeds once: what a case draws then depends on the order in which the cases were shuffled."""
    state = PinnedState(CPU)

    def drawn() -> tuple[object, ...]:
        with torch.inference_mode():
            state.restore("fp32")
            return torch.rand(3).tolist(), random.random(), np.random.rand(2).tolist()

    first = drawn()
    torch.manual_seed(12345)
    torch.rand(100), random.random(), np.random.rand(7)
    assert drawn() == first


class Collecting(Right):
    """Switches the garbage collector on in its call, to tidy up after itself."""

    name = "collecting"

    def call(self, q, k, v):
        gc.enable()
        gc.collect(0)
        return super().call(q, k, v)


class NeverCollecting(Right):
    """Switches it off for good, to be faster."""

    name = "never_collecting"

    def prepare(self, weights):
        gc.disable()

    def call(self, q, k, v):
        gc.disable()
        return super().call(q, k, v)


class NotesCollector(Right):
    name = "notes_collector"


class WatchingTimer(ScriptedTimer):
    """Notes, before each sample of that variant, whether the garbage collector is on."""

    def __init__(self) -> None:
        self.was_on: list[bool] = []

    def bracket(self, call):
        bracket = super().bracket(call)
        sample = bracket.sample

        def watched():
            if isinstance(call.func.__self__, NotesCollector):
                self.was_on.append(gc.isenabled())
            return sample()

        bracket.sample = watched
        return bracket


def test_the_garbage_collector_is_off_in_every_block_whatever_a_variant_does_with_it_and_on_again_after():
    """A naive tool switches it off once; one call of one variant later it runs in everybody's samples."""
    timer = WatchingTimer()
    trials = measured(Collecting, NeverCollecting, NotesCollector, timer=timer, seconds=5)
    assert {trial.outcome for trial in trials.values()} == {Outcome.OK}
    assert len(timer.was_on) > FEWEST_SAMPLES
    assert not any(timer.was_on)
    assert gc.isenabled()
