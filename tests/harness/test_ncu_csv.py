"""Nsight Compute's table read: launches by case, whatever stands around it."""

from __future__ import annotations

import pytest

from harness.sensors.ncu_csv import Uncounted, launches
from tests.harness import recorded_counters as recorded

COLUMNS = '"ID","thread Domain:Push/Pop_Range:PL_Type:Msg","Kernel Name","gpu__time_duration.sum"\n'
UNITS = '"","","","ns"\n'


def row(number: int | None, name: str = "kernel", duration: str = "1,234", around: str = "") -> str:
    """A launch in the range of a case, in ranges `around` it, or in none."""
    own = "" if number is None else f'""<default domain>:headbench case {number}:none:none""'
    return f'"0","12  {around}{own} ","{name}","{duration}"\n'


def durations(text: str) -> dict[int, list[float]]:
    return {
        case: [launch.value("gpu__time_duration.sum", "ns") for launch in of]
        for case, of in launches(text).items()
    }


def test_every_recorded_launch_is_its_cases_in_order():
    table = recorded.text()
    found = launches(table)
    assert [len(found[number]) for number in range(17)] == [1] * 16 + [36]
    assert (
        found[recorded.numbers(table)["proj-72"]][0].name == "nvjet_sm90_tst_96x256_64x4_1x2_h_bz_coopA_NNN"
    )


def test_thousands_have_commas_and_units_stand_below_the_header():
    assert durations(COLUMNS + UNITS + row(0) + row(3, duration="12")) == {0: [1234.0], 3: [12.0]}


def test_the_tools_own_words_are_no_launches_wherever_they_stand():
    text = (
        "==PROF== Connected\n"
        + COLUMNS
        + UNITS
        + row(0)
        + "==ERROR== The application returned (11).\n"
        + row(1)
    )
    assert durations(text) == {0: [1234.0], 1: [1234.0]}


def test_a_variants_own_ranges_around_and_inside_change_nothing():
    around = '""<default domain>:epoch case 7:none"" '
    assert durations(COLUMNS + UNITS + row(2, around=around)) == {2: [1234.0]}


def test_a_kernel_outside_every_cases_range_is_nobodys():
    assert durations(COLUMNS + UNITS + row(None) + row(1)) == {1: [1234.0]}


def test_case_1_is_not_case_12():
    assert durations(COLUMNS + UNITS + row(12) + row(1, duration="5")) == {12: [1234.0], 1: [5.0]}


def test_a_name_with_commas_quotes_and_equals_signs_is_one_name():
    (launch,) = launches(COLUMNS + UNITS + row(0, name='void f<a, ""b"">(==c)'))[0]
    assert launch.name == 'void f<a, "b">(==c)'


def test_a_table_that_was_cut_short_loses_its_last_row_alone():
    text = COLUMNS + UNITS + row(0) + row(1)
    assert durations(text[:-12]) == {0: [1234.0]}


@pytest.mark.parametrize("text", ["", "==ERROR== nothing\n", "==PROF== Disconnected from process 1\n"])
def test_no_table_is_none_and_not_an_empty_one(text):
    assert launches(text) is None


def test_a_table_without_launches_is_an_empty_one():
    assert launches(COLUMNS + UNITS) == {}


def test_a_table_without_ranges_is_refused():
    with pytest.raises(Uncounted, match="lacks the kernels' names or their ranges"):
        launches('"ID","Kernel Name"\n')


def test_a_table_whose_quotes_never_close_is_refused_and_not_read_as_one_name():
    with pytest.raises(Uncounted, match="table cannot be read: field larger than field limit"):
        launches(COLUMNS + UNITS + row(0) + '"1","' + "x" * 200_000)


def test_a_table_without_units_counts_nothing_that_has_one():
    (launch,) = launches(COLUMNS + row(0))[0]
    assert launch.value("gpu__time_duration.sum") == 1234
    with pytest.raises(Uncounted, match="is given in '', not in 'ns'"):
        launch.value("gpu__time_duration.sum", "ns")


def test_a_range_whose_number_no_case_can_have_is_nobodys():
    assert launches(COLUMNS + UNITS + row(int("9" * 4000))) == {}
