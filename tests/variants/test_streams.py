"""Heads on streams of their own: right when called, when held, and when replayed from a graph."""

from __future__ import annotations

import pytest
import torch

from harness.verification import compare
from variants.inputs import Inputs, fresh_activations, make_inputs
from variants.reference import reference
from variants.registry import discover
from variants.shape import Shape

pytestmark = pytest.mark.gpu

KEYS = [("qkv", "per_head_streams"), ("attention", "per_head_streams")]
SHAPES = [Shape(2, 129, 96, 3, dtype="bf16"), Shape(1, 512, 48 * 32, 48, dtype="bf16")]
"""PyTorch deals out 32 streams in turn, so that 48 heads share some."""


def check(key, shape: Shape, call, inputs: Inputs, variant) -> None:
    found = variant.canonical(call())
    assert compare(found, reference(key[0], shape, inputs), shape.dtype, "before").passed


@pytest.fixture(params=SHAPES, ids=str)
def shape(request) -> Shape:
    return request.param


@pytest.mark.parametrize("key", KEYS, ids="/".join)
def test_a_graph_of_all_its_streams_computes_what_the_call_does(key, shape):
    from harness.capture import capture

    device = torch.device("cuda")
    with torch.inference_mode():
        inputs = make_inputs(key[0], shape, 1, device)
        variant = discover().variants[key](shape)
        variant.prepare(inputs.weights)
        call = lambda: variant.call(*inputs.activations)  # noqa: E731
        check(key, shape, call, inputs, variant)
        captured = capture(call)
        inputs.copy_from(Inputs(fresh_activations(key[0], shape, 2, device), inputs.weights))
        captured.replay()
        check(key, shape, lambda: captured.output, inputs, variant)


@pytest.mark.parametrize("key", KEYS, ids="/".join)
def test_the_current_stream_waits_for_every_head_and_no_head_begins_before_it(key, shape):
    """The stream is kept busy first, so that a head that did not wait would read what is overwritten later."""
    device = torch.device("cuda")
    with torch.inference_mode():
        inputs = make_inputs(key[0], shape, 1, device)
        fresh = Inputs(fresh_activations(key[0], shape, 2, device), inputs.weights)
        variant = discover().variants[key](shape)
        variant.prepare(inputs.weights)
        call = lambda: variant.call(*inputs.activations)  # noqa: E731
        check(key, shape, call, inputs, variant)
        for _ in range(20):
            torch.cuda._sleep(2_000_000)
            inputs.copy_from(fresh)
            first = [one.clone() for one in variant.canonical(call())]
            torch.cuda._sleep(100_000)
            again = variant.canonical(call())  # in memory that the call before has just given back
            assert all(map(torch.equal, first, again))
        check(key, shape, call, fresh, variant)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.parametrize("key", KEYS, ids="/".join)
def test_it_can_be_timed_in_every_mode(key, shape):
    from harness.cuda_gpu import gpu_timers

    with torch.inference_mode():
        inputs = make_inputs(key[0], shape, 1, torch.device("cuda"))
        variant = discover().variants[key](shape)
        variant.prepare(inputs.weights)
        call = lambda: variant.call(*inputs.activations)  # noqa: E731
        call()
        for timer in gpu_timers():
            sample = timer.bracket(call).sample()
            assert (sample.flag, sample.span_s > 0) == (None, True), timer.mode
