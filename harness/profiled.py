"""A child under Nsight Compute, from its job to the launches that were counted in it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.child import RUNNING, Child, Silent
from harness.following import Fault, follow
from harness.probe import START_S
from harness.sensors.ncu_csv import Launch, Uncounted, launches

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.progress import Progress
    from harness.sensors.ncu import Ncu
    from harness.sensors.ncu_metrics import Chip

WRITING_S = 120.0
"""Nsight Compute writes its table when the program under it has ended."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What came of it: how the child ended (None: as it should), all that Nsight Compute printed, and the launches.

    `launches` are by the number of their range; None where no table was written.
    """

    fault: Fault | None
    said: str
    launches: dict[int, list[Launch]] | None


def profile(
    ncu: Ncu,
    chip: Chip,
    job: dict[str, Any],
    silence_s: float,
    progress: Progress | None,
    handle: Callable[[dict[str, Any]], None],
) -> Profile:
    """Run `harness.counted` with this job under Nsight Compute until both have ended, its events handed on.

    Raises:
        HeadbenchError: the child refused its job.
        Uncounted: a table was written that cannot be read, or there is no place for it.
    """
    with _folder() as folder:
        log = Path(folder) / "ncu.csv"
        program = replace(RUNNING, under=ncu.command(chip.metrics, log))
        with Child("harness.counted", {**job, "parent": os.getpid()}, START_S, program) as child:
            fault = follow(child, silence_s, progress, handle)
            if fault is None:
                _let_it_write(child)
            printed = child.said()
        table = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return Profile(fault, f"{printed}\n{table}", launches(table))


def _folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="headbench-")
    except OSError as error:
        raise Uncounted(
            f"its table has no place in the temporary folder ({error.strerror}): set TMPDIR to another"
        ) from error


def _let_it_write(child: Child) -> None:
    """The child is done; whatever it still prints is read, or it could not end."""
    child.silence_s = WRITING_S
    with suppress(Silent):
        for _ in child.events():
            pass
