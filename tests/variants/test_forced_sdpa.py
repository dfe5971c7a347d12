"""A backend that refuses a shape does so in one line, in PyTorch's own words."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend

from variants.attention._forced_sdpa import ForcedSdpa, refusal_reason
from variants.inputs import make_inputs
from variants.shape import Shape
from variants.variant import Unsupported

SHAPE = Shape(1, 4, 16, 2)


class ForcedMath(ForcedSdpa):
    backend = SDPBackend.MATH


class ForcedEfficient(ForcedSdpa):
    backend = SDPBackend.EFFICIENT_ATTENTION


def test_the_reasons_of_other_backends_and_the_headings_are_left_out():
    warned = [
        "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:1.)",
        "Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils.cpp:2.)",
        "Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:3.)",
        "Expected query, key and value to all be of\n dtype: {Half, BFloat16}. (Triggered internally at x:4.)",
    ]
    assert refusal_reason("FLASH_ATTENTION", warned, "No available kernel. Aborting execution.") == (
        "FLASH_ATTENTION refuses this shape: Expected query, key and value to all be of dtype: {Half, BFloat16}."
    )


def test_without_a_warning_the_error_is_the_reason():
    reason = refusal_reason("CUDNN_ATTENTION", [], "cuDNN Frontend error: No valid plan\nmore")
    assert reason == "CUDNN_ATTENTION refuses this shape: cuDNN Frontend error: No valid plan"


def test_a_refusal_is_unsupported():
    # A CPU has no memory-efficient kernel.
    weights = make_inputs("attention", SHAPE, 0, torch.device("cpu")).weights
    with pytest.raises(Unsupported, match="EFFICIENT_ATTENTION refuses this shape: "):
        ForcedEfficient(SHAPE).prepare(weights)


def test_any_other_error_is_a_fault_and_stays_one(monkeypatch):
    def fail(*_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    weights = make_inputs("attention", SHAPE, 0, torch.device("cpu")).weights
    monkeypatch.setattr(ForcedMath, "call", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        ForcedMath(SHAPE).prepare(weights)


def test_the_backends_pytorch_may_choose_are_as_before_after_a_call():
    inputs = make_inputs("attention", SHAPE, 0, torch.device("cpu"))
    before = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()
    variant = ForcedMath(SHAPE)
    variant.prepare(inputs.weights)
    variant.call(*inputs.activations)
    assert (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    ) == before
