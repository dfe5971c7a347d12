"""The rules: an interval on one side of a margin decides, one that straddles it does not, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.claims.claim import Answer, Judgement, Number, Part, Unit
from results.claims.judging import judgement_of
from results.claims.rules import Statement, above, at_least, below, exactly, missing, within

ASKED = Statement("speed", "it is {} as fast", "it is {}: no faster", "batch 1")
NUMBERS = st.floats(0.01, 100)


def ratio(value: float, low: float | None = None, high: float | None = None) -> Number:
    return Number(value, Unit.TIMES, low, high)


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        (ratio(1.3, 1.2, 1.4), Answer.HOLDS),
        (ratio(1.3, 1.0, 1.7), Answer.UNDECIDED),
        (ratio(1.0, 0.95, 1.05), Answer.FAILS),
        (ratio(1.2), Answer.HOLDS),
        (ratio(1.1, 1.1, 1.2), Answer.UNDECIDED),
    ],
)
def test_above_takes_the_whole_interval(number: Number, answer: Answer) -> None:
    assert above(number, 1.1, ASKED).answer is answer


def test_below_mirrors_above() -> None:
    assert below(ratio(1.0, 0.95, 1.05), 1.1, ASKED).answer is Answer.HOLDS
    assert below(ratio(1.3, 1.2, 1.4), 1.1, ASKED).answer is Answer.FAILS


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        (ratio(1.0, 0.95, 1.05), Answer.HOLDS),
        (ratio(1.0, 0.85, 1.05), Answer.UNDECIDED),
        (ratio(2.0, 1.9, 2.1), Answer.FAILS),
        (ratio(0.5, 0.4, 0.6), Answer.FAILS),
        (ratio(1.0, 0.5, 2.0), Answer.UNDECIDED),
    ],
)
def test_within_takes_the_whole_interval(number: Number, answer: Answer) -> None:
    assert within(number, 0.9, 1.1, ASKED).answer is answer


@given(NUMBERS, NUMBERS)
def test_an_exact_number_is_never_undecided(value: float, limit: float) -> None:
    """Neither on the margin: nothing straddles it without an interval."""
    for margin in (limit, value):
        for part in (above(ratio(value), margin, ASKED), below(ratio(value), margin, ASKED)):
            assert part.answer in (Answer.HOLDS, Answer.FAILS)
    assert above(ratio(value), value, ASKED).answer is Answer.FAILS


def test_at_least_holds_at_what_is_due() -> None:
    answers = [at_least(found, 132, ASKED).answer for found in (131, 132, 133)]
    assert answers == [Answer.FAILS, Answer.HOLDS, Answer.HOLDS]
    assert at_least(131, 132, ASKED).margin == "at least 132"


def test_a_count_is_due_exactly() -> None:
    assert exactly(36, 36, ASKED).answer is Answer.HOLDS
    assert exactly(35, 36, ASKED).answer is Answer.FAILS
    assert exactly("no counter", 36, ASKED).answer is Answer.MISSING


def test_a_part_says_what_was_found_or_why_not() -> None:
    assert above(ratio(1.3, 1.2, 1.4), 1.1, ASKED).says == "it is {} as fast"
    assert above(ratio(1.0, 0.9, 1.05), 1.1, ASKED).says == "it is {}: no faster"
    lacking = above("it has no time", 1.1, ASKED)
    assert (lacking.answer, lacking.reason, lacking.number) == (Answer.MISSING, "it has no time", None)
    assert above(ratio(1.3, 1.0, 1.4), 1.1, ASKED).reason == "its interval straddles the margin"


def test_a_margin_is_told_in_the_numbers_unit() -> None:
    assert above(ratio(1.3), 1.1, ASKED).margin == "above 1.1 ×"
    assert above(Number(0.8, Unit.SHARE), 0.9, ASKED).margin == "above 90 %"
    assert exactly(1, 2359296, ASKED).margin == "exactly 2,359,296"


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(0.1, 10))
def test_no_interval_is_on_both_sides_of_a_margin(one: float, two: float, three: float, limit: float) -> None:
    low, value, high = sorted((one, two, three))
    answers = {rule(ratio(value, low, high), limit, ASKED).answer for rule in (above, below)}
    assert answers in ({Answer.HOLDS, Answer.FAILS}, {Answer.UNDECIDED})


@given(st.lists(st.sampled_from(Answer), min_size=1))
def test_a_claim_is_supported_only_where_every_part_holds(answers: list[Answer]) -> None:
    judgement = judgement_of([Part("", "", "", answer, "") for answer in answers])
    assert (judgement is Judgement.SUPPORTED) == (set(answers) == {Answer.HOLDS})
    assert (judgement is Judgement.REFUTED) == (Answer.FAILS in answers and Answer.HOLDS not in answers)
    assert (judgement is Judgement.NOT_MEASURABLE) == (not {Answer.HOLDS, Answer.FAILS} & set(answers))


def test_what_was_not_measured_makes_a_claim_partly_so() -> None:
    parts = [exactly(1, 1, ASKED), missing(ASKED, "no counters")]
    assert judgement_of(parts) is Judgement.PARTLY
