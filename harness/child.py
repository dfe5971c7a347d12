"""The parent's end: start a fresh Python process, read its events, notice silence, keep the tail of what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TAIL_BYTES = 4096
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Program:
    """What a child runs: a Python interpreter, the folder that holds headbench's packages, and more for its path.

    `under` is the command it runs under, a profiler's with its options.
    """

    python: str
    root: Path
    path: tuple[Path, ...] = ()
    under: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """The parent's, with the code's folder first on the path, before any headbench that is installed.

        Code that is installed for this very interpreter is found as it is: its folder holds every other
        package, too, and first on the path it would hide the standard library's.
        """
        installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
        is_running = replace(self, under=()) == RUNNING
        ours = [] if is_running and self.root in installed else [str(self.root), *map(str, self.path)]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }


RUNNING = Program(sys.executable, Path(__file__).resolve().parent.parent)
"""The interpreter and the code of this process."""


class Silent(Exception):
    """The child sent no event for longer than it may."""


class Child:
    """A fresh `python -m <module>` that was handed one job. Use as a context manager: it never outlives the block."""

    def __init__(
        self, module: str, job: dict[str, Any], silence_s: float, program: Program = RUNNING
    ) -> None:
        self.silence_s = silence_s
        self._process = subprocess.Popen(
            # -P: what lies in the current folder is not ours
            [*program.under, program.python, "-P", "-m", module],
            env=program.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        self._tail = self._unended = b""
        try:
            self._hand_over(job)
        except BaseException:  # an interrupt: nobody else knows of the child yet
            self.stop()
            raise

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def events(self) -> Iterator[dict[str, Any]]:
        """Events in order, until the child has ended. Left and asked anew, it goes on with what arrives then.

        Raises:
            Silent: none came for `self.silence_s` seconds (it may be changed on the way); the child still runs.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        heard = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.register(self._process.stderr, selectors.EVENT_READ)
            while selector.get_map():
                if time.monotonic() - heard > self.silence_s:
                    raise Silent
                ready = selector.select(timeout=0.2)
                if not ready and self._process.poll() is not None:
                    break  # a grandchild may hold the pipes open for ever
                for key, _ in ready:
                    chunk = os.read(key.fd, CHUNK_BYTES)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self._process.stderr:
                        self._tail = (self._tail + chunk)[-TAIL_BYTES:]
                    else:
                        *lines, self._unended = (self._unended + chunk).split(b"\n")
                        yield from [event for line in lines if (event := self._event(line))]
                        heard = time.monotonic()  # not before: what the caller did meanwhile is no silence
        try:
            self._process.wait(max(1.0, heard + self.silence_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Silent from None  # it closed its pipes and runs on

    def stop(self) -> None:
        """End the child and whatever it started, at once; harmless when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def how_it_ended(self) -> str:
        """One line: the signal or exit code, and the last line it printed."""
        code = self._process.poll()
        said = self.last_line()
        if code is None or code >= 0:
            how = "is still running" if code is None else f"ended with exit code {code}"
            return f"{how}: {said}" if said else how
        how = f"was ended by {_signal_name(-code)}"
        if -code == signal.SIGKILL:
            how += " (from outside, or by the system for want of memory)"
        # A signal leaves no message: what was printed before it may have nothing to do with it.
        return f"{how}; the last it printed was {said[:80]!r}" if said else how

    def said(self) -> str:
        """The end of what the child printed, some kilobytes of it."""
        return self._tail.decode("utf-8", errors="replace")

    def last_line(self) -> str:
        """The last line the child printed that is not blank."""
        lines = self.said().split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def _event(self, line: bytes) -> dict[str, Any] | None:
        """The event on this line; anything else was printed before the channel was open, and joins the tail."""
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                return event
        self._tail = (self._tail + line + b"\n")[-TAIL_BYTES:]
        return None

    def _hand_over(self, job: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once: `events` ends and `how_it_ended` says how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
