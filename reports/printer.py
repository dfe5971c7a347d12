"""Lines on a console: foreign text stays text, tables stay whole, sentences are wrapped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from reports.spelling import speller
from reports.text import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


UNITS = re.compile(r"(?<=\d) (?=[%×])")
"""The space between a number and its sign, at which no line ends."""
TIE = "\ue000"
"""What stands for it meanwhile: as wide as a space, and none to whoever breaks lines."""


class Printer:
    """Prints foreign text as text: no markup, wrapped only where it is asked for, in signs that the stream has."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spelled = speller(console.encoding)
        self.width = console.width

    def line(self, text: str | Text = "", style: str = "") -> None:
        """One line as it is, never wrapped: a table's row, or a command that must stay whole to be copied."""
        text = text if isinstance(text, Text) else Text(self._spelled(text), style)
        self._console.print(text, soft_wrap=True)

    def wrapped(self, text: str, style: str = "", label: str = "") -> None:
        """`text` in lines as wide as the console, beside `label`, which its first line begins with."""
        room = max(self.width - len(label), 20)
        tied = UNITS.sub(TIE, self._spelled(text))
        pieces = [piece.plain.rstrip() for piece in Text(tied).wrap(self._console, room, overflow="fold")]
        pieces = [piece.replace(TIE, " ") for piece in pieces]
        for number, piece in enumerate(pieces or [""]):
            start = Text(label if number == 0 else " " * len(label), style or "bold")
            self.line(start.append(piece, style or "not bold"))

    def packed(self, parts: Sequence[str], style: str = "", label: str = "") -> None:
        """The parts joined by ` · `, broken only between two of them where that will do."""
        for number, line in enumerate(
            pack(list(map(self._spelled, parts)), max(self.width - len(label), 20))
        ):
            self.wrapped(line, style, label if number == 0 else " " * len(label))
