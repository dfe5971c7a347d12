"""Charts of a single line: in proportion, never wider than asked, honest about what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.bars import GAP, HEIGHTS, SHADES, curve, stacked


def test_a_bar_is_cut_in_proportion() -> None:
    assert stacked([7.0, 1.0, 2.0], 10) == "░░░░░░░▒██"


def test_a_part_of_a_hundredth_has_no_cell() -> None:
    assert stacked([2370.0, 30.9, 533.0], 8) == "░░░░░░░█"


@pytest.mark.parametrize("parts", [[], [0.0, 0.0], [None, None], [-1.0, None, 0.0]])
def test_where_nothing_is_positive_there_is_no_bar(parts: list[float | None]) -> None:
    assert stacked(parts, 10) == ""


def test_a_negative_part_takes_nothing_from_the_others() -> None:
    assert stacked([5.0, -4.0, 5.0], 10) == "░░░░░█████"


@given(st.lists(st.floats(0, 1e3) | st.none(), min_size=3, max_size=3), st.integers(1, 40))
def test_every_part_is_within_a_cell_of_its_share(parts: list[float | None], width: int) -> None:
    drawn, whole = stacked(parts, width), sum(part or 0.0 for part in parts)
    assert len(drawn) == (width if whole else 0)
    for shade, part in zip(SHADES, parts, strict=True):
        assert not whole or abs(drawn.count(shade) - width * (part or 0.0) / whole) <= 1


def test_a_curve_rises_from_zero_to_the_highest() -> None:
    assert curve([1.0, 4.0, None, 8.0], 8.0) == "▂▅·█"
    assert curve([0.0, 1e-9], 1.0) == GAP + HEIGHTS[0]
