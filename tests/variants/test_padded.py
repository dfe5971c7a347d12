"""Heads padded by us: how wide, and that nothing of the padding shows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.verification import compare
from variants.attention.sdpa_padded import SdpaPadded
from variants.attention.sdpa_padded_pow2 import SdpaPaddedPow2
from variants.inputs import make_inputs
from variants.reference import reference
from variants.shape import Shape
from variants.variant import Unsupported

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("head_dim", "sixteens", "power"), [(1, 16, 1), (16, 16, 16), (17, 32, 32), (72, 80, 128), (96, 96, 128)]
)
def test_a_head_is_padded_to_a_multiple_of_16_or_to_a_power_of_two(head_dim, sixteens, power):
    shape = Shape(1, 2, head_dim, 1)
    assert SdpaPadded(shape).width(head_dim) == sixteens
    assert SdpaPaddedPow2(shape).width(head_dim) == power


@pytest.mark.parametrize(("variant", "head_dim"), [(SdpaPadded, 32), (SdpaPadded, 96), (SdpaPaddedPow2, 64)])
def test_a_head_that_needs_no_padding_is_left_to_sdpa(variant, head_dim):
    shape = Shape(1, 2, head_dim, 1)
    with pytest.raises(Unsupported, match=f"head_dim {head_dim} is as wide as it would be padded"):
        variant(shape).prepare(make_inputs("attention", shape, 1, CPU).weights)


@given(st.integers(1, 80), st.sampled_from([SdpaPadded, SdpaPaddedPow2]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_scale_is_that_of_the_head_dim_before_padding(head_dim, variant, causal):
    shape = Shape(2, 7, 2 * head_dim, 2, causal)
    inputs = make_inputs("attention", shape, 1, CPU)
    own = variant(shape)
    if own.width(head_dim) == head_dim:
        return
    own.prepare(inputs.weights)
    out = own.call(*inputs.activations)
    assert compare((out,), reference("attention", shape, inputs), "fp32", "before").passed
