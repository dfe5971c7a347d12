"""Pieces of sentences: numbers with their nouns, shares in percent."""

import math

import pytest

from results.verdict import CONFIDENCE, SAME_WITHIN
from results.words import counted, exact_percent, percent


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "case") for n in (0, 1, 2, 1234)] == ["0 cases", "1 case", "2 cases", "1,234 cases"]


@pytest.mark.parametrize(("share", "text"), [(0.0123, "1.2 %"), (1.0, "100.0 %"), (0.0, "0.0 %")])
def test_what_was_measured_has_one_digit_after_the_point(share, text):
    assert percent(share) == text


def test_a_rules_share_has_the_digits_it_has_whatever_way_it_was_computed():
    assert exact_percent(CONFIDENCE) == "99.5 %"
    assert exact_percent(math.expm1(SAME_WITHIN)) == "1 %"
    assert exact_percent(2 * (1 - CONFIDENCE)) == "1 %"
