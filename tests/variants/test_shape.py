"""Shapes are checked when they are built, and say what would do instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variants.shape import (
    DTYPE_ALIASES,
    DTYPES,
    Shape,
    ShapeError,
    canonical_dtype,
    heads_from,
    nearest_divisors,
)


def test_andrea_120m_has_heads_of_64_features():
    shape = Shape(batch=32, seq_len=1024, d_model=768, n_head=12, dtype="bf16")
    assert (shape.head_dim, shape.tokens, shape.element_bytes) == (64, 32_768, 2)


def test_a_shape_reads_as_a_sentence():
    assert str(Shape(2, 7, 24, 3, causal=False)) == "batch 2, seq_len 7, heads 3×8, full, fp32"


def test_equal_shapes_are_one_key():
    assert {Shape(1, 2, 6, 3): "a"}[Shape(1, 2, 6, 3, True, "float32")] == "a"


def test_a_shape_cannot_be_changed():
    with pytest.raises(AttributeError):
        Shape(1, 2, 6, 3).batch = 2  # type: ignore[misc]


def test_n_head_that_does_not_divide_d_model_names_the_nearest_that_do():
    with pytest.raises(ShapeError) as error:
        Shape(1, 16, 768, 10)
    assert str(error.value) == "d_model 768 is not divisible by n_head 10: 8 or 12 would do"


def test_more_heads_than_features_leave_only_the_divisors_below():
    with pytest.raises(ShapeError, match=r"d_model 6 is not divisible by n_head 7: 6 would do"):
        Shape(1, 1, 6, 7)


@pytest.mark.parametrize("field", ["batch", "seq_len", "d_model", "n_head"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", None, True])
def test_a_size_that_is_no_count_is_refused_by_its_name(field, value):
    sizes = {"batch": 1, "seq_len": 8, "d_model": 16, "n_head": 2, field: value}
    with pytest.raises(ShapeError, match=f"^{field} .* is not a count"):
        Shape(**sizes)


def test_an_unknown_dtype_lists_those_known():
    with pytest.raises(ShapeError, match="dtype 'fp8' is unknown: bf16, fp16, tf32, fp32 are known"):
        Shape(1, 1, 8, 1, dtype="fp8")


@pytest.mark.parametrize(("alias", "name"), DTYPE_ALIASES.items())
def test_an_alias_means_the_short_name(alias, name):
    assert Shape(1, 1, 8, 1, dtype=alias).dtype == name
    assert canonical_dtype(name) == name


def test_tf32_is_stored_in_four_bytes():
    assert DTYPES["tf32"] == DTYPES["fp32"] == 4


@given(n_head=st.integers(1, 64), head_dim=st.integers(1, 256))
def test_any_two_of_the_three_widths_give_the_same_heads(n_head, head_dim):
    d_model = n_head * head_dim
    assert (
        heads_from(d_model, n_head, None)
        == heads_from(None, n_head, head_dim)
        == heads_from(d_model, None, head_dim)
        == heads_from(d_model, n_head, head_dim)
        == (d_model, n_head)
    )


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ((768, None, 72), "d_model 768 is not divisible by head_dim 72: 64 or 96 would do"),
        ((768, 12, 32), "d_model 768 is not n_head 12 × head_dim 32 = 384: give two of the three"),
        ((768, None, None), "d_model, n_head and head_dim: two of the three must be known"),
        ((None, None, None), "d_model, n_head and head_dim: two of the three must be known"),
        ((None, 0, 64), "n_head 0 is not a count: a whole number from 1 to 10¹³ would do"),
    ],
)
def test_widths_that_do_not_agree_say_what_would_do(widths, message):
    with pytest.raises(ShapeError) as error:
        heads_from(*widths)
    assert str(error.value) == message


@given(number=st.integers(1, 5000), wanted=st.integers(1, 5000))
def test_no_divisor_lies_between_the_nearest_two(number, wanted):
    nearest = nearest_divisors(number, wanted)
    assert all(number % divisor == 0 and divisor != wanted for divisor in nearest)
    between = range(min(nearest, default=0) + 1, max(nearest, default=0))
    if len(nearest) == 2:
        assert nearest[0] < wanted < nearest[1]
        assert not [d for d in between if number % d == 0 and d != wanted]
