"""Canonical inputs: the layouts the stages declare, the distributions the measurements rest on, and the seed."""

from __future__ import annotations

import pytest
import torch

from variants.inputs import fresh_activations, learned, make_inputs, torch_dtype
from variants.shape import DTYPES, Shape
from variants.stage import STAGES

CPU = torch.device("cpu")
SHAPE = Shape(batch=2, seq_len=5, d_model=24, n_head=3, dtype="bf16")
X, HEADS, PROJECTED = (2, 5, 24), (2, 3, 5, 8), (2, 5, 3, 3, 8)


def tensors(inputs) -> list[torch.Tensor]:
    return list(inputs.tensors())


@pytest.mark.parametrize(
    ("stage", "sizes"),
    [
        ("qkv", [X]),
        ("split", [PROJECTED]),
        ("attention", [HEADS] * 3),
        ("output", [HEADS]),
        ("sublayer", [X]),
        ("stack", [X]),
    ],
)
def test_activations_arrive_in_the_stages_layout(stage, sizes):
    activations = make_inputs(stage, SHAPE, 0, CPU).activations
    assert [tuple(a.shape) for a in activations] == sizes
    assert all(a.is_contiguous() and a.dtype == torch.bfloat16 for a in activations)


@pytest.mark.parametrize("stage", STAGES)
def test_the_same_seed_gives_the_same_values_and_another_seed_others(stage):
    first, again, other = (tensors(make_inputs(stage, SHAPE, seed, CPU)) for seed in (7, 7, 8))
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))


def test_no_two_tensors_of_a_seed_are_alike():
    found = tensors(make_inputs("attention", SHAPE, 3, CPU))
    assert len({tuple(t.flatten()[:24].tolist()) for t in found}) == len(found)


def test_no_stream_of_one_seed_is_a_stream_of_the_next():
    made = [make_inputs("qkv", SHAPE, seed, CPU, "backward") for seed in range(4)]
    flat = [t.float().flatten()[:24] for inputs in made for t in inputs.tensors()]
    normalised = {tuple((t / t.norm()).mul(100).round().tolist()) for t in flat}
    assert len(normalised) == len(flat)


def test_fresh_activations_are_new_storage_with_the_values_of_their_seed():
    inputs = make_inputs("attention", SHAPE, 5, CPU)
    fresh = fresh_activations("attention", SHAPE, 5, CPU)
    assert all(map(torch.equal, inputs.activations, fresh))
    assert not {a.data_ptr() for a in inputs.activations} & {a.data_ptr() for a in fresh}


@pytest.mark.parametrize(
    ("stage", "sizes"),
    [
        ("qkv", [HEADS] * 3),
        ("split", [HEADS] * 3),
        ("attention", [HEADS]),
        ("output", [X]),
        ("sublayer", [X]),
        ("stack", [X]),
    ],
)
def test_gradients_of_outputs_are_standard_normal_in_the_canonical_layout_and_change_nothing_else(
    stage, sizes
):
    plain, wanted = (make_inputs(stage, SHAPE, 4, CPU, direction) for direction in ("forward", "step"))
    assert plain.output_gradients == ()
    assert [tuple(d.shape) for d in wanted.output_gradients] == sizes
    assert all(d.is_contiguous() and d.dtype == torch.bfloat16 for d in wanted.output_gradients)
    assert all(map(torch.equal, plain.activations, wanted.activations))
    assert all(map(torch.equal, plain.weights.tensors(), wanted.weights.tensors()))
    wide = Shape(batch=4, seq_len=128, d_model=256, n_head=4)
    for d in make_inputs(stage, wide, 4, CPU, "backward").output_gradients:
        assert d.mean().item() == pytest.approx(0, abs=0.02)
        assert d.std().item() == pytest.approx(1, rel=0.02)


def test_gradients_are_cloned_copied_and_compared_with_the_rest():
    inputs, other = (make_inputs("qkv", SHAPE, seed, CPU, "backward") for seed in (1, 2))
    copy = inputs.clone()
    assert copy.equals(inputs)
    assert [t.data_ptr() for t in copy.output_gradients] != [t.data_ptr() for t in inputs.output_gradients]
    copy.output_gradients[0].zero_()
    assert not copy.equals(inputs)
    copy.copy_from(other)
    assert copy.equals(other)


@pytest.mark.parametrize("stage", [name for name, stage in STAGES.items() if stage.gradients])
def test_every_gradient_has_a_name_and_every_name_a_tensor(stage):
    """Three places say what a stage learns: its names, its weights and its count of parameters."""
    inputs = make_inputs(stage, SHAPE, 0, CPU, "backward")
    weights = learned(stage, inputs.weights)
    assert len(STAGES[stage].gradients) == len(inputs.activations) + len(weights)
    assert sum(w.numel() for w in weights) == STAGES[stage].parameters(SHAPE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations_are_standard_normal_and_weights_keep_their_size(dtype):
    shape = Shape(batch=4, seq_len=128, d_model=256, n_head=4, dtype=dtype)
    x, *weights = (t.double() for t in tensors(make_inputs("sublayer", shape, 1, CPU)))
    assert x.mean().item() == pytest.approx(0, abs=0.02)
    assert x.std().item() == pytest.approx(1, rel=0.02)
    for w in weights:
        assert w.mean().item() == pytest.approx(0, abs=0.002)
        assert w.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert (x @ weights[0]).std().item() == pytest.approx(1, rel=0.05)


def test_weights_are_square_and_in_the_shapes_dtype():
    for weight in make_inputs("qkv", SHAPE, 0, CPU).weights.tensors():
        assert weight.shape == (24, 24)
        assert weight.dtype == torch_dtype("bf16")


def test_every_layer_of_a_stack_has_weights_of_its_own_the_first_those_of_a_sublayer():
    deep = Shape(batch=1, seq_len=2, d_model=24, n_head=3, n_layer=4)
    weights = make_inputs("stack", deep, 3, CPU).weights
    assert len(weights.layers) == 4
    assert len(weights.tensors()) == 16
    assert len({w.data_ptr() for w in weights.tensors()}) == 16
    assert len({tuple(w.flatten()[:24].tolist()) for w in weights.tensors()}) == 16
    alone = make_inputs("sublayer", Shape(1, 2, 24, 3), 3, CPU).weights
    assert alone.layers == (alone,)
    assert torch.equal(weights.w_q, alone.w_q)


@pytest.mark.parametrize("n_layer", [1, 8])
def test_w_o_of_a_stack_is_smaller_by_the_root_of_twice_its_depth(n_layer):
    shape = Shape(batch=1, seq_len=2, d_model=256, n_head=4, n_layer=n_layer)
    for layer in make_inputs("stack", shape, 1, CPU).weights.layers:
        assert layer.w_q.std().item() == pytest.approx(256**-0.5, rel=0.02)
        assert layer.w_o.std().item() == pytest.approx((256 * 2 * n_layer) ** -0.5, rel=0.02)


def test_clones_copies_and_comparisons_reach_the_deepest_layer():
    deep = Shape(batch=1, seq_len=2, d_model=24, n_head=3, n_layer=3)
    inputs, other = (make_inputs("stack", deep, seed, CPU) for seed in (0, 1))
    kept = inputs.clone()
    assert kept.equals(inputs)
    assert not {w.data_ptr() for w in kept.tensors()} & {w.data_ptr() for w in inputs.tensors()}
    inputs.weights.layers[2].w_o.mul_(2)
    assert not kept.equals(inputs)
    kept.copy_from(other)
    assert kept.equals(other)


def test_an_unknown_stage_names_those_that_have_inputs():
    known = "qkv, split, attention, output, sublayer, stack have"
    with pytest.raises(ValueError, match=f"stage 'mlp' has no inputs: {known}"):
        make_inputs("mlp", SHAPE, 0, CPU)


@pytest.mark.gpu
def test_inputs_are_made_on_the_gpu_and_repeat_there():
    cuda = torch.device("cuda")
    first, again = (tensors(make_inputs("sublayer", SHAPE, 7, cuda)) for _ in range(2))
    assert all(t.is_cuda for t in first)
    assert all(map(torch.equal, first, again))
