"""Useful FLOPs, parameters and least bytes, against the lesson's figures and sums over single pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variants import work
from variants.presets import PRESETS
from variants.shape import Shape
from variants.stage import STAGES

shapes = st.builds(
    lambda batch, seq_len, n_head, head_dim, causal, dtype: Shape(
        batch, seq_len, n_head * head_dim, n_head, causal, dtype
    ),
    st.integers(1, 4),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(1, 16),
    st.booleans(),
    st.sampled_from(["fp32", "bf16"]),
)


def andrea_120m(**changes) -> Shape:
    return Shape(**{"batch": 1, "seq_len": 1024, "d_model": 768, "n_head": 12, "dtype": "bf16", **changes})


def test_a_layer_of_andrea_120m_has_2_359_296_attention_parameters():
    assert work.sublayer_parameters(andrea_120m()) == 2_359_296


def test_its_twelve_layers_have_about_a_quarter_of_120_million():
    layers = STAGES["stack"].parameters(andrea_120m(n_layer=PRESETS["andrea-120m"].n_layer))
    assert layers == 28_311_552
    assert layers / 120e6 == pytest.approx(0.25, abs=0.02)


def test_one_token_looks_at_itself_alone():
    assert work.attended_pairs(andrea_120m(seq_len=1)) == 1


@given(shapes)
def test_attended_pairs_are_those_the_mask_lets_through(shape):
    t = shape.seq_len
    assert work.attended_pairs(shape) == sum(
        1 for i in range(t) for j in range(t) if j <= i or not shape.causal
    )


@given(shapes)
def test_attention_flops_are_two_products_of_head_dim_for_each_pair(shape):
    products = 2 * shape.head_dim  # q · k, and p × v
    pairs = work.attended_pairs(shape) * shape.n_head * shape.batch
    assert work.attention_flops(shape) == 2 * products * pairs


def test_projection_flops_of_a_hand_computed_case():
    # 2 × 3 tokens, each output feature a dot product of 4 multiplies and 4 adds, 4 features, 3 matrices.
    shape = Shape(batch=2, seq_len=3, d_model=4, n_head=2)
    assert work.qkv_flops(shape) == 6 * 8 * 4 * 3
    assert work.output_flops(shape) == 6 * 8 * 4


@given(shapes)
def test_the_sublayer_is_the_sum_of_its_parts(shape):
    parts = [STAGES[name] for name in ("qkv", "attention", "output")]
    assert STAGES["sublayer"].flops(shape) == sum(stage.flops(shape) for stage in parts)
    assert STAGES["sublayer"].parameters(shape) == sum(stage.parameters(shape) for stage in parts)


@given(shapes, st.integers(1, 9))
def test_a_stack_is_its_layers_and_carries_one_activation_in_and_out(shape, n_layer):
    deep, layer, x = replace(shape, n_layer=n_layer), STAGES["sublayer"], shape.tokens * shape.d_model
    assert STAGES["stack"].flops(deep) == n_layer * layer.flops(shape)
    assert STAGES["stack"].parameters(deep) == n_layer * layer.parameters(shape)
    assert STAGES["stack"].least_bytes(deep) == (2 * x + 4 * n_layer * shape.d_model**2) * shape.element_bytes


@given(shapes)
def test_a_split_computes_nothing_and_moves_q_k_and_v_in_and_out(shape):
    split = STAGES["split"]
    assert (split.flops(shape), split.parameters(shape)) == (0, 0)
    assert split.least_bytes(shape) == 2 * 3 * shape.tokens * shape.d_model * shape.element_bytes


@given(shapes)
def test_least_bytes_are_every_input_and_output_once(shape):
    x, w, size = shape.tokens * shape.d_model, shape.d_model**2, shape.element_bytes
    assert STAGES["qkv"].least_bytes(shape) == (x + 3 * w + 3 * x) * size
    assert STAGES["attention"].least_bytes(shape) == (3 * x + x) * size
    assert STAGES["output"].least_bytes(shape) == (x + w + x) * size
    assert STAGES["sublayer"].least_bytes(shape) == (x + 4 * w + x) * size


@given(shapes)
def test_backward_reads_the_outputs_gradient_too_and_writes_gradients_in_the_place_of_outputs(shape):
    x, w, size = shape.tokens * shape.d_model, shape.d_model**2, shape.element_bytes
    given_and_made = {
        "qkv": (x + 3 * w, 3 * x),
        "split": (3 * x, 3 * x),
        "attention": (3 * x, x),
        "output": (x + w, x),
        "sublayer": (x + 4 * w, x),
        "stack": (x + 4 * shape.n_layer * w, x),
    }
    for name, (taken, made) in given_and_made.items():
        read = made if name == "split" else taken + made  # a relayout's backward needs only where things were
        assert STAGES[name].least_bytes(shape, "backward") == (read + taken) * size
        assert STAGES[name].least_bytes(shape, "step") == (taken + made + made + taken) * size


@given(shapes)
def test_useful_flops_of_attention_backward_are_four_products_of_head_dim_for_each_pair(shape):
    # dV = Pᵀ · dO, dP = dO · Vᵀ, dQ = dS · K, dK = dSᵀ · Q; scores that are computed again are not useful.
    pairs = work.attended_pairs(shape) * shape.n_head * shape.batch
    assert STAGES["attention"].useful_flops(shape, "backward") == 4 * 2 * shape.head_dim * pairs
    assert STAGES["attention"].useful_flops(shape, "step") == 6 * 2 * shape.head_dim * pairs
    assert STAGES["attention"].useful_flops(shape) == STAGES["attention"].flops(shape)


def test_least_bytes_of_andrea_120m_attention_in_bf16():
    assert STAGES["attention"].least_bytes(andrea_120m()) == 4 * 1024 * 768 * 2
