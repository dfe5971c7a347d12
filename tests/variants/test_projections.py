"""All heads in one product of many: what kernels are given, and what comes of it, as far as a CPU can tell."""

from __future__ import annotations

import pytest
import torch

from harness.verification import compare
from variants.inputs import make_inputs
from variants.qkv.fused_qkv_contiguous import FusedQkvContiguous
from variants.qkv.per_head_batched import PerHeadBatched
from variants.qkv.per_head_grouped import PerHeadGrouped
from variants.reference import reference
from variants.shape import Shape
from variants.variant import Unsupported

CPU = torch.device("cpu")
SHAPE = Shape(2, 5, 72, 3, dtype="bf16")


@pytest.mark.parametrize("variant", [PerHeadBatched, PerHeadGrouped], ids=lambda variant: variant.name)
def test_every_head_of_q_k_and_v_is_one_product_of_x_itself_not_of_a_copy(variant, monkeypatch):
    inputs = make_inputs("qkv", SHAPE, 1, CPU)
    own = variant(SHAPE)
    own.prepare(inputs.weights)
    given = []

    def product(a, b):
        given.append((a, b))
        return a @ b

    monkeypatch.setattr("torch.bmm", product)
    monkeypatch.setattr("variants.qkv.per_head_grouped.grouped_mm", product)
    own.call(*inputs.activations)
    ((a, b),) = given
    assert a.data_ptr() == inputs.activations[0].data_ptr()
    assert (tuple(a.shape), a.stride(0), tuple(b.shape)) == ((9, 10, 72), 0, (9, 72, 24))


def test_what_pytorchs_grouped_gemm_gives_is_right():
    inputs = make_inputs("qkv", SHAPE, 1, CPU)
    own = PerHeadGrouped(SHAPE)
    own.prepare(inputs.weights)
    found = own.canonical(own.call(*inputs.activations))
    assert compare(found, reference("qkv", SHAPE, inputs), "bf16", "before").passed


@pytest.mark.parametrize(("d_model", "n_head"), [(12, 3), (20, 1)])
def test_rows_of_no_multiple_of_16_bytes_are_refused_before_a_kernel_sees_them(d_model, n_head):
    shape = Shape(1, 2, d_model, n_head, dtype="bf16")
    with pytest.raises(Unsupported, match="rows of a multiple of 16 bytes"):
        PerHeadGrouped(shape).prepare(make_inputs("qkv", shape, 1, CPU).weights)


def test_contiguous_heads_are_contiguous_each_head_alone():
    inputs = make_inputs("qkv", SHAPE, 1, CPU)
    own = FusedQkvContiguous(SHAPE)
    own.prepare(inputs.weights)
    for heads in own.canonical(own.call(*inputs.activations)):
        assert heads.shape == (2, 3, 5, 24)
        assert heads.is_contiguous()
