"""Every deliberately wrong variant is caught, by the same steps a run takes; the right one is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.output_form import form_fault, note
from harness.poison import poison
from harness.verification import compare
from variants.inputs import Inputs, fresh_activations, make_inputs
from variants.reference import reference
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES

WRONG = {
    key: variant
    for key, variant in discover([Path(__file__).parents[1] / "wrong_variants.py"]).variants.items()
    if key[1].startswith("wrong_")
}
TIMED_CALLS = 5
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

# Wrong only where it matters when it is checked; all others are caught at the first comparison.
CAUGHT_LATER = {"wrong_stale_buffer": "after", "wrong_later": "after", "wrong_changes_its_input": "inputs"}


def caught(variant: type, shape: Shape, device: torch.device) -> str | None:
    """Where a run would catch the variant: `before` timing, by its `inputs`, `after` timing, or None."""
    inputs = make_inputs(variant.stage, shape, 1, device)
    kept = [a.clone() for a in inputs.activations]
    own = variant(shape)
    with torch.inference_mode():
        own.prepare(inputs.weights)
        if not passes(own, shape, inputs, "before"):
            return "before"
        if not all(map(torch.equal, inputs.activations, kept)):
            return "inputs"
        for _ in range(TIMED_CALLS):
            own.call(*inputs.activations)
        fresh = Inputs(fresh_activations(variant.stage, shape, 2, device), inputs.weights)
        return None if passes(own, shape, fresh, "after") else "after"


def passes(own, shape: Shape, inputs: Inputs, when: str) -> bool:
    expected = reference(own.stage, shape, inputs)
    poison(shape, inputs.activations[0].device)
    returned = own.call(*inputs.activations)
    noted, outputs = note(returned), own.canonical(returned)
    right = compare(outputs, expected, shape.dtype, when, shape.n_layer).passed
    return right and form_fault(own.stage, noted, outputs) is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(("seq_len", "head_dim"), [(129, 32), (32, 32), (7, 8)])
@pytest.mark.parametrize("key", WRONG, ids="/".join)
def test_a_wrong_variant_is_caught(key, seq_len, head_dim, dtype, device):
    n_layer = 12 if STAGES[key[0]].deep else 1
    shape = Shape(2, seq_len, 3 * head_dim, 3, causal=True, dtype=dtype, n_layer=n_layer)
    assert caught(WRONG[key], shape, torch.device(device)) == CAUGHT_LATER.get(key[1], "before")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["wrong_skips_a_layer", "wrong_repeats_a_layer"])
def test_one_wrong_layer_of_forty_eight_is_caught_under_a_deep_stacks_limits(name, device):
    shape = Shape(1, 256, 96, 3, dtype="bf16", n_layer=48)
    assert caught(WRONG["stack", name], shape, torch.device(device)) == "before"


@pytest.mark.parametrize("device", DEVICES)
def test_a_right_stack_of_forty_eight_layers_is_not(device):
    shape = Shape(1, 256, 96, 3, dtype="bf16", n_layer=48)
    assert caught(discover().variants["stack", "fused_sdpa"], shape, torch.device(device)) is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "key",
    [("attention", "sdpa"), ("qkv", "fused"), ("output", "concat_matmul"), ("split", "torch_copy")],
    ids="/".join,
)
def test_a_right_variant_is_not(key, device):
    shape = Shape(2, 32, 96, 3, dtype="bf16")
    assert caught(discover().variants[key], shape, torch.device(device)) is None


@pytest.mark.parametrize("device", DEVICES)
def test_one_tile_of_384_heads_passes_the_whole_tensors_limit_and_fails_the_rows(device):
    """With Q = 0 all scores are equal, so that the right output is the running mean of V: no reference to wait for."""
    shape = Shape(batch=32, seq_len=1024, d_model=96, n_head=12, dtype="bf16")
    q, k, v = make_inputs("attention", shape, 1, torch.device(device)).activations
    position = torch.arange(1, 1025, device=device)[:, None]
    mean = v.double().cumsum(2) / position
    with torch.inference_mode():
        output = WRONG["attention", "wrong_zeroes_a_tile"](shape).call(torch.zeros_like(q), k, v)
        check = compare((output,), (mean,), "bf16", "before")
    assert check.relative_error < check.limit
    assert check.worst_row_error == pytest.approx(1)
    assert not check.passed


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 2, 8, 1),
        Shape(1, 7, 16, 2),
        Shape(1, 129, 96, 3),
        Shape(2, 512, 768, 12),
    ],
    ids=str,
)
def test_a_row_left_unwritten_shows_though_an_earlier_call_left_its_right_values_there(shape, device):
    inputs = make_inputs("attention", shape, 1, torch.device(device))
    variant = WRONG["attention", "wrong_leaves_a_row_unwritten"](shape)
    with torch.inference_mode():
        expected = reference("attention", shape, inputs)
        caught = 0
        for _ in range(5):
            right = expected[0].float().clone()
            del right  # its memory is the allocator's first choice for what comes next
            poison(shape, torch.device(device))
            caught += not compare((variant.call(*inputs.activations),), expected, "fp32", "before").passed
    assert caught >= 4  # which block an allocator hands out is its own affair
