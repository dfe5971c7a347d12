"""What the user asked for, parsed and checked before any process is started."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from harness.errors import UsageError, shown, unknown
from variants.presets import PRESETS, Preset
from variants.shape import LARGEST_COUNT, Shape, ShapeError, canonical_dtype, heads_from
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

MASKS = {"causal": True, "full": False}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a device measures when the user does not say."""

    batch: tuple[int, ...]
    seq_len: tuple[int, ...]
    dtype: tuple[str, ...]
    budget_s: float


GPU_DEFAULTS = Defaults(batch=(1, 32), seq_len=(1024,), dtype=("bf16",), budget_s=210.0)
CPU_DEFAULTS = Defaults(batch=(1,), seq_len=(256,), dtype=("fp32",), budget_s=75.0)
QUICK_BUDGET_S = 8.0
QUICK_MODEL = "andrea-120m"
REPLICATES = 3
SILENCE_S = 60.0


def defaults_for(device: str) -> Defaults:
    """The defaults of `cpu` or of a CUDA device."""
    return CPU_DEFAULTS if device == "cpu" else GPU_DEFAULTS


@dataclass(frozen=True, slots=True)
class Selection:
    """The stages, variants and shapes asked for; an empty tuple means every one, or the device's default."""

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

    def __post_init__(self) -> None:
        for kind, names, known in (
            ("stage", self.stages, STAGES),
            ("model", self.models, PRESETS),
            ("mask", self.masks, MASKS),
        ):
            for name in names:
                if name not in known:
                    raise unknown(kind, name, known)
        try:
            for dtype in self.dtypes:
                canonical_dtype(dtype)
            self.shapes(CPU_DEFAULTS)
        except ShapeError as error:
            raise UsageError(str(error)) from error

    def shapes(self, defaults: Defaults) -> tuple[Shape, ...]:
        """Every shape asked for, in a stable order, each once.

        Raises:
            ShapeError: the sizes do not fit one another.
        """
        every = itertools.product(
            self._heads(),
            self.batch or defaults.batch,
            self.seq_len or defaults.seq_len,
            self.masks or ("causal",),
            self.dtypes or defaults.dtype,
        )
        return unique(
            Shape(batch, seq_len, d_model, n_head, MASKS[mask], dtype)
            for (d_model, n_head), batch, seq_len, mask, dtype in every
        )

    def _heads(self) -> tuple[tuple[int, int], ...]:
        """(d_model, n_head) of every model asked for, after the sweeps.

        A swept head_dim keeps the model's n_head, and d_model follows; with d_model given it keeps the width,
        and n_head follows.
        """
        sweeps = bool(self.d_model or self.n_head or self.head_dim)
        names = self.models or ((QUICK_MODEL,) if sweeps else tuple(PRESETS))
        return unique(pair for name in names for pair in self._swept(PRESETS[name]))

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
    """The same as whole numbers from 1.

    Raises:
        UsageError: a piece is no such number.
    """
    for piece in split_values(option, given):
        # The length comes first: Python refuses to convert thousands of digits.
        digits = piece.isascii() and piece.isdigit() and len(piece) <= 20
        if not digits or not 1 <= int(piece) <= LARGEST_COUNT:
            raise UsageError(
                f"{option} {shown(piece)} is not a count: whole numbers from 1 to 10¹³, as in {option} 32,64"
            )
    return tuple(int(piece) for piece in split_values(option, given))


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
