"""A child from its job to its end: what it is told, what it has in hand, how it ended, and who is to blame."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.child import Child, Silent
from harness.errors import HeadbenchError
from harness.probe import START_S
from results.schema import Case, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.progress import Progress

KILLED_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
"""No program sends itself these by mistake, so the case in hand gets one more try."""


@dataclass(frozen=True, slots=True)
class InHand:
    """What the child said it was about to do; `case` is None when it is what the whole group shares."""

    group: str
    case: str | None
    step: str

    @property
    def what(self) -> str:
        """The case, or the group."""
        return self.case or self.group

    def holds(self, case: Case) -> bool:
        """Whether this case was in hand."""
        return case.key == self.case or (self.case is None and case.group == self.group)


@dataclass(frozen=True, slots=True)
class Fault:
    """How a child ended that did not finish, and what it had in hand (None: it never got that far)."""

    outcome: Outcome
    reason: str
    in_hand: InHand | None
    killed: bool

    @property
    def during(self) -> str:
        """The reason with what was being done."""
        return f"{self.reason}, during {self.in_hand.step}" if self.in_hand else self.reason


def machine_job(environment: dict[str, Any]) -> dict[str, Any]:
    """What every child is told of the machine: its device, how NVML knows it, how much memory there is."""
    gpu = environment["gpu"]
    return {
        "device": environment["device"],
        "gpu_uuid": gpu["uuid"] if gpu else None,
        "memory_bytes": environment["cpu"]["memory_bytes"],
    }


def follow(
    child: Child, silence_s: float, progress: Progress | None, handle: Callable[[dict[str, Any]], None]
) -> Fault | None:
    """Hand each event on until the child says it is done; None then, else how it ended.

    Raises:
        HeadbenchError: the child refused its job.
    """
    in_hand: InHand | None = None
    try:
        for event in child.events():
            if event["event"] == "done":
                return None  # threads that a variant left running must not hold us up
            if event["event"] == "refused":
                raise HeadbenchError(event["message"])
            with _understood():
                if event["event"] != "begin":
                    handle(event)
                    continue
                in_hand = InHand(event["group"], event["case"], event["step"])
            # What the group shares is our own work, the reference: slow is no fault of a variant.
            child.silence_s = silence_s if in_hand.case else START_S
            if progress:
                progress.case(in_hand.what, in_hand.step)
    except Silent:
        silence = f"no sign of life for {child.silence_s:g} s"
        return Fault(Outcome.TIMED_OUT, silence, in_hand, killed=False)
    killed = child.exit_code in KILLED_FROM_OUTSIDE
    return Fault(Outcome.CRASHED, f"the worker {child.how_it_ended()}", in_hand, killed)


@contextmanager
def _understood() -> Iterator[None]:
    """A side of an `ab` is another version of this code: what it sends may lack what is looked for.

    Raises:
        HeadbenchError: it does.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise HeadbenchError(
            f"a worker answers in words that this headbench cannot read ({error!r})"
        ) from error
