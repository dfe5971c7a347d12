"""What may be given to the `headbench` fixture: its types and ranges, which on a command line the parser checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.errors import UsageError
from harness.options import LARGEST_SEED
from results.codec import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Rule: TypeAlias = "tuple[Callable[[Any], bool], str]"


def check(given: Mapping[str, Any]) -> None:
    """Refuse the first argument that is not of its kind; sizes, names and times are judged where they are used.

    Raises:
        UsageError: the message names the argument, the value and what would do.
    """
    for name, (fits, would_do) in RULES.items():
        if not fits(given[name]):
            raise UsageError(f"{name}={shortened(given[name])} does not fit: {would_do}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_path(value: object) -> bool:
    return isinstance(value, str | Path)


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule[0](value), rule[1]


TEXT: Rule = (lambda value: isinstance(value, str), "text would do, as in stage='qkv'")
WHOLE: Rule = (_is_whole, "a whole number would do, as in head_dim=64")

RULES: dict[str, Rule] = {
    **dict.fromkeys(("stage", "variant"), TEXT),
    **dict.fromkeys(("model", "mask", "dtype", "direction", "mode", "device"), _or_none(TEXT)),
    **dict.fromkeys(
        ("d_model", "n_head", "head_dim", "n_layer", "batch", "seq_len", "replicates"), _or_none(WHOLE)
    ),
    "budget_s": (
        lambda value: value is None or isinstance(value, float) or _is_whole(value),
        "seconds would do, as in budget_s=60",
    ),
    "seed": (
        lambda value: _is_whole(value) and 0 <= value <= LARGEST_SEED,
        f"a whole number from 0 to {LARGEST_SEED} would do",
    ),
    "plugins": (
        lambda value: (
            isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_path, value))
        ),
        "a list of paths would do, as in plugins=['mine.py']",
    ),
}
