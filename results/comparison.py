"""What a comparison says: one row per case and timing mode, for `ab` and `compare` alike."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from results.columns import IDENTITY_COLUMNS
from results.verdict import Verdict, decide, widening
from results.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pandas import DataFrame

    from results.schema import Case

COLUMNS = {
    **IDENTITY_COLUMNS,
    "mode": "str",
    "guarded": "bool",
    "verdict": "str",
    "ratio": "float64",
    "low": "float64",
    "high": "float64",
    "confidence": "float64",
    "base_s": "float64",
    "head_s": "float64",
    "base_count": "int64",
    "head_count": "int64",
    "reason": "str",
    "needed": "Int64",
    "confirmed": "boolean",
    "lost": "bool",
}
"""A row's columns: the case's, then the fields of `Comparison`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One case in one timing mode.

    `ratio` is head's time ÷ base's: above 1 the head is slower; it lies in `low` to `high` with `confidence`
    (0 to 1), None where nothing is known. `base_s` and `head_s` are the geometric means of `base_count` and
    `head_count` pairs, runs or processes. `guarded`: this mode may fail a CI. `reason` says why there is no
    verdict. `needed` is how many runs a side in all would decide, None where that is unknown or beyond 1,000, and
    of pairs, for no session measures more of them than it did. `confirmed` is None where nothing had to be
    confirmed, else whether the fresh pairs were slower too; the numbers are then those of the fresh pairs, which no
    alarm has selected. `lost`, of an `ab`: base could be measured here, and head alone could not, without
    having failed.
    """

    case: Case
    mode: str
    guarded: bool
    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    base_s: float | None = None
    head_s: float | None = None
    base_count: int = 0
    head_count: int = 0
    reason: str | None = None
    needed: int | None = None
    confirmed: bool | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All rows of one comparison, in plan order, cases before modes.

    `unit` says what was counted: "pairs" (ab), "runs", or "processes" where there were too few runs.
    `only_base` and `only_head` are cases of one side, which are listed and not compared. `failed` are cases of both
    that were incorrect, crashed or timed out in the head; where the base alone did, the head has mended it.
    `notes` hold for everything and are to be shown.
    """

    rows: tuple[Comparison, ...]
    unit: str
    base: str
    head: str
    only_base: tuple[Case, ...] = ()
    only_head: tuple[Case, ...] = ()
    failed: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Comparison, ...]:
        """The guarded rows that are slower: of an `ab`, only what fresh pairs confirmed."""
        return tuple(row for row in self.rows if row.guarded and row.verdict is Verdict.SLOWER)

    @property
    def judged(self) -> tuple[Comparison, ...]:
        """The rows that the answer is about: those that are guarded, or all where none is."""
        return tuple(row for row in self.rows if row.guarded) or self.rows

    @property
    def comparable(self) -> bool:
        """Whether any of the judged rows could be compared."""
        return any(row.verdict is not Verdict.INCOMPARABLE for row in self.judged)

    @property
    def decided(self) -> bool:
        """Whether something is comparable, and no judged row is undecided or lost to the head alone."""
        wanting = (row.verdict is Verdict.UNDECIDED or row.lost for row in self.judged)
        return self.comparable and not any(wanting)

    def frame(self) -> DataFrame:
        """A row per case and mode: the case's fields, then those of `Comparison`; what is unknown is NaN."""
        import pandas as pd  # takes most of a second to import

        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        for row in self.rows:
            plain = asdict(row)
            for name, value in (plain.pop("case") | plain).items():
                columns[name].append(value)
        return pd.DataFrame(columns).astype(COLUMNS)


def bounds(
    centre: float, margin: float, confidence: float
) -> tuple[float, float | None, float | None, float | None]:
    """(ratio, low, high, confidence) of the interval centre ± margin in logs; only a ratio where it is unbounded."""
    if not math.isfinite(margin):
        return as_ratio(centre), None, None, None
    return as_ratio(centre), as_ratio(centre - margin), as_ratio(centre + margin), confidence


def timer_limits(centre: float, margin: float, resolution: float) -> str | None:
    """Why an undecided interval stays so whatever is measured: without its timer's step it would decide."""
    wider = float(widening(resolution))
    if math.isfinite(wider) and str(decide(centre, margin - wider)) == Verdict.UNDECIDED:
        return None
    return f"the timer's step is {percent(resolution)} of the time: nothing finer can be told"


def mean_s(times_s: Iterable[float]) -> float:
    """The geometric mean of positive times: the one whose ratios are the mean of ratios."""
    return math.exp(fmean(math.log(one) for one in times_s))


def as_ratio(log_ratio: float) -> float:
    """e to the log ratio; beyond 700 it would overflow, and such a ratio is as good as unbounded."""
    return math.exp(min(log_ratio, 700.0))
