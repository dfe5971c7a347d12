"""How activations arrive: the same values in the layout that a variant declares, and nothing copied on the way."""

from __future__ import annotations

import pytest
import torch

from variants.inputs import blank_activations, make_inputs
from variants.layout import merge_heads
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES
from variants.variant import ARRIVALS, Variant

CPU = torch.device("cpu")
SHAPE = Shape(batch=2, seq_len=5, d_model=24, n_head=3, dtype="bf16")
WITH_HEADS = [name for name, stage in STAGES.items() if stage.strided]
TWINS = [variant for variant in discover().variants.values() if variant.name.endswith("_strided")]
LIBRARIES = ("sdpa", "sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "sdpa_math")
OURS = ("per_head_loop", "materialized", "block_per_head", "flash_portable", "flash_hopper")


def pointers(tensors) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


@pytest.mark.parametrize("stage", WITH_HEADS)
def test_strided_activations_hold_the_same_values_in_one_buffer_of_their_own(stage):
    inputs = make_inputs(stage, SHAPE, 1, CPU)
    given = inputs.arriving("strided")
    assert given.equals(inputs)
    assert len(pointers(given.activations)) == 1
    assert not pointers(given.activations) & pointers(inputs.activations)
    assert given.weights is inputs.weights


def test_of_three_tensors_a_head_is_a_stride_and_so_is_which_tensor_it_is_of():
    q, k, v = make_inputs("attention", SHAPE, 1, CPU).arriving("strided").activations
    assert q.stride() == k.stride() == v.stride() == (5 * 3 * 24, 8, 3 * 24, 1)
    assert [k.storage_offset(), v.storage_offset()] == [24, 48]


def test_the_heads_of_one_strided_tensor_merge_without_a_copy():
    (o,) = make_inputs("output", SHAPE, 1, CPU).arriving("strided").activations
    assert merge_heads(o).data_ptr() == o.data_ptr()


@pytest.mark.parametrize("stage", STAGES)
def test_contiguous_activations_are_the_inputs_themselves(stage):
    inputs = make_inputs(stage, SHAPE, 1, CPU)
    assert inputs.arriving("contiguous") is inputs


def test_new_values_are_taken_over_by_strided_activations_and_a_change_of_one_shows():
    inputs, other = (make_inputs("attention", SHAPE, seed, CPU) for seed in (1, 2))
    given = inputs.arriving("strided")
    before = [view.stride() for view in given.activations]
    given.copy_from(other)
    assert given.equals(other)
    assert [view.stride() for view in given.activations] == before
    given.activations[1][0, 0, 0, 0] += 1
    assert not given.equals(other)


@pytest.mark.parametrize(
    ("stage", "arrives"), [(stage, a) for stage in WITH_HEADS for a in ARRIVALS] + [("qkv", "contiguous")]
)
def test_blank_activations_have_the_sizes_strides_and_dtype_of_real_ones(stage, arrives):
    real = make_inputs(stage, SHAPE, 1, CPU).arriving(arrives).activations
    blank = blank_activations(stage, SHAPE, arrives, CPU)
    assert [(b.shape, b.stride(), b.dtype) for b in blank] == [(r.shape, r.stride(), r.dtype) for r in real]
    assert not any(b.any() for b in blank)


def variant_id(variant: type[Variant]) -> str:
    return f"{variant.stage}/{variant.name}"


@pytest.mark.parametrize("variant", TWINS, ids=variant_id)
def test_a_variant_named_strided_differs_from_its_namesake_in_nothing_but_what_arrives(variant):
    twin = discover().variants[variant.stage, variant.name.removesuffix("_strided")]
    assert issubclass(variant, twin)
    assert variant.call is twin.call
    assert (variant.arrives, twin.arrives, variant.aside) == ("strided", "contiguous", True)


def test_every_kernel_of_libraries_and_of_ours_is_measured_on_strided_heads_too():
    assert {twin.name for twin in TWINS} == {f"{name}_strided" for name in (*LIBRARIES, *OURS)}
