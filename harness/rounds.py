"""Balanced rounds: the variants of a group take turns, so that heat, clocks and neighbours fall on all alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.sensors.nvml import NOTHING_READ, Reading
from harness.series import FEWEST_SAMPLES
from results.schema import Stopped

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from harness.series import Series

ROUNDS = 5
"""A series' time is shared out over at least so many blocks."""
LONGEST_BLOCK_S = 2.0
"""Also a sign of life: the parent hears of every block."""


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rounds need from outside, so that a test can script all of it.

    `before_block` is told the series about to be sampled; at the end of each block `read` says how the GPU is,
    then `after_block` may raise to give up the case in hand. No block is longer than `longest_block_s`, once it
    has its fewest samples.
    """

    clock_s: Callable[[], float]
    before_block: Callable[[Series], None] = _nothing
    after_block: Callable[[], None] = _nothing
    read: Callable[[], Reading] = lambda: NOTHING_READ
    longest_block_s: float = LONGEST_BLOCK_S


def measure(series: Sequence[Series], seconds: float, order: random.Random, around: Surroundings) -> None:
    """Fill the series within about `seconds`: a block of each in every round, the cases in a fresh order each time.

    Time is shared by need: each gets as much as any other, and what one that knows its answer leaves over goes
    to those that do not.
    """
    deadline = around.clock_s() + seconds
    rounds_done = 0
    while running := [one for one in series if one.stopped is None]:
        if rounds_done and around.clock_s() >= deadline:
            break
        rounds_left = max(ROUNDS - rounds_done, 1)
        for position, one in enumerate(_shuffled_by_case(running, order)):
            blocks_left = len(running) * rounds_left - position
            share = (deadline - around.clock_s()) / blocks_left
            if share > 0 or len(one.used) < FEWEST_SAMPLES:
                _sample_block(one, min(share, around.longest_block_s), around)
        rounds_done += 1
    for one in series:
        one.stopped = one.stopped or Stopped.SHARE_SPENT


def _sample_block(one: Series, seconds: float, around: Surroundings) -> None:
    around.before_block(one)
    start = around.clock_s()
    if not one.spans_s:
        one.warm_up()
    end = around.clock_s() + seconds
    for _ in range(_most_in_a_block(one)):
        one.take()
        out_of_time = around.clock_s() >= end and len(one.used) >= FEWEST_SAMPLES
        if out_of_time or one.is_precise():
            break
    took_s = around.clock_s() - start
    one.end_block(around.read(), took_s)
    around.after_block()


def _most_in_a_block(one: Series) -> int:
    """So few that a series which ends by number comes from every round, and never more than are to come."""
    return min(one.most_samples // ROUNDS, one.most_samples - len(one.used))


def _shuffled_by_case(series: list[Series], order: random.Random) -> list[Series]:
    """Cases in a random order, the modes of one case next to each other: all meet the same clocks and heat."""
    by_case: dict[str, list[Series]] = {}
    for one in series:
        by_case.setdefault(one.case_key, []).append(one)
    cases = list(by_case.values())
    order.shuffle(cases)
    return [one for case in cases for one in case]
