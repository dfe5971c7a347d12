"""A stored run that cannot be shown: one line instead of a traceback."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.errors import HeadbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results.run import Run


@contextmanager
def damage_told(*runs: Run) -> Iterator[None]:
    """What is plain JSON in a manifest can hold anything once somebody has edited it, and counts may be 0."""
    try:
        yield
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        named = ", ".join(str(run.path) for run in runs)
        raise HeadbenchError(f"{named} cannot be shown, its manifest may be damaged ({error!r})") from error
