"""The field's signs for streams whose encoding lacks them: µ as u, × as x, a bar's blocks as # and the like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SPELLED = {
    "µ": "u",
    "×": "x",
    "÷": "/",
    "·": "-",
    "–": "-",
    "−": "-",
    "±": "+-",
    "…": "...",
    "→": "->",
    "²": "^2",
    "³": "^3",
    "≤": "<=",
    "≥": ">=",
    "√": "sqrt ",
    "▸": ">",
    "≈": "=",
    "▁": "_",
    "▂": ".",
    "▃": "-",
    "▄": "=",
    "▅": "+",
    "▆": "*",
    "▇": "%",
    "█": "#",
    "▒": ":",
    "░": ".",
}
"""How each sign is written in ASCII. Eighths of a block are seven rising marks."""


def speller(encoding: str) -> Callable[[str], str]:
    """What writes a text's signs as this encoding can; a longer spelling takes the blanks before it where it may.

    So columns stay below each other. What has no spelling here is left as it is.
    """
    lacking = {sign: text for sign, text in SPELLED.items() if not _has(encoding, sign)}
    if not lacking:
        return str
    signs = re.compile(f"( *)([{''.join(lacking)}])")

    def spelled(found: re.Match[str]) -> str:
        blanks, text = found[1], lacking[found[2]]
        spare = max(len(blanks) - 1, 0)
        return blanks[min(spare, len(text) - 1) :] + text

    return lambda text: signs.sub(spelled, text)


def _has(encoding: str, sign: str) -> bool:
    try:
        sign.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
