"""Foreign text (names, reasons, paths) made safe to show: no control codes, no line breaks, no surprises."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

MISSING = "–"

REASON_CHARACTERS = 400
"""A reason longer than this is cut where it is shown; the stored run keeps it whole."""

_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: object) -> str:
    """`text` on one line, blanks collapsed and every invisible or control character written as an escape.

    A reason may quote whatever a variant printed: escape codes, bidirectional overrides, lone surrogates.
    """
    return visible(" ".join(str(text).split()))


def visible(text: str) -> str:
    """`text` with every invisible or control character, line breaks among them, written as an escape."""
    return "".join(map(_visible, text))


def csv(frame: DataFrame) -> str:
    """The table as CSV, a line per row: no text breaks a line or reaches a terminal as a control code."""
    shown = frame.apply(
        lambda column: column.map(visible, na_action="ignore") if column.dtype.kind == "O" else column
    )
    return str(shown.to_csv(index=False))


def shorten(text: object, limit: int = REASON_CHARACTERS) -> str:
    """`plain(text)`, cut to `limit` characters; a cut ends in an ellipsis."""
    line = plain(text)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def listing(names: tuple[str, ...]) -> str:
    """`a, b, c`, each made plain."""
    return ", ".join(map(plain, names))


def conjoined(names: Sequence[str]) -> str:
    """`a, b and c`, each as it is."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def pack(parts: Sequence[str], width: int) -> list[str]:
    """The parts joined by ` · ` into lines no wider than `width`, none broken; one too wide has its own line."""
    packed: list[str] = []
    for part in parts:
        joined = f"{packed[-1]} · {part}" if packed else part
        if packed and cell_len(joined) <= width:
            packed[-1] = joined
        else:
            packed.append(part)
    return packed


def _visible(character: str) -> str:
    if unicodedata.category(character) in _UNPRINTABLE:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character
