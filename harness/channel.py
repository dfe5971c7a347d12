"""The child's end of the line to its parent: one job in on stdin, events out on what was stdout, a JSON line each.

Whatever else the child prints, from Python or from C, goes to stderr, so it can never be taken for an event.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1


class Channel:
    """Take over this process's stdin and stdout; `job` is what the parent asked for.

    With `die_with_parent` the process that started this one takes it along; a profiler in between may start it
    from a thread that ends at once, which the kernel takes for the parent.
    """

    def __init__(self, *, die_with_parent: bool = True) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if die_with_parent:
            _die_with_parent()
        self.job: dict[str, Any] = json.loads(sys.stdin.readline())
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def send(self, event: str, **facts: Any) -> None:
        """One event, out before this returns, so that a crash right after it loses nothing."""
        self._events.write(json.dumps({"event": event, **facts}) + "\n")
        self._events.flush()


def _die_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies: a killed run must not leave a busy GPU behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
