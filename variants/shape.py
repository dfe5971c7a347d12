"""The shape of an attention sublayer, or of a stack of them: what a case is measured at."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

DTYPES = {
    "bf16": 2,
    "fp16": 2,
    "tf32": 4,
    "fp32": 4,
}
"""Bytes per element by dtype name. `tf32` stores float32 and lets the tensor cores round it to 10 bits."""

DTYPE_ALIASES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}


LARGEST_COUNT = 10**13
"""Beyond any size a machine has, and still quick to look for divisors of."""


class ShapeError(ValueError):
    """A shape that breaks a rule; the message names the field, the value, the rule and what would do."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One sublayer's sizes, checked when built.

    `head_dim` is `d_model / n_head` and must come out whole. Sizes are counts, at least 1; `dtype` is a key
    of `DTYPES` or one of its aliases. `n_layer` is the depth of a stack, and 1 in every other stage.

    Raises:
        ShapeError: a size is not a positive integer, n_head does not divide d_model, or the dtype is unknown.
    """

    batch: int
    seq_len: int
    d_model: int
    n_head: int
    causal: bool = True
    dtype: str = "fp32"
    n_layer: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "int":
                _check_count(field.name, getattr(self, field.name))
        if self.d_model % self.n_head:
            raise ShapeError(
                f"d_model {self.d_model} is not divisible by n_head {self.n_head}: "
                f"{_either(nearest_divisors(self.d_model, self.n_head))} would do"
            )
        object.__setattr__(self, "dtype", canonical_dtype(self.dtype))

    @property
    def head_dim(self) -> int:
        """Features per head."""
        return self.d_model // self.n_head

    @property
    def tokens(self) -> int:
        """Rows of the activation matrix: batch × seq_len."""
        return self.batch * self.seq_len

    @property
    def element_bytes(self) -> int:
        """Bytes of one stored element."""
        return DTYPES[self.dtype]

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        heads = f"{self.n_head}×{self.head_dim}"
        depth = f", {self.n_layer} layers" if self.n_layer > 1 else ""
        return f"batch {self.batch}, seq_len {self.seq_len}, heads {heads}{depth}, {mask}, {self.dtype}"


def heads_from(d_model: int | None, n_head: int | None, head_dim: int | None) -> tuple[int, int]:
    """(d_model, n_head) from any two of d_model, n_head and head_dim, or from all three where they agree.

    Raises:
        ShapeError: fewer than two are given, head_dim does not divide d_model, or the three disagree.
    """
    for name, value in (("d_model", d_model), ("n_head", n_head), ("head_dim", head_dim)):
        if value is not None:
            _check_count(name, value)
    match d_model, n_head, head_dim:
        case int(), int(), None:
            return d_model, n_head
        case None, int(), int():
            return n_head * head_dim, n_head
        case int(), None, int():
            if d_model % head_dim:
                choices = _either(nearest_divisors(d_model, head_dim))
                raise ShapeError(
                    f"d_model {d_model} is not divisible by head_dim {head_dim}: {choices} would do"
                )
            return d_model, d_model // head_dim
        case int(), int(), int():
            if n_head * head_dim != d_model:
                raise ShapeError(
                    f"d_model {d_model} is not n_head {n_head} × head_dim {head_dim} = {n_head * head_dim}: "
                    f"give two of the three"
                )
            return d_model, n_head
        case _:
            raise ShapeError("d_model, n_head and head_dim: two of the three must be known")


def nearest_divisors(number: int, wanted: int) -> list[int]:
    """The nearest divisor of `number` below `wanted` and the nearest above it, where they exist."""
    divisors = _divisors(number)
    below = [d for d in divisors if d < wanted][-1:]
    above = [d for d in divisors if d > wanted][:1]
    return below + above


def canonical_dtype(name: str) -> str:
    """The short name of a dtype (`bfloat16` is `bf16`).

    Raises:
        ShapeError: the name is none of `DTYPES` and none of its aliases.
    """
    short = DTYPE_ALIASES.get(name, name)
    if short not in DTYPES:
        raise ShapeError(f"dtype {name!r} is unknown: {', '.join(DTYPES)} are known")
    return short


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        raise ShapeError(f"{name} {value!r} is not a count: a whole number from 1 to 10¹³ would do")


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _either(choices: list[int]) -> str:
    return " or ".join(map(str, choices))
