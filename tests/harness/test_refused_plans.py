"""What is refused before anything is planned: sizes beyond the machine, and variants that nobody knows."""

from __future__ import annotations

import pytest

from harness.errors import UsageError

from .plans import CPU, GPU, VARIANTS, facts, plan


@pytest.mark.parametrize(
    "asked",
    [
        {"seq_len": (2**40,)},
        {"batch": (2**40,)},
        {"batch": (10**13,), "seq_len": (10**13,)},
        {"d_model": (10**13,), "n_head": (10**13,)},
        {"head_dim": (10**6,), "n_head": (10**6,)},
    ],
)
def test_an_absurd_shape_is_refused_by_arithmetic_alone(asked):
    with pytest.raises(UsageError) as caught:
        plan(**asked)
    message = str(caught.value)
    assert message.startswith("qkv at batch ")
    assert "for its inputs and output, Some CPU has 8 GiB" in message
    weights = "d_model" in asked or "head_dim" in asked
    assert message.endswith(f"a smaller {'d_model' if weights else '--batch or --seq-len'} would do")


@pytest.mark.parametrize(
    ("asked", "way_out"),
    [
        ({"d_model": (10**6,), "n_head": (1,)}, "a smaller d_model would do"),
        ({"stages": ("stack",), "n_layer": (10**6,)}, "a smaller d_model or --n-layer would do"),
        ({"stages": ("stack",), "batch": (10**6,)}, "a smaller --batch, --seq-len or --n-layer would do"),
    ],
)
def test_what_is_told_to_be_smaller_is_what_was_too_large(asked, way_out):
    with pytest.raises(UsageError) as caught:
        plan(CPU, [*VARIANTS, facts("stack", "fused_sdpa")], **asked)
    assert str(caught.value).endswith(way_out)


def test_a_call_of_hours_is_refused_though_its_tensors_would_fit():
    with pytest.raises(UsageError, match=r"attention at .* FLOP a call, over the 1e\+18"):
        plan(GPU, stages=("attention",), d_model=(1,), n_head=(1,), batch=(1,), seq_len=(2 * 10**9,))


def test_what_gradients_need_is_counted_too():
    # Q, K, V and O of 2**23 × 768 float32 elements are 96 GiB; with dO, dQ, dK and dV it is twice as much.
    asked = {"models": ("andrea-120m",), "stages": ("attention",), "batch": (1,), "dtypes": ("bf16",)}
    assert plan(GPU, seq_len=(2**23,), **asked).measured
    with pytest.raises(UsageError, match=r"needs at least 96 GiB .* Some GPU has 80 GiB"):
        plan(GPU, seq_len=(2**23,), directions=("step",), **asked)


def test_two_to_the_fortieth_tokens_are_refused_with_what_they_would_need():
    # X, Q, K, V of 2**40 × 768 float32 elements: 12 PiB, and 6.75 MiB of weights.
    with pytest.raises(UsageError, match=r"needs at least 12 PiB .* Some CPU has 8 GiB"):
        plan(models=("andrea-120m",), seq_len=(2**40,))


def test_the_gpus_memory_is_what_counts_on_a_gpu():
    asked = {"models": ("andrea-120m",), "stages": ("qkv",), "batch": (1,), "dtypes": ("bf16",)}
    # Four activations of 2**24 × 768 × 2 bytes are 96 GiB; half of them fit into 80 GiB, and not into 8.
    with pytest.raises(UsageError, match=r"needs at least 96 GiB .* Some GPU has 80 GiB"):
        plan(GPU, seq_len=(2**24,), **asked)
    assert plan(GPU, seq_len=(2**23,), **asked).measured == 2
    with pytest.raises(UsageError, match="Some CPU has 8 GiB"):
        plan(CPU, seq_len=(2**23,), **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"variants": ("sdpa_flahs",)}, "variant 'sdpa_flahs' is unknown: did you mean sdpa_flash or sdpa?"),
        (
            {"variants": ("zzz",), "stages": ("qkv",)},
            "variant 'zzz' is unknown: fused, per_head are known",
        ),
        (
            {"variants": ("sdpa",), "stages": ("qkv", "output")},
            "variant 'sdpa' belongs to attention, not to qkv, output",
        ),
        (
            {"variants": ("per_head",), "stages": ("output",)},
            "variant 'per_head' belongs to qkv, sublayer, not to output",
        ),
    ],
)
def test_an_unknown_variant_is_answered_with_the_nearest_or_its_own_stage(asked, message):
    with pytest.raises(UsageError) as caught:
        plan(**asked)
    assert str(caught.value) == message


def test_an_installed_variant_that_failed_before_it_had_a_stage_says_why_when_asked_for():
    broken = facts("?", "mine", missing="mine.py fails to import: ImportError: no module named triton")
    with pytest.raises(UsageError) as caught:
        plan(found=[*VARIANTS, broken], variants=("mine",))
    assert str(caught.value) == f"variant 'mine' cannot be used: {broken.missing}"
    assert "mine" not in {case.variant for case in plan(found=[*VARIANTS, broken]).cases}
