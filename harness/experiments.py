"""The parent's side of the experiments that time nothing: children share them, each result stored as it comes."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from harness.child import Child, Silent
from harness.errors import HeadbenchError
from harness.probe import START_S
from results.claims.observed import append

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

MOST_CHILDREN = 8
"""Of one thread each, as many as this process may use cores."""
SEEDS, QUICK_SEEDS = 12, 5
STEPS, QUICK_STEPS = 500, 250
HEADS = (4, 1)
"""Of the models that are trained: several, which takes longer, and one of the same width."""

Job = dict[str, Any]


def jobs_for(wanted: Iterable[str], *, quick: bool) -> list[Job]:
    """What to ask of a child for these kinds of experiments, the longest first."""
    kinds = list(dict.fromkeys(wanted))
    seeds, steps = (QUICK_SEEDS, QUICK_STEPS) if quick else (SEEDS, STEPS)
    trainings = [
        {"kind": "learnt", "seed": seed, "n_head": n_head, "steps": steps}
        for n_head in HEADS
        for seed in range(seeds)
        if "learnt" in kinds
    ]
    return [*trainings, *({"kind": kind} for kind in kinds if kind != "learnt")]


def make(jobs: list[Job], folder: Path, note: Callable[[str], None]) -> None:
    """Make the experiments and store each beside the run in `folder`; `note` is told of what is done.

    Raises:
        HeadbenchError: a child died or fell silent; what was stored before stays.
        StoreError: the disk refused.
    """
    children = min(len(os.sched_getaffinity(0)), MOST_CHILDREN, len(jobs))
    shares = [jobs[first::children] for first in range(children)]
    for done, event in enumerate(_events(shares), start=1):
        for one in event["made"]:
            append(folder, event["kind"], one)
        note(f"{done} of {len(jobs)} experiments: {event['kind'].replace('_', ' ')}")


def _events(shares: list[list[Job]]) -> Iterator[Job]:
    """What the children send, as it comes; they end with this block, whatever ends it."""
    arrived: SimpleQueue[Job | str | None] = SimpleQueue()
    with ExitStack() as children:
        for share in shares:
            child = children.enter_context(Child("harness.lesson.child", {"experiments": share}, START_S))
            threading.Thread(target=_listen, args=(child, len(share), arrived), daemon=True).start()
        running = len(shares)
        while running:
            match arrived.get():
                case None:
                    running -= 1
                case str() as fault:
                    raise HeadbenchError(f"the process that makes the claims' experiments {fault}")
                case event:
                    yield event


def _listen(child: Child, due: int, arrived: SimpleQueue[Job | str | None]) -> None:
    """Pass on one child's events; then None, or in words how it failed to send them all."""
    try:
        for event in child.events():
            due -= 1
            arrived.put(event)
    except Silent:
        arrived.put(f"said nothing for {child.silence_s:g} s: {child.last_line()}")
    except (OSError, ValueError):
        arrived.put("was stopped")  # its pipes were closed while it was listened to
    else:
        arrived.put(child.how_it_ended() if due > 0 else None)
