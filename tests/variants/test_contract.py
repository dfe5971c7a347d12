"""What every registered variant must keep, present and future: tried at odd shapes, on this machine's devices."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from harness.output_form import form_fault, note
from harness.poison import poison
from harness.verification import compare, explain
from variants.inputs import Inputs, fresh_activations, make_inputs, torch_dtype
from variants.reference import reference
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES
from variants.variant import Machine, Unsupported, Variant

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
VARIANTS = discover().variants
HEAD_DIMS = (8, 32, 72)
COMPILED = ("compiled", "flex")
"""A compiler takes seconds for every shape."""
N_HEAD = 3


def prepared(variant: type[Variant], shape: Shape, inputs: Inputs) -> Variant:
    """The variant, ready to be called.

    Raises:
        Unsupported: it cannot compute this shape, and says why in one line.
    """
    own = variant(shape)
    try:
        own.prepare(inputs.weights)
    except Unsupported as reason:
        if len(str(reason).splitlines()) != 1:
            pytest.fail(f"{variant.name} is unsupported without a reason of one line: {str(reason)!r}")
        if variant.name in COMPILED and str(reason).startswith("torch.compile fails"):
            pytest.skip(f"{variant_id(variant)}: {reason}")  # as where there is no compiler
        raise
    return own


def verify(own: Variant, shape: Shape, inputs: Inputs, when: str) -> None:
    right = reference(own.stage, shape, inputs)
    given = inputs.arriving(own.arrives)
    poison(shape, inputs.activations[0].device)
    returned = own.call(*given.activations)
    noted, outputs = note(returned), own.canonical(returned)
    assert given.equals(inputs), f"it changes its inputs or weights at {shape}"
    check = compare(outputs, right, shape.dtype, when, shape.n_layer)
    assert check.passed, f"{own.stage}/{own.name} at {shape}: {explain(check)}"
    fault = form_fault(own.stage, noted, outputs)
    assert fault is None, f"{own.stage}/{own.name} at {shape}: {fault}"


def check_contract(variant: type[Variant], shape: Shape, device: torch.device) -> None:
    """A right output, inputs left alone, and a right output again for other inputs in new storage."""
    inputs = make_inputs(variant.stage, shape, 1, device)
    kept = inputs.clone()
    with torch.inference_mode():
        own = prepared(variant, shape, inputs)
        verify(own, shape, inputs, "before")
        assert inputs.equals(kept), f"it changes its inputs or weights at {shape}"
        fresh = Inputs(fresh_activations(variant.stage, shape, 2, device), inputs.weights)
        verify(own, shape, fresh, "after")


def check_odd_shapes(variant: type[Variant], head_dim: int, dtype: str, device: torch.device) -> None:
    """The contract at every odd shape of a head_dim; skipped, with the reason, if the variant supports none."""
    machine = Machine(device.type, torch.cuda.get_device_capability() if device.type == "cuda" else None)
    left_out = variant.requires.missing(machine) or variant.requires.refuses(dtype)
    if left_out:
        pytest.skip(f"{variant_id(variant)} {left_out}")
    reasons = []
    sizes = list(product((1, 7, 129), (1, 3), (True, False)))
    if variant.name in COMPILED:
        sizes = [(129, 3, head_dim != 32)]
    for seq_len, batch, causal in sizes:
        try:
            shape = Shape(batch, seq_len, N_HEAD * head_dim, N_HEAD, causal, dtype, depth(variant))
            check_contract(variant, shape, device)
        except Unsupported as reason:
            reasons.append(str(reason))
    if len(reasons) == len(sizes):
        pytest.skip(f"{variant_id(variant)} at head_dim {head_dim} in {dtype}: {reasons[0]}")


def on(device: str) -> list[type[Variant]]:
    """The variants that may run on such a device at all: others would only fill the list of skips."""
    return [variant for variant in VARIANTS.values() if variant.requires.device in (None, device)]


def depth(variant: type[Variant]) -> int:
    """n_layer of the shapes a variant is tried at."""
    return 3 if STAGES[variant.stage].deep else 1


def variant_id(variant: type[Variant]) -> str:
    return f"{variant.stage}/{variant.name}"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("variant", on("cpu"), ids=variant_id)
def test_on_a_cpu_every_variant_is_right_and_leaves_its_inputs_alone(variant, head_dim, dtype):
    check_odd_shapes(variant, head_dim, dtype, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("variant", on("cuda"), ids=variant_id)
def test_on_a_gpu_every_variant_is_right_and_leaves_its_inputs_alone(variant, head_dim, dtype):
    check_odd_shapes(variant, head_dim, dtype, CUDA)


@pytest.mark.parametrize("variant", on("cpu"), ids=variant_id)
@pytest.mark.parametrize("n_head", [1, 2])
def test_one_head_and_an_even_number_of_heads_are_right_too(variant, n_head):
    shape = Shape(2, 5, 24 * n_head, n_head, n_layer=depth(variant))
    inputs = make_inputs(variant.stage, shape, 1, CPU)
    with torch.inference_mode():
        verify(prepared(variant, shape, inputs), shape, inputs, "before")


@pytest.mark.parametrize("variant", on("cpu"), ids=variant_id)
def test_calls_that_alternate_between_inputs_do_not_disturb_each_other(variant):
    shape = Shape(2, 9, 72, 3, n_layer=depth(variant))
    first = make_inputs(variant.stage, shape, 1, CPU)
    second = Inputs(fresh_activations(variant.stage, shape, 2, CPU), first.weights)
    with torch.inference_mode():
        own = prepared(variant, shape, first)
        for inputs in (first, second, first):
            verify(own, shape, inputs, "before")


@pytest.mark.parametrize("variant", on("cpu"), ids=variant_id)
def test_two_variants_of_one_class_do_not_share_weights(variant):
    shape = Shape(1, 5, 72, 3, n_layer=depth(variant))
    one, other = (make_inputs(variant.stage, shape, seed, CPU) for seed in (1, 2))
    with torch.inference_mode():
        own = prepared(variant, shape, one)
        prepared(variant, shape, other)
        verify(own, shape, one, "before")


@pytest.mark.parametrize("variant", on("cpu"), ids=variant_id)
def test_canonical_only_rearranges_what_call_gave(variant):
    """It must not compute, or it would hide from the clock what a caller pays."""
    shape = Shape(2, 5, 72, 3, n_layer=depth(variant))
    inputs = make_inputs(variant.stage, shape, 1, CPU)
    with torch.inference_mode():
        own = prepared(variant, shape, inputs)
        output = own.call(*inputs.arriving(own.arrives).activations)
        given = torch.cat([t.flatten() for t in leaves(output)])
        canonical = own.canonical(output)
    assert [tuple(t.shape) for t in canonical] == [
        tuple(t.shape) for t in reference(own.stage, shape, inputs)
    ]
    assert all(t.dtype == torch_dtype(shape.dtype) for t in canonical)
    shown = torch.cat([t.flatten() for t in canonical])
    assert torch.isin(shown, given).all()


def leaves(output: object) -> list[torch.Tensor]:
    """The tensors in nested lists and tuples."""
    if isinstance(output, torch.Tensor):
        return [output]
    assert isinstance(output, list | tuple), f"call gave a {type(output).__name__}"
    return [leaf for item in output for leaf in leaves(item)]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=variant_id)
def test_every_variant_states_its_hypothesis_in_one_line(variant):
    assert variant.__doc__, "a class docstring is the hypothesis"
    hypothesis = variant.__doc__.splitlines()[0].strip()
    assert hypothesis.endswith((".", "?")), f"the hypothesis runs over its line: {hypothesis!r}"
