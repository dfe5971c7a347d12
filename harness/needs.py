"""A worker's time shared over its groups by need: what one does not need goes to those that need more.

A replicate tells the parent what each group took and would have taken; the next one is shared accordingly. In
the first nothing is known, and every case counts alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Need:
    """What a group needs: `fixed_s` for checking, `wanted_s` for sampling until it knows its answers.

    `weight` is its part of what is shared where there is not enough: its number of cases.
    """

    weight: float
    fixed_s: float = 0.0
    wanted_s: float = math.inf


def shares(total_s: float, needs: Sequence[Need]) -> list[float]:
    """Seconds for each: what is fixed, then as much as it wants, up to a level per weight that all share.

    The level is the highest that the total allows (max-min fairness), so nobody who gets less than wanted
    could get more without taking from one who has no more than itself. A total below what is fixed gives
    everyone what is fixed: checking cannot be left out.
    """
    left_s = max(total_s - sum(need.fixed_s for need in needs), 0.0)
    weight = sum(need.weight for need in needs)
    sampling = [0.0] * len(needs)
    for place in sorted(range(len(needs)), key=lambda place: needs[place].wanted_s / needs[place].weight):
        need = needs[place]
        sampling[place] = min(need.wanted_s, left_s * need.weight / weight)
        left_s -= sampling[place]
        weight -= need.weight
        if weight <= 0:
            break
    return [need.fixed_s + seconds for need, seconds in zip(needs, sampling, strict=True)]
