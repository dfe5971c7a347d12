"""What every sensor is: it says whether it can watch here, watches one call, and lets go of what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from results.figures import FIGURES

if TYPE_CHECKING:
    from harness.timers import Call
    from results.figures import Figures


class Sensor(Protocol):
    """One source of figures about a call, used outside every timed block."""

    @property
    def step(self) -> str:
        """What the progress says while it watches."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of an observation that it fills."""

    @property
    def reason(self) -> str | None:
        """Why it cannot watch on this machine; None where it can."""

    def sample(self, call: Call) -> dict[str, Figures]:
        """Watch `call`, which has run before: figures for each of `fields`, each value there or a reason in words."""

    def close(self) -> None:
        """Let go of what it holds of the machine."""


class Missing:
    """A sensor that is not there: every figure of it is the reason why."""

    def __init__(self, step: str, fields: tuple[str, ...], reason: str) -> None:
        self.step, self.fields, self.reason = step, fields, reason

    def sample(self, _call: Call) -> dict[str, Figures]:
        """The reason, for each field."""
        return {field: unseen(field, self.reason) for field in self.fields}

    def close(self) -> None:
        """Nothing is held."""


def unseen(field: str, reason: str) -> Figures:
    """What stands for figures where there are none."""
    return FIGURES[field](reason=reason)
