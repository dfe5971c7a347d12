"""The reference's gradients, against PyTorch's autograd through plain formulas in float64, and cases solved by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from variants import blocks
from variants.inputs import Inputs, learned, make_inputs
from variants.reference_gradients import reference_gradients
from variants.shape import Shape
from variants.stage import STAGES

CPU = torch.device("cpu")
WITH_GRADIENTS = [name for name, stage in STAGES.items() if stage.gradients]

shapes = st.builds(
    lambda batch, seq_len, n_head, head_dim, causal, dtype, n_layer: Shape(
        batch, seq_len, n_head * head_dim, n_head, causal, dtype, n_layer
    ),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["fp32", "bf16", "fp16"]),
    st.integers(1, 3),
)


def heads(x, n_head):
    return x.unflatten(-1, (n_head, -1)).transpose(1, 2)


def attend(q, k, v, causal):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


def plain(stage, shape, x, w):
    """The stage's outputs of float64 activations and weights, every step autograd's own."""
    match stage:
        case "qkv":
            return [heads(x[0] @ each, shape.n_head) for each in (w.w_q, w.w_k, w.w_v)]
        case "attention":
            return [attend(*x, shape.causal)]
        case "output":
            return [x[0].transpose(1, 2).flatten(2) @ w.w_o]
        case "sublayer":
            q, k, v = plain("qkv", shape, x, w)
            return plain("output", shape, [attend(q, k, v, shape.causal)], w)
        case "split":
            return [part.transpose(1, 2) for part in x[0].unbind(2)]
        case "stack":
            (y,) = x
            for layer in w.layers:
                y = y + plain("sublayer", shape, [y], layer)[0]
            return [y]


def by_autograd(stage, shape, inputs):
    """The same gradients, of float64 copies."""
    x = [a.double().requires_grad_() for a in inputs.activations]
    w = inputs.weights.changed(lambda one: one.double().requires_grad_())
    given = [d.double() for d in inputs.output_gradients]
    return torch.autograd.grad(plain(stage, shape, x, w), [*x, *learned(stage, w)], given)


def with_gradients(stage, shape, seed=0):
    return make_inputs(stage, shape, seed, CPU, "backward")


@pytest.mark.parametrize("stage", WITH_GRADIENTS)
@given(shape=shapes, seed=st.integers(0, 100))
@settings(max_examples=30)
def test_they_agree_with_autograd(stage, shape, seed):
    shape = shape if STAGES[stage].deep else replace(shape, n_layer=1)
    inputs = with_gradients(stage, shape, seed)
    found, right = reference_gradients(stage, shape, inputs), by_autograd(stage, shape, inputs)
    names = [gradient.name for gradient in found]
    assert len(set(names)) == len(names) == len(right)
    assert names == list(STAGES[stage].gradients) or STAGES[stage].deep
    for own, expected in zip(found, right, strict=True):
        assert own.value.dtype == torch.float64
        torch.testing.assert_close(own.value, expected, rtol=1e-10, atol=1e-11)
        assert own.row_scale is None or own.row_scale.shape == own.value.shape[:-1]


@pytest.mark.parametrize("stage", WITH_GRADIENTS)
@pytest.mark.parametrize("block_bytes", [1, 500, 5000])
def test_the_size_of_a_block_changes_nothing(stage, block_bytes, monkeypatch):
    shape = Shape(batch=3, seq_len=17, d_model=24, n_head=3, n_layer=2 if STAGES[stage].deep else 1)
    inputs = with_gradients(stage, shape)
    at_once = reference_gradients(stage, shape, inputs)
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", block_bytes)
    for whole, blocked in zip(at_once, reference_gradients(stage, shape, inputs), strict=True):
        torch.testing.assert_close(blocked.value, whole.value, rtol=1e-11, atol=1e-12)
        if whole.row_scale is not None:
            torch.testing.assert_close(blocked.row_scale, whole.row_scale, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("block_bytes", [500, 2**28])
def test_a_masked_key_has_no_gradient_from_the_queries_before_it(block_bytes, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", block_bytes)
    shape = Shape(batch=1, seq_len=9, d_model=16, n_head=2)
    inputs = with_gradients("attention", shape)
    inputs.output_gradients[0][..., 5:, :] = 0
    d_q, d_k, d_v = (gradient.value for gradient in reference_gradients("attention", shape, inputs))
    assert not d_q[..., 5:, :].any()
    assert not d_k[..., 5:, :].any()
    assert not d_v[..., 5:, :].any()
    assert d_k[..., :5, :].any(-1).all()


@pytest.mark.parametrize("stage", ["attention", "sublayer"])
def test_with_one_token_queries_and_keys_learn_nothing_and_their_scale_is_what_was_subtracted(stage):
    shape = Shape(batch=2, seq_len=1, d_model=16, n_head=2)
    found = {one.name: one for one in reference_gradients(stage, shape, with_gradients(stage, shape))}
    for name in ("dQ", "dK") if stage == "attention" else ("dW_Q", "dW_K"):
        assert found[name].value.abs().max() < 1e-13
        assert (found[name].row_scale > 1e-2).all()


def test_the_scale_of_a_hand_computed_case():
    # Two keys that weigh alike, of one head of width 1: P = ½, dP = dO · V = (1, 3), dO · O = 2, dS = ½ · (−1, 1).
    one = torch.ones(1, 1, 1, 1)
    q, k, v = one, torch.ones(1, 1, 2, 1), torch.tensor([[[[1.0], [3.0]]]])
    inputs = Inputs((q.expand(1, 1, 2, 1), k, v), None, (torch.tensor([[[[0.0], [1.0]]]]),))
    d_q, d_k, d_v = reference_gradients("attention", Shape(1, 2, 1, 1, causal=False), inputs)
    assert d_k.value.flatten().tolist() == [-0.5, 0.5]
    assert d_v.value.flatten().tolist() == [0.5, 0.5]
    assert d_q.value.flatten().tolist() == [0, 0], (
        "the keys are alike: it does not matter which one is looked at"
    )
    # Without cancelling: P² (dP² + (dO · O)²), for keys one by one, for queries added up.
    assert d_k.row_scale.flatten().tolist() == pytest.approx([math.sqrt((1 + 4) / 4), math.sqrt((9 + 4) / 4)])
    assert d_q.row_scale.flatten().tolist() == pytest.approx([0, math.sqrt((1 + 4 + 9 + 4) / 4)])


def test_a_scale_is_of_the_size_of_an_ordinary_row():
    """It must not hide a wrong row where nothing cancels: most rows are within a factor of two of it."""
    shape = Shape(batch=2, seq_len=64, d_model=96, n_head=3)
    for stage in ("attention", "sublayer"):
        for gradient in reference_gradients(stage, shape, with_gradients(stage, shape)):
            if gradient.row_scale is not None:
                ratio = gradient.row_scale / gradient.value.norm(dim=-1)
                assert 0.5 < ratio.median() < 2, f"{stage} {gradient.name}"


def test_the_gradients_of_a_stack_are_named_layer_by_layer():
    shape = Shape(1, 2, 8, 1, n_layer=2)
    names = [
        gradient.name for gradient in reference_gradients("stack", shape, with_gradients("stack", shape))
    ]
    of_layer = ["dW_Q of layer {}", "dW_K of layer {}", "dW_V of layer {}", "dW_O of layer {}"]
    assert names == ["dX", *(name.format(n) for n in (1, 2) for name in of_layer)]


def test_a_stage_without_gradients_is_told_those_that_have_some():
    shape = Shape(1, 1, 8, 1)
    with pytest.raises(ValueError, match="stage 'mlp' has no reference gradients: qkv, split, attention"):
        reference_gradients("mlp", shape, with_gradients("qkv", shape))


@pytest.mark.gpu
@pytest.mark.parametrize("stage", WITH_GRADIENTS)
def test_on_a_gpu_they_agree_to_float32(stage):
    shape = Shape(batch=3, seq_len=33, d_model=48, n_head=3)
    inputs = with_gradients(stage, shape)
    on_gpu = Inputs(
        tuple(a.cuda() for a in inputs.activations),
        inputs.weights.changed(torch.Tensor.cuda),
        tuple(d.cuda() for d in inputs.output_gradients),
    )
    found = reference_gradients(stage, shape, on_gpu), reference_gradients(stage, shape, inputs)
    for own, right in zip(*found, strict=True):
        assert own.value.is_cuda
        torch.testing.assert_close(own.value.cpu().double(), right.value, rtol=1e-5, atol=1e-5)
