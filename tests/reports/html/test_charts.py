from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.html.charts.chart import COLOURS, DASHES, SHAPES, TAKEN, decades, label_px, named


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("ground", ["#ffffff", "#14171b"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_colour_stands_out_from_light_and_from_dark(colour, ground):
    assert contrast(colour, ground) >= 2.9


def test_as_many_variants_as_any_stage_has_differ_in_colour_or_sign_and_in_line():
    signs = {(COLOURS[n % len(COLOURS)], SHAPES[n % len(SHAPES)]) for n in range(40)}
    lines = {(COLOURS[n % len(COLOURS)], str(DASHES[n % len(DASHES)])) for n in range(20)}
    assert (len(signs), len(lines)) == (40, 20)


@pytest.mark.parametrize("name", TAKEN)
def test_a_name_that_every_object_has_is_told_apart_and_reads_the_same(name):
    assert named(name) != name
    assert named(name).strip("\u00a0") == name
    assert named("fused") == "fused"


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_ticks_of_a_logarithmic_axis_enclose_the_values_and_are_few_within(values):
    ticks = decades(values)
    assert ticks[0] <= min(values) * (1 + 1e-9)
    assert ticks[-1] >= max(values) * (1 - 1e-9)
    assert sum(min(values) <= tick <= max(values) for tick in ticks) <= 14


def test_an_axis_without_values_has_no_ticks():
    assert decades([None, 0.0]) == []


def test_labels_take_what_the_longest_needs_and_no_more_than_the_axis_shows():
    assert label_px(["ab", "abcd"]) == label_px(["abcd"]) < label_px(["abcdefgh"])
    assert label_px(["x" * 500]) == label_px(["x" * 1000])
