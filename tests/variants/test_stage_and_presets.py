"""The stages and presets agree with the lesson and with what is found on disk."""

from __future__ import annotations

import itertools

import pytest
import torch

from variants.inputs import fresh_activations
from variants.presets import PRESETS
from variants.registry import discover
from variants.shape import Shape
from variants.stage import STAGES


def test_the_stages_come_in_the_order_they_are_computed():
    assert list(STAGES) == ["qkv", "split", "attention", "output", "sublayer", "stack"]


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_stage_is_known_by_its_own_name_and_its_baseline_exists(stage):
    assert STAGES[stage.name] is stage
    assert stage.baseline in discover().of_stage(stage.name)


@pytest.mark.parametrize(
    ("batch", "seq_len", "n_head", "head_dim"), [*itertools.product((1, 2), (1, 2, 3), (1, 2), (1, 4))]
)
def test_a_split_moves_what_it_is_given_wherever_the_stage_has_something_to_do(
    batch, seq_len, n_head, head_dim
):
    """PyTorch copies nothing that is contiguous already: with a time for that, a rate would be shown of no bytes."""
    shape = Shape(batch, seq_len, n_head * head_dim, n_head)
    (projected,) = fresh_activations("split", shape, 0, torch.device("cpu"))
    at = projected.untyped_storage().data_ptr()
    stays = {
        name: [one.untyped_storage().data_ptr() == at for one in kind(shape).call(projected)]
        for name, kind in discover().of_stage("split").items()
        if name in ("torch_contiguous", "torch_permute")
    }
    idle = STAGES["split"].idle(shape) is not None
    assert idle == (batch == seq_len == 1)
    assert stays == dict.fromkeys(("torch_contiguous", "torch_permute"), [idle] * 3)


@pytest.mark.parametrize("stage", ["qkv", "attention", "output", "sublayer", "stack"])
def test_every_other_stage_has_something_to_do_for_a_single_token(stage):
    assert STAGES[stage].idle(Shape(1, 1, 8, 2)) is None


@pytest.mark.parametrize(
    ("name", "d_model", "n_head", "head_dim", "n_layer"),
    [
        ("andrea-12m", 384, 12, 32, 6),
        ("andrea-120m", 768, 12, 64, 12),
        ("andrea-480m", 1536, 24, 64, 16),
        ("head-dim-72", 864, 12, 72, 12),
    ],
)
def test_presets_are_the_lessons(name, d_model, n_head, head_dim, n_layer):
    preset = PRESETS[name]
    assert (preset.d_model, preset.n_head, preset.head_dim, preset.n_layer) == (
        d_model,
        n_head,
        head_dim,
        n_layer,
    )
    assert preset.context == 1024


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_preset_is_a_valid_shape_and_says_where_it_comes_from(preset):
    shape = Shape(1, preset.context, preset.d_model, preset.n_head)
    assert shape.head_dim == preset.head_dim
    assert PRESETS[preset.name] is preset
    assert preset.source
