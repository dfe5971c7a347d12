"""What the user may ask for: which shapes follow from it, and what is said when it cannot be."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.request import (
    CPU_DEFAULTS,
    GPU_DEFAULTS,
    LARGEST_COUNT,
    MOST_IN_A_RANGE,
    MOST_SHAPES,
    Selection,
    defaults_for,
    parse_seconds,
    split_counts,
    split_values,
)
from variants.presets import PRESETS
from variants.shape import Shape


def widths(**asked):
    """(d_model, n_head, head_dim) of every shape asked for."""
    return [(s.d_model, s.n_head, s.head_dim) for s in Selection(**asked).shapes(CPU_DEFAULTS, "qkv")]


def refusal(**asked) -> str:
    with pytest.raises(UsageError) as caught:
        Selection(**asked)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_asked_for_is_every_preset_with_the_devices_defaults():
    on_gpu = Selection().shapes(GPU_DEFAULTS, "qkv")
    assert len(on_gpu) == 4 * 2
    assert on_gpu[:2] == (
        Shape(1, 1024, 384, 12, causal=True, dtype="bf16"),
        Shape(32, 1024, 384, 12, causal=True, dtype="bf16"),
    )
    assert widths() == [(p.d_model, p.n_head, p.head_dim) for p in PRESETS.values()]
    assert {s.seq_len for s in Selection().shapes(CPU_DEFAULTS, "qkv")} == {256}


@pytest.mark.parametrize(("device", "expected"), [("cpu", CPU_DEFAULTS), ("cuda:0", GPU_DEFAULTS)])
def test_the_defaults_are_the_devices(device, expected):
    assert defaults_for(device) is expected


def test_a_head_dim_sweep_keeps_the_heads_and_d_model_follows():
    assert widths(models=("andrea-120m",), head_dim=(32, 64, 72)) == [
        (384, 12, 32),
        (768, 12, 64),
        (864, 12, 72),
    ]


def test_a_head_dim_sweep_at_a_given_width_keeps_the_width_and_the_heads_follow():
    assert widths(d_model=(1536,), head_dim=(32, 64, 96)) == [(1536, 48, 32), (1536, 24, 64), (1536, 16, 96)]


def test_a_head_dim_sweep_with_heads_given_is_every_pair():
    assert widths(head_dim=(32, 64), n_head=(6, 12)) == [
        (192, 6, 32),
        (384, 6, 64),
        (384, 12, 32),
        (768, 12, 64),
    ]


def test_a_sweep_without_a_model_starts_from_the_lessons_model():
    assert widths(head_dim=(72,)) == [(864, 12, 72)]
    assert widths(n_head=(6, 24)) == [(768, 6, 128), (768, 24, 32)]
    assert widths(d_model=(384,)) == [(384, 12, 32)]


def test_a_sweep_is_made_for_each_model_and_shapes_that_coincide_appear_once():
    assert widths(models=("andrea-12m", "andrea-480m"), head_dim=(64,)) == [(768, 12, 64), (1536, 24, 64)]
    assert widths(models=("andrea-12m", "andrea-120m"), head_dim=(64,)) == [(768, 12, 64)]


def test_every_combination_of_sizes_masks_and_dtypes_is_there_once():
    shapes = Selection(
        models=("andrea-12m",),
        batch=(1, 3),
        seq_len=(7, 129),
        masks=("causal", "full"),
        dtypes=("fp32", "bf16"),
    ).shapes(CPU_DEFAULTS, "qkv")
    assert len(shapes) == len(set(shapes)) == 16
    assert {(s.batch, s.seq_len, s.causal, s.dtype) for s in shapes} == {
        (b, t, causal, dtype)
        for b in (1, 3)
        for t in (7, 129)
        for causal in (True, False)
        for dtype in ("fp32", "bf16")
    }


def test_a_dtype_and_its_alias_are_one_shape():
    shapes = Selection(models=("andrea-12m",), dtypes=("bfloat16", "bf16")).shapes(CPU_DEFAULTS, "qkv")
    assert [s.dtype for s in shapes] == ["bf16"]


def test_heads_that_do_not_divide_the_width_name_the_nearest_that_do():
    assert refusal(d_model=(768,), n_head=(10,)) == (
        "d_model 768 is not divisible by n_head 10: 8 or 12 would do"
    )


def test_a_head_dim_that_does_not_divide_the_given_width_names_the_nearest_that_do():
    assert refusal(d_model=(768,), head_dim=(72,)) == (
        "d_model 768 is not divisible by head_dim 72: 64 or 96 would do"
    )


def stacks(defaults=CPU_DEFAULTS, **asked) -> list[tuple[int, int, int]]:
    """(d_model, batch, n_layer) of every stack asked for."""
    return [(s.d_model, s.batch, s.n_layer) for s in Selection(**asked).shapes(defaults, "stack")]


def test_a_stack_has_the_depth_of_its_model_and_the_first_batch_alone():
    assert stacks(GPU_DEFAULTS) == [(768, 1, 12)]
    assert stacks(GPU_DEFAULTS, models=tuple(PRESETS)) == [
        (p.d_model, 1, p.n_layer) for p in PRESETS.values()
    ]
    assert stacks(GPU_DEFAULTS, models=("andrea-480m",), batch=(2, 8)) == [(1536, 2, 16), (1536, 8, 16)]


def test_a_cpu_measures_the_small_stack_unless_a_model_or_a_size_is_given():
    assert stacks() == [(384, 1, 6)]
    assert stacks(models=("andrea-480m",)) == [(1536, 1, 16)]
    assert stacks(d_model=(192,)) == [(192, 1, 12)]


def test_a_split_is_measured_at_one_model_and_every_batch_unless_others_are_asked_for():
    sizes = [(s.d_model, s.batch) for s in Selection().shapes(GPU_DEFAULTS, "split")]
    assert sizes == [(768, 1), (768, 32)]
    assert {s.d_model for s in Selection().shapes(CPU_DEFAULTS, "split")} == {384}
    assert len(Selection(models=tuple(PRESETS)).shapes(GPU_DEFAULTS, "split")) == 8
    assert [s.head_dim for s in Selection(head_dim=(32, 72)).shapes(CPU_DEFAULTS, "split")] == [32, 72]


def test_depths_are_of_stacks_alone():
    asked = {"n_layer": (1, 2, 4)}
    assert stacks(**asked) == [(768, 1, 1), (768, 1, 2), (768, 1, 4)]
    assert {s.n_layer for s in Selection(**asked).shapes(CPU_DEFAULTS, "sublayer")} == {1}
    assert widths(**asked) == widths()


def test_a_depth_without_a_stack_says_where_it_belongs():
    assert refusal(n_layer=(3,), stages=("qkv", "sublayer")) == (
        "--n-layer 3 is the depth of a stack, and --stage qkv,sublayer has none: --stage stack would do, or leave "
        "--n-layer out"
    )
    Selection(n_layer=(3,), stages=("qkv", "stack"))


def test_three_sizes_that_disagree_say_so():
    assert refusal(d_model=(768,), n_head=(12,), head_dim=(32,)) == (
        "d_model 768 is not n_head 12 × head_dim 32 = 384: give two of the three"
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stages": ("atention",)}, "stage 'atention' is unknown: did you mean attention?"),
        (
            {"stages": ("zzz",)},
            "stage 'zzz' is unknown: qkv, split, attention, output, sublayer, stack are known",
        ),
        (
            {"models": ("andrea-120",)},
            "model 'andrea-120' is unknown: did you mean andrea-120m or andrea-12m",
        ),
        ({"masks": ("casual",)}, "mask 'casual' is unknown: did you mean causal?"),
        (
            {"directions": ("backwards",)},
            "direction 'backwards' is unknown: did you mean backward or forward?",
        ),
        ({"directions": ("up",)}, "direction 'up' is unknown: forward, backward, step are known"),
        ({"dtypes": ("fp8",)}, "dtype 'fp8' is unknown: bf16, fp16, tf32, fp32 are known"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(asked, message):
    assert refusal(**asked).startswith(message)


def test_a_very_long_name_is_not_repeated_whole():
    assert len(refusal(stages=("q" * 100_000,))) < 200


def test_the_largest_counts_are_refused_quickly_when_they_do_not_divide():
    started = time.monotonic()
    (d_model,) = split_counts("--d-model", [str(LARGEST_COUNT - 27)])
    assert "is not divisible by n_head 7" in refusal(d_model=(d_model,), n_head=(7,))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("given_", "values"),
    [
        ([], ()),
        (["32,64", "72"], ("32", "64", "72")),
        ([" 32 , 64 "], ("32", "64")),
        (["32,,64,", ","], ("32", "64")),
        (["64,32", "64"], ("64", "32")),
    ],
)
def test_values_may_be_separated_by_commas_or_repeated(given_, values):
    assert split_values("--stage", given_) == values


@pytest.mark.parametrize(
    ("given_", "counts"),
    [
        (["16:256:8"], tuple(range(16, 257, 8))),
        (["16:64:16,72"], (16, 32, 48, 64, 72)),
        (["16:30:8"], (16, 24)),
        (["64", "32:64:32"], (64, 32)),
        (["5:5:1"], (5,)),
        ([" 1:3:1 , 7"], (1, 2, 3, 7)),
    ],
)
def test_a_range_is_first_last_and_step_with_the_last_included(given_, counts):
    assert split_counts("--head-dim", given_) == counts


@given(st.integers(1, LARGEST_COUNT), st.integers(0, MOST_IN_A_RANGE - 1), st.integers(1, 1000))
def test_a_range_holds_every_step_from_its_first_to_its_last(first, steps, step):
    last = min(first + steps * step, LARGEST_COUNT)
    counts = split_counts("--seq-len", [f"{first}:{last}:{step}"])
    assert counts == tuple(count for count in (first + n * step for n in range(steps + 1)) if count <= last)


@pytest.mark.parametrize(
    ("piece", "count"),
    [("256:16:8", "0"), ("1:1001:1", "1,001"), (f"1:{LARGEST_COUNT}:1", f"{LARGEST_COUNT:,}")],
)
def test_a_range_of_nothing_or_of_too_much_says_how_many_values_it_is(piece, count):
    with pytest.raises(UsageError) as caught:
        split_counts("--head-dim", ["32", piece])
    assert str(caught.value) == (
        f"--head-dim {piece} is {count} values: 1 to 1,000 would do, first:last:step with the last no less than "
        f"the first"
    )


def test_ranges_that_multiply_to_too_many_shapes_are_refused_before_any_is_made():
    thousand = tuple(range(1, 1001))
    assert refusal(head_dim=thousand, batch=thousand, seq_len=thousand, dtypes=("bf16",)) == (
        "1,000 of --head-dim × 1,000 of --batch × 1,000 of --seq-len are 1,000,000,000 shapes: 10,000 at most; "
        "give fewer values, or several runs"
    )
    at_most = Selection(models=("andrea-120m",), batch=thousand[:100], seq_len=thousand[:100])
    assert len(at_most.shapes(CPU_DEFAULTS, "qkv")) == MOST_SHAPES


@pytest.mark.parametrize("empty", [[""], [","], [" , ", ""]])
def test_an_option_given_without_a_value_does_not_mean_everything(empty):
    with pytest.raises(UsageError, match=r"--stage .* holds no value"):
        split_values("--stage", empty)


@given(st.lists(st.integers(1, LARGEST_COUNT), unique=True), st.integers(1, 5))
def test_counts_come_back_however_they_are_divided_between_options(counts, per_option):
    texts = list(map(str, counts))
    pieces = [",".join(texts[i : i + per_option]) for i in range(0, len(texts), per_option)]
    assert split_counts("--batch", pieces) == tuple(counts)


@pytest.mark.parametrize(
    "hostile",
    [
        *("0", "-1", "+32", "1.5", "1e3", "0x20", "1_000", "3 2", "32;64", "nan", "inf", "None", "--help"),
        *("16:256", "16:256:0", "16::8", ":", "::", "16:256:8:1", "16:256:-8", "a:b:c", "16:2_0:8", "1:²:1"),
        *("²", "٣", "３２", "⑫", "3\u200b2", "\x00", "\udcff", "32\n64", "'; rm -rf /", "%s", "{0}"),
        *(str(LARGEST_COUNT + 1), "9" * 18, "9" * 5000, "1" * 1_000_000),
    ],
)
def test_what_is_no_count_is_refused_with_the_option_the_value_and_an_example(hostile):
    with pytest.raises(UsageError) as caught:
        split_counts("--head-dim", ["32", hostile])
    message = str(caught.value)
    assert message.startswith("--head-dim ")
    assert "is not a count: whole numbers from 1 to 10¹³, as in --head-dim 32,64" in message
    assert message.endswith(", or first:last:step, as in 16:256:8")
    assert message.isprintable()
    assert len(message) < 200


def test_the_message_names_the_piece_that_is_wrong():
    with pytest.raises(UsageError, match=re.escape("--batch 'x1' is not a count")):
        split_counts("--batch", ["1,x1,32"])


@given(st.text())
def test_any_text_is_counts_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert all(count >= 1 for count in split_counts("--batch", [text]))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("2m", 120), ("1h", 3600), ("0.5s", 0.5), ("1.5m", 90), (".25", 0.25)],
)
def test_a_time_is_seconds_minutes_or_hours(text, seconds):
    assert parse_seconds("--budget", text) == seconds


@pytest.mark.parametrize(
    "hostile",
    [
        *("", "s", "m", "0", "0s", "-5", "-1m", "nan", "nans", "inf", "-inf", "1e999", "1e7", "10000h"),
        *(
            "100ms",
            "1d",
            "2 m s",
            "90S",
            "0x10",
            "1,5",
            "９０",
            "٩٠s",
            "²s",
            "\x00",
            "9" * 5000,
            "x" * 100_000,
        ),
    ],
)
def test_what_is_no_time_is_refused_with_the_option_and_examples(hostile):
    with pytest.raises(UsageError) as caught:
        parse_seconds("--budget", hostile)
    message = str(caught.value)
    assert message.startswith("--budget '")
    assert message.endswith("is not a time: seconds above 0 would do, as in --budget 90s or --budget 2m")
    assert len(message) < 200


@given(st.text() | st.floats().map(repr) | st.integers().map(str))
def test_any_text_is_a_positive_time_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert 0 < parse_seconds("--budget", text) < 1e7
