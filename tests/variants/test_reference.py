"""The reference, against a naive implementation that shares nothing with it, and cases solved by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from variants import blocks
from variants.inputs import Inputs, Weights, make_inputs, stacked
from variants.reference import reference
from variants.shape import Shape
from variants.stage import STAGES

CPU = torch.device("cpu")

shapes = st.builds(
    lambda batch, seq_len, n_head, head_dim, causal, dtype: Shape(
        batch, seq_len, n_head * head_dim, n_head, causal, dtype
    ),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["fp32", "bf16", "fp16"]),
)


def naive_attention(q, k, v, causal):
    """One query at a time in plain numpy: only the keys it may see are ever looked at."""
    out = np.empty_like(q)
    for b, h, i in np.ndindex(q.shape[:3]):
        seen = slice(0, i + 1 if causal else None)
        scores = np.array([np.dot(q[b, h, i], key) / math.sqrt(q.shape[-1]) for key in k[b, h, seen]])
        weights = np.exp(scores - scores.max())
        out[b, h, i] = (weights / weights.sum()) @ v[b, h, seen]
    return out


def naive(stage, shape, inputs):
    """The stage's outputs, head by head and sequence by sequence."""
    w = inputs.weights
    x = [a.double().numpy() for a in inputs.activations]
    w_q, w_k, w_v, w_o = (m.double().numpy() for m in (w.w_q, w.w_k, w.w_v, w.w_o))
    columns = [slice(h * shape.head_dim, (h + 1) * shape.head_dim) for h in range(shape.n_head)]

    def project(weight):
        return np.stack([np.stack([row @ weight[:, c] for c in columns]) for row in x[0]])

    def combine(heads):
        return np.stack([sum(o[h] @ w_o[c, :] for h, c in enumerate(columns)) for o in heads])

    match stage:
        case "qkv":
            return [project(weight) for weight in (w_q, w_k, w_v)]
        case "attention":
            return [naive_attention(*x, shape.causal)]
        case "output":
            return [combine(x[0])]
        case "split":
            return list(x[0].transpose(2, 0, 3, 1, 4))
        case "sublayer":
            return [combine(naive_attention(*(project(weight) for weight in (w_q, w_k, w_v)), shape.causal))]
        case "stack":
            return [naive_stack(shape, inputs)]


def naive_stack(shape, inputs):
    """X, and again and again the sublayer's output added to it."""
    y = inputs.activations[0].double()
    for layer in inputs.weights.layers:
        y = y + torch.from_numpy(naive("sublayer", replace(shape, n_layer=1), Inputs((y,), layer))[0])
    return y.numpy()


def attend(q, k, v, causal=True):
    """Reference attention of one sequence of one head: [seq_len, head_dim] each."""
    shape = Shape(1, q.shape[0], q.shape[1], 1, causal)
    none = torch.zeros(1, 1)
    heads = tuple(t[None, None] for t in (q, k, v))
    return reference("attention", shape, Inputs(heads, Weights(none, none, none, none)))[0][0, 0]


@pytest.mark.parametrize("stage", STAGES)
@given(shape=shapes, seed=st.integers(0, 100))
@settings(max_examples=30)
def test_it_agrees_with_the_naive_formulas(stage, shape, seed):
    shape = replace(shape, n_layer=3 if STAGES[stage].deep else 1)
    inputs = make_inputs(stage, shape, seed, CPU)
    expected = naive(stage, shape, inputs)
    found = reference(stage, shape, inputs)
    assert len(found) == len(expected)
    for own, right in zip(found, expected, strict=True):
        assert own.dtype == torch.float64
        np.testing.assert_allclose(own.numpy(), right, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("block_bytes", [1, 500, 5000])
def test_the_size_of_a_block_changes_nothing(stage, block_bytes, monkeypatch):
    shape = Shape(batch=3, seq_len=17, d_model=24, n_head=3)
    inputs = make_inputs(stage, shape, 0, CPU)
    at_once = reference(stage, shape, inputs)
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", block_bytes)
    for whole, blocked in zip(at_once, reference(stage, shape, inputs), strict=True):
        torch.testing.assert_close(blocked, whole, rtol=1e-12, atol=1e-13)


def test_a_single_token_attends_to_itself():
    q, k, v = torch.randn(3, 1, 8).unbind()
    torch.testing.assert_close(attend(q, k, v), v.double())


def test_equal_keys_give_the_running_mean_of_the_values():
    q, v = torch.randn(2, 6, 4).unbind()
    means = v.double().cumsum(0) / torch.arange(1, 7)[:, None]
    torch.testing.assert_close(attend(q, torch.ones(6, 4), v), means)
    torch.testing.assert_close(attend(q, torch.ones(6, 4), v, causal=False), v.double().mean(0).expand(6, 4))


def test_a_dominating_key_gives_its_value_to_every_query_that_sees_it():
    q, v = torch.ones(5, 4), torch.randn(5, 4)
    k = torch.zeros(5, 4)
    k[2] = 1000
    out = attend(q, k, v)
    torch.testing.assert_close(out[2:], v[2].double().expand(3, 4))
    torch.testing.assert_close(out[1], v[:2].double().mean(0))


def test_two_keys_weigh_as_their_scores_say():
    q, k = torch.tensor([[0.0], [1.0]]), torch.tensor([[math.log(3)], [0.0]])
    v = torch.tensor([[1.0], [0.0]])
    assert attend(q, k, v)[1].item() == pytest.approx(3 / 4, rel=1e-7)  # log(3) is rounded to float32


@pytest.mark.parametrize("stage", ["attention", "sublayer", "stack"])
@pytest.mark.parametrize("block_bytes", [500, 2**28])
def test_a_masked_key_never_influences_a_query(stage, block_bytes, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", block_bytes)
    shape = Shape(batch=1, seq_len=9, d_model=16, n_head=2)
    inputs = make_inputs(stage, shape, 0, CPU)
    before = reference(stage, shape, inputs)[0]
    for later in inputs.activations:
        later[..., 5:, :] = 1e30
    after = reference(stage, shape, inputs)[0]
    assert torch.equal(after[..., :5, :], before[..., :5, :])
    assert not torch.equal(after[..., 5:, :], before[..., 5:, :])


def test_scores_too_large_for_float32_still_give_a_mean():
    q = torch.full((2, 1), 1e30)
    assert torch.equal(attend(q, q, torch.tensor([[1.0], [3.0]])), torch.tensor([[1.0], [2.0]]).double())


def test_an_unknown_stage_names_those_that_have_a_reference():
    shape = Shape(1, 1, 8, 1)
    known = "qkv, split, attention, output, sublayer, stack have"
    with pytest.raises(ValueError, match=f"stage 'mlp' has no reference: {known}"):
        reference("mlp", shape, make_inputs("qkv", shape, 0, CPU))


@pytest.mark.gpu
@pytest.mark.parametrize("stage", STAGES)
def test_on_a_gpu_it_agrees_to_float32(stage):
    shape = Shape(batch=3, seq_len=33, d_model=48, n_head=3, n_layer=2 if STAGES[stage].deep else 1)
    inputs = make_inputs(stage, shape, 0, CPU)
    on_gpu = Inputs(
        tuple(a.cuda() for a in inputs.activations),
        stacked([Weights(*(w.cuda() for w in layer.tensors())) for layer in inputs.weights.layers]),
    )
    for own, right in zip(reference(stage, shape, on_gpu), reference(stage, shape, inputs), strict=True):
        assert own.is_cuda
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.cpu().double(), right, rtol=1e-5, atol=1e-6)
