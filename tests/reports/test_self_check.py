"""A self-check in words: both rates with their intervals, and what each mode can find."""

from __future__ import annotations

import math

from reports.self_check import sentences
from results.self_check import Rate, SelfCheck, Sensitivity, self_check
from tests.results import builders
from tests.results.sessions import STEADY, session

ALARMS, CONFIRMED = Rate(2, 40, 0.0061, 0.1692), Rate(0, 40, 0.0, 0.0881)
MODES = (Sensitivity("isolated", True, 20, 0.0101, 0.0342), Sensitivity("eager", False, 20, 0.3, math.inf))


def test_each_rate_and_each_mode_has_a_line() -> None:
    assert sentences(SelfCheck(ALARMS, CONFIRMED, MODES)) == [
        "self-check: identical code called different in 2 of 40 comparisons, 5.0 % (95 % interval 0.6 to 16.9 %); "
        "the rule promises at most 1 %",
        "self-check: called slower and confirmed, as would fail a CI, in 0 of 40 comparisons, 0.0 % "
        "(95 % interval 0.0 to 8.8 %)",
        "self-check: isolated: 10 pairs find a slowdown of 1.0 % in half of the cases, of 3.4 % in the noisiest",
        "self-check: eager (not guarded): 10 pairs find a slowdown of 30.0 % in half of the cases, of no finite size "
        "in the noisiest",
    ]


def test_fewer_pairs_than_a_look_takes_say_nothing() -> None:
    known = self_check(session({builders.case("fused"): STEADY[:4]}))
    assert sentences(known) == ["self-check: no comparison has the 5 pairs that a verdict takes"]
