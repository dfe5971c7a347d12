"""Stacks are their sublayers again and again; composed follows what was recorded; a graph needs a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import results
from variants.attention.flash_portable import FlashPortable
from variants.attention.sdpa import Sdpa
from variants.inputs import make_inputs
from variants.registry import discover
from variants.shape import Shape
from variants.sublayer import composed
from variants.sublayer.composed import PORTABLE_WINS_TO, candidates
from variants.variant import Machine

CPU = torch.device("cpu")
VARIANTS = discover().variants
STACKS = [name for stage, name in VARIANTS if stage == "stack"]
SHAPE = Shape(2, 7, 24, 3, n_layer=3)

LEVEL = 1.02
"""What was recorded within 2 % of the fastest is not told apart from it."""


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_needs_what_its_sublayer_needs(name):
    assert VARIANTS["stack", name].requires == VARIANTS["sublayer", name].requires


@pytest.mark.parametrize("name", [name for name in STACKS if VARIANTS["stack", name].requires.device is None])
def test_a_stack_adds_each_sublayers_output_to_what_it_was_given(name):
    inputs = make_inputs("stack", SHAPE, 1, CPU)
    with torch.inference_mode():
        stack = VARIANTS["stack", name](SHAPE)
        stack.prepare(inputs.weights)
        x = inputs.activations[0]
        for weights in inputs.weights.layers:
            layer = VARIANTS["sublayer", name](replace(SHAPE, n_layer=1))
            layer.prepare(weights)
            x = x + layer.call(x)
        found = stack.call(*inputs.activations)
    torch.testing.assert_close(found, x, rtol=1e-6, atol=1e-6)


def recorded(run: str, stage: str, column: str = "time_s"):
    """(batch, causal, head_dim) of each recorded group of a stage: the time of each variant."""
    frame = results.read(f"nvidia-h200/{run}").frame()
    frame = frame[(frame.stage == stage) & frame[column].notna() & (frame.direction == "forward")]
    keys = ["batch", "seq_len", "causal", "d_model", "n_head"]
    return {
        key: dict(zip(group.variant, group[column], strict=True))
        for key, group in frame.groupby(keys, sort=False)
    }


@pytest.mark.parametrize(
    ("run", "stage", "chosen"),
    [
        ("default", "qkv", "fused_qkv"),
        ("default", "output", "strided_matmul"),
        ("kernels_1024", "attention", "flash_hopper"),
    ],
)
def test_what_is_composed_on_a_hopper_was_recorded_as_the_fastest_everywhere(run, stage, chosen):
    groups = recorded(run, stage)
    assert len(groups) >= 8
    for key, times in groups.items():
        others = {name: time for name, time in times.items() if not name.endswith("_strided")}
        assert times[chosen] <= LEVEL * min(others.values()), key


def test_without_it_flash_portable_won_up_to_the_rules_head_dim_and_not_at_every_batch_beyond():
    won: dict[int, set[bool]] = {}
    for (_, _, _, d_model, n_head), times in recorded("default", "attention").items():
        won.setdefault(d_model // n_head, set()).add(times["flash_portable"] < times["sdpa"])
    assert {head_dim for head_dim, wins in won.items() if wins == {True}} == {PORTABLE_WINS_TO}


@pytest.mark.parametrize(
    ("machine", "head_dim", "dtype", "names"),
    [
        (Machine("cuda", (9, 0)), 64, "bf16", ["flash_hopper", "sdpa"]),
        (Machine("cuda", (9, 0)), 32, "fp16", ["flash_hopper", "flash_portable", "sdpa"]),
        (Machine("cuda", (8, 9)), 32, "bf16", ["flash_portable", "sdpa"]),
        (Machine("cuda", (8, 9)), 72, "bf16", ["sdpa"]),
        (Machine("cuda", (9, 0)), 64, "fp32", ["sdpa"]),
        (Machine("cuda", (7, 5)), 32, "bf16", ["sdpa"]),
        (Machine("cpu"), 32, "bf16", ["sdpa"]),
    ],
)
def test_the_rule_asks_machine_head_dim_and_dtype(machine, head_dim, dtype, names):
    shape = Shape(1, 8, 2 * head_dim, 2, dtype=dtype)
    assert [variant.name for variant in candidates(shape, machine)] == names


def test_a_candidate_that_refuses_the_shape_is_passed_over(monkeypatch):
    shape = Shape(1, 8, 29, 1)  # a head_dim that is no multiple of 8
    monkeypatch.setattr(composed, "candidates", lambda *_, **__: [FlashPortable(shape), Sdpa(shape)])
    weights = make_inputs("sublayer", shape, 0, CPU).weights
    assert composed.fastest_attention(shape, weights).name == "sdpa"


@pytest.mark.gpu
@pytest.mark.parametrize("stage", ["sublayer", "stack"])
def test_a_graph_of_its_own_gives_what_it_was_captured_from_for_every_input(stage):
    shape = Shape(2, 100, 192, 3, dtype="bf16", n_layer=3 if stage == "stack" else 1)
    inputs, other = (make_inputs(stage, shape, seed, torch.device("cuda")) for seed in (1, 2))
    with torch.inference_mode():
        graph, plain = VARIANTS[stage, "fused_graph"](shape), VARIANTS[stage, "fused_sdpa"](shape)
        for variant in (graph, plain):
            variant.prepare(inputs.weights)
        for x in (*inputs.activations, *other.activations):
            torch.testing.assert_close(graph.call(x), plain.call(x))
