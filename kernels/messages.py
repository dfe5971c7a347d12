"""What an exception says, as short as a reason in one line must be."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of its message that says anything; without any, its type's name."""
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()) if lines else type(error).__name__
