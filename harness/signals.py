"""SIGTERM and a closed terminal end a command as Ctrl-C does, so that it shows what it has and clears up."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first of these signals; the handlers are set back when the block ends.

    After the first all are ignored: a second must cut off neither the clearing up nor what is still said. One that
    is ignored already, as under nohup, stays so.
    """

    def interrupt(_number: int, _frame: object) -> None:
        ignore_signals()
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in ENDING}
    for one in ENDING:
        if before[one] is not signal.SIG_IGN:
            signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one in ENDING:
            signal.signal(one, before[one])


def ignore_signals() -> None:
    """Let none of them cut off what is to be shown; for the rest of an `ended_by_signals` block."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
