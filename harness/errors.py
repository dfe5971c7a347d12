"""The faults a user can cause or must hear of. Each is one line; the command line turns it into an exit code."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


LONGEST_SHOWN = 60


INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class HeadbenchError(Exception):
    """Something ended the command; `exit_code` is the process's."""

    exit_code = 1


class UsageError(HeadbenchError):
    """A wrong option or combination, or a device that is not there: exit 2."""

    exit_code = 2


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UsageError:
    """`<kind> <name> is unknown`, in `where` if told, with the nearest known names, or all when none is near."""
    names = list(known)
    said = f"{kind} {shown(name)} is unknown{f' in {where}' if where else ''}"
    if near := difflib.get_close_matches(name, names, n=3, cutoff=0.5):
        return UsageError(f"{said}: did you mean {' or '.join(near)}?")
    return UsageError(f"{said}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} known")


def printable(text: str) -> str:
    """The text on one line, without control codes or overrides of direction, whatever a name or a reason quotes."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))


def shown(text: str) -> str:
    """What the user typed, quoted and of bounded length, for a message."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…")
