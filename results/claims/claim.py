"""What a claim is, and what judging one yields.

A claim is taken apart into *parts*, each a statement that one number decides. A part `holds` where the number's whole
99 % interval lies on the claim's side of a margin declared beforehand, `fails` where it lies on the other side, and is
`undecided` where it straddles it; `missing` says in words what was not measured. A claim is then

    supported       every part holds
    refuted         at least one part fails and none holds
    partly          anything between, also where a part that holds stands beside one that nobody measured
    not measurable  no part holds and none fails

Nothing counts as held for want of evidence, and no interval is narrowed because several parts are judged: all of them
must hold for a claim to be supported, which no multiplicity makes easier.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from results.claims.evidence import Evidence

CONFIDENCE = 0.99
"""Of every interval that decides a part: there is a single look."""


class Answer(StrEnum):
    """What the evidence says of one part."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    MISSING = "missing"


class Judgement(StrEnum):
    """What is said of a claim."""

    SUPPORTED = "supported"
    PARTLY = "partly"
    REFUTED = "refuted"
    NOT_MEASURABLE = "not measurable here"


class Unit(StrEnum):
    """What a part's number is: a ratio, a share of 1, or a count or another plain number."""

    TIMES = "times"
    SHARE = "share"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Number:
    """A measured value with its 99 % interval; an exact one has neither bound."""

    value: float
    unit: Unit
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Number:
        """The same in another measure, so many times as large."""
        low, high = (None if one is None else factor * one for one in (self.low, self.high))
        return Number(factor * self.value, self.unit, low, high)


@dataclass(frozen=True, slots=True)
class Part:
    """One statement of a claim, judged.

    `says` is what was found, `{}` in it the number's place, `at` the shape it was found at, `margin` where the number
    had to lie. `about` names the kind of statement, alike for every shape and variant. `reason` tells why a part is
    undecided or missing.
    """

    about: str
    at: str
    says: str
    answer: Answer
    margin: str
    number: Number | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """Cases that a claim wants timed, as the options of `run`; an empty tuple leaves the device's default."""

    stages: tuple[str, ...]
    variants: tuple[str, ...] = ()
    d_model: tuple[int, ...] = ()
    n_head: tuple[int, ...] = ()
    head_dim: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    masks: tuple[str, ...] = ()
    counters: bool = False
    needs_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the lesson, the experiment that could refute it, and how it is judged.

    `cases` are timed on the device, `experiments` are kinds of `results.claims.observed.KINDS` that
    processes of their own make on the CPU. `rule` is the rule and its margin in words, `parts` applies it.
    """

    id: str
    words: str
    rule: str
    parts: Callable[[Evidence], list[Part]]
    cases: tuple[Cases, ...] = ()
    experiments: tuple[str, ...] = ()
