"""What the user asked for, parsed and checked before any process is started."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from harness.errors import UsageError, shown, unknown
from variants.direction import DIRECTIONS
from variants.presets import PRESETS, Preset
from variants.shape import LARGEST_COUNT, Shape, ShapeError, canonical_dtype, heads_from
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

MASKS = {"causal": True, "full": False}

MOST_IN_A_RANGE = 1_000
MOST_SHAPES = 10_000
"""A slip in a step is told, rather than planned for hours; so is one in several options that multiply."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a device measures when the user does not say. Of stacks the first batch alone.

    `one_model` is what stages have that measure one by default (`Stage.one_model`).
    """

    batch: tuple[int, ...]
    seq_len: tuple[int, ...]
    dtype: tuple[str, ...]
    one_model: str
    budget_s: float


QUICK_MODEL = "andrea-120m"
GPU_DEFAULTS = Defaults((1, 32), (1024,), ("bf16",), QUICK_MODEL, budget_s=300.0)
CPU_DEFAULTS = Defaults((1,), (256,), ("fp32",), "andrea-12m", budget_s=75.0)
QUICK_BUDGET_S = 7.0
REPLICATES = 3
SILENCE_S = 60.0


def defaults_for(device: str) -> Defaults:
    """The defaults of `cpu` or of a CUDA device."""
    return CPU_DEFAULTS if device == "cpu" else GPU_DEFAULTS


@dataclass(frozen=True, slots=True)
class Selection:
    """The stages, variants, shapes and directions asked for; an empty tuple means every one, or the default."""

    stages: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    d_model: tuple[int, ...] = ()
    n_head: tuple[int, ...] = ()
    head_dim: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    seq_len: tuple[int, ...] = ()
    masks: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    n_layer: tuple[int, ...] = ()
    directions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind, names, known in (
            ("stage", self.stages, STAGES),
            ("model", self.models, PRESETS),
            ("mask", self.masks, MASKS),
            ("direction", self.directions, DIRECTIONS),
        ):
            for name in names:
                if name not in known:
                    raise unknown(kind, name, known)
        try:
            for dtype in self.dtypes:
                canonical_dtype(dtype)
            self._refuse_too_many()
            for stage in STAGES:
                self.shapes(CPU_DEFAULTS, stage)
        except ShapeError as error:
            raise UsageError(str(error)) from error
        if self.n_layer and self.stages and not any(STAGES[name].deep for name in self.stages):
            raise UsageError(
                f"--n-layer {self.n_layer[0]} is the depth of a stack, and --stage {','.join(self.stages)} has none: "
                f"--stage stack would do, or leave --n-layer out"
            )

    def shapes(self, defaults: Defaults, stage: str) -> tuple[Shape, ...]:
        """Every shape of a stage that was asked for, in a stable order, each once.

        Raises:
            ShapeError: the sizes do not fit one another.
        """
        deep = STAGES[stage].deep
        every = itertools.product(
            self._sizes((defaults.one_model,) if STAGES[stage].one_model else tuple(PRESETS), deep=deep),
            self.batch or (defaults.batch[:1] if deep else defaults.batch),
            self.seq_len or defaults.seq_len,
            self.masks or ("causal",),
            self.dtypes or defaults.dtype,
        )
        return unique(
            Shape(batch, seq_len, d_model, n_head, MASKS[mask], dtype, n_layer)
            for (d_model, n_head, n_layer), batch, seq_len, mask, dtype in every
        )

    def _refuse_too_many(self) -> None:
        """Counted before they are made, for which a slip could need all memory."""
        swept = {
            "--model": self.models,
            "--d-model": self.d_model,
            "--n-head": self.n_head,
            "--head-dim": self.head_dim,
            "--n-layer": self.n_layer,
            "--batch": self.batch,
            "--seq-len": self.seq_len,
            "--mask": self.masks,
            "--dtype": self.dtypes,
        }
        several = {option: len(values) for option, values in swept.items() if len(values) > 1}
        if (count := math.prod(several.values())) > MOST_SHAPES:
            counts = " × ".join(f"{number:,} of {option}" for option, number in several.items())
            raise UsageError(
                f"{counts} are {count:,} shapes: {MOST_SHAPES:,} at most; give fewer values, or several runs"
            )

    def _sizes(self, models: tuple[str, ...], *, deep: bool) -> tuple[tuple[int, int, int], ...]:
        """(d_model, n_head, n_layer) of every model asked for, or of these, after the sweeps.

        A swept head_dim keeps the model's n_head, and d_model follows; with d_model given it keeps the width,
        and n_head follows. The depth is the model's in a stack, and 1 elsewhere.
        """
        sweeps = bool(self.d_model or self.n_head or self.head_dim or (deep and self.n_layer))
        chosen = [PRESETS[name] for name in self.models or ((QUICK_MODEL,) if sweeps else models)]
        return unique(
            (*heads, depth)
            for model in chosen
            for heads in self._swept(model)
            for depth in ((self.n_layer or (model.n_layer,)) if deep else (1,))
        )

    def _swept(self, model: Preset) -> Iterable[tuple[int, int]]:
        if not self.head_dim:
            return itertools.product(self.d_model or (model.d_model,), self.n_head or (model.n_head,))
        n_heads = self.n_head or ((None,) if self.d_model else (model.n_head,))
        sizes = itertools.product(self.d_model or (None,), n_heads, self.head_dim)
        return (heads_from(d_model, n_head, head_dim) for d_model, n_head, head_dim in sizes)


def split_values(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """`--head-dim 32,64 --head-dim 72` as one tuple, empty pieces left out; empty when the option was not given.

    Raises:
        UsageError: it was given, and holds no value: that must not mean "everything".
    """
    values = unique(piece.strip() for value in given or () for piece in value.split(",") if piece.strip())
    if given and not values:
        raise UsageError(f"{option} {shown(given[0])} holds no value: give one, or leave {option} out")
    return values


def split_counts(option: str, given: Sequence[str] | None) -> tuple[int, ...]:
    """The same as whole numbers from 1; `16:256:8` is 16, 24, … 256.

    Raises:
        UsageError: a piece is neither such a number nor such a range.
    """
    return unique(count for piece in split_values(option, given) for count in _counts(option, piece))


def _counts(option: str, piece: str) -> Sequence[int]:
    bounds = piece.split(":")
    if not all(map(_is_count, bounds)) or len(bounds) not in (1, 3):
        raise UsageError(
            f"{option} {shown(piece)} is not a count: whole numbers from 1 to 10¹³, as in {option} 32,64, "
            f"or first:last:step, as in 16:256:8"
        )
    if len(bounds) == 1:
        return (int(piece),)
    first, last, step = map(int, bounds)
    counts = range(first, last + 1, step)
    if not 1 <= len(counts) <= MOST_IN_A_RANGE:
        raise UsageError(
            f"{option} {piece} is {len(counts):,} values: 1 to {MOST_IN_A_RANGE:,} would do, first:last:step with "
            f"the last no less than the first"
        )
    return counts


def _is_count(text: str) -> bool:
    # The length comes first: Python refuses to convert thousands of digits.
    digits = text.isascii() and text.isdigit() and len(text) <= 20
    return digits and 1 <= int(text) <= LARGEST_COUNT


def parse_seconds(option: str, text: str) -> float:
    """`90`, `90s` or `2m` as seconds.

    Raises:
        UsageError: it is none of these, or not above 0.
    """
    scale = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    number = text[:-1] if scale else text
    try:
        seconds = float(number) * (scale or 1.0) if text.isascii() else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise UsageError(
            f"{option} {shown(text)} is not a time: seconds above 0 would do, as in {option} 90s or {option} 2m"
        )
    return seconds


def unique(items: Iterable[T]) -> tuple[T, ...]:
    """The items in order, each once."""
    return tuple(dict.fromkeys(items))
