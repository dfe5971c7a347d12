from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import units

TIME_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
BYTE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (191.23e-6, "191.2 µs"),
        (8.61e-9, "8.610 ns"),
        (1.0, "1.000 s"),
        (999.96e-6, "1.000 ms"),
        (0.0123, "12.30 ms"),
        (5400.0, "5400 s"),
        (-3e-6, "-3.000 µs"),
        (0.0, "0 s"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_a_time_has_four_digits_in_the_unit_that_suits_it(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@given(st.floats(1e-9, 1e6))
def test_a_time_read_back_is_the_time_to_four_digits(seconds: float) -> None:
    number, unit = units.duration(seconds).split()
    assert float(number) * TIME_UNITS[unit] == pytest.approx(seconds, rel=5.1e-4)


@given(st.floats(1e-9, 900.0))
def test_a_time_takes_eight_cells_at_most(seconds: float) -> None:
    assert len(units.duration(seconds)) <= 8


@given(st.integers(0, 2**49))
def test_a_size_read_back_is_the_size_to_three_digits(count: int) -> None:
    number, unit = units.size(count).split()
    assert float(number) * BYTE_UNITS[unit] == pytest.approx(count, rel=5.1e-3)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (384 << 20, "384 MiB"),
        (3 << 29, "1.50 GiB"),
        (None, "–"),
    ],
)
def test_bytes_are_counted_in_powers_of_1024(count: int | None, text: str) -> None:
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.6031, "60 %"),
        (0.0421, "4.2 %"),
        (0.0997, "10 %"),
        (0.0004, "<0.1 %"),
        (0.0, "0 %"),
        (1.25, "125 %"),
        (None, "–"),
    ],
)
def test_a_share_that_is_not_zero_never_reads_as_zero(fraction: float | None, text: str) -> None:
    assert units.percent(fraction) == text


def test_one_replicate_has_no_interval() -> None:
    assert units.interval(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.3, "less than 1 s"),
        (8.4, "8 s"),
        (59.6, "1 min 0 s"),
        (604.0, "10 min 4 s"),
        (3599.7, "1 h 0 min"),
        (3 * 3600 + 250, "3 h 4 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_time_on_the_wall_is_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert units.elapsed(seconds) == text


def test_an_interval_wider_than_its_value_says_only_that() -> None:
    assert [units.interval(share) for share in (0.004, 1.0, 1.01, 1e300)] == [
        "0.4 %",
        "100 %",
        ">100 %",
        ">100 %",
    ]


@pytest.mark.parametrize(
    ("per_s", "what", "text"),
    [
        (597.1e12, "FLOP", "597 TFLOP/s"),
        (48.12e9, "FLOP", "48.1 GFLOP/s"),
        (2.5e6, "FLOP", "2.50 MFLOP/s"),
        (12.0, "FLOP", "0.0000120 MFLOP/s"),
        (999.9e9, "B", "1.00 TB/s"),
        (None, "B", "–"),
    ],
)
def test_a_rate_picks_its_prefix(per_s: float | None, what: str, text: str) -> None:
    assert units.rate(per_s, what) == text


def test_a_column_of_rates_shares_the_unit_of_its_largest() -> None:
    scale = units.rate_scale([606e12, None, 60.3e12, 0.4e12, math.inf], "FLOP")
    assert scale.unit == "TFLOP/s"
    assert [scale.number(rate, 3) for rate in (606e12, 60.3e12, 0.4e12, None)] == [
        "606",
        "60.3",
        "0.400",
        "–",
    ]


@pytest.mark.parametrize(
    ("times_s", "shown"),
    [
        ((155.5e-6, 6.445e-3), ["155.5 µs", "6445 µs"]),
        ((9.9e-7, 1.2e-6), ["990.0 ns", "1200 ns"]),
        ((1.0e-6, 99.94e-3), ["1.000 µs", "99940 µs"]),
        ((1.0e-6, 99.96e-3), ["0.001000 ms", "99.96 ms"]),
        ((1e-6, 20000.0), ["0.000001000 s", "20000 s"]),
        ((999.96e-6, 2e-3), ["1.000 ms", "2.000 ms"]),
        ((None, 3.0), ["–", "3.000 s"]),
        ((None,), ["–"]),
    ],
)
def test_a_column_of_times_shares_the_unit_of_its_shortest_while_that_is_readable(
    times_s: tuple[float | None, ...], shown: list[str]
) -> None:
    scale = units.time_scale(times_s)
    assert [scale(time_s, 4) for time_s in times_s] == shown


@given(st.lists(st.floats(1e-9, 9e4), min_size=1))
def test_a_column_of_times_reads_back_and_has_one_unit(times_s: list[float]) -> None:
    scale = units.time_scale(times_s)
    for time_s in times_s:
        number, unit = scale(time_s, 4).split()
        assert unit == scale.unit
        assert float(number) * TIME_UNITS[unit] == pytest.approx(time_s, rel=5.1e-4)
        assert len(number.split(".")[0]) <= 5


def test_a_column_of_sizes_shares_a_unit_too() -> None:
    scale = units.size_scale([0, 768 << 10, 120 << 20, None])
    assert [scale(count, 3) for count in (0, 768 << 10, 120 << 20, None)] == [
        "0 MiB",
        "0.750 MiB",
        "120 MiB",
        "–",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(3.0412, "3.04 ×"), (12.64, "12.6 ×"), (0.0834, "0.0834 ×"), (1234.0, "1230 ×")]
)
def test_a_ratio_has_three_digits(value: float, text: str) -> None:
    assert units.ratio(value) == text


@pytest.mark.parametrize("value", [1e290, 1e-290, 1.7e308, 5e-324, -1e290, 1e15])
def test_no_number_is_wider_than_a_table_has_room_for(value):
    texts = [units.ratio(value), units.duration(value), units.percent(value), units.rate(value)]
    texts += [units.time_scale([value])(value, 4), units.significant(value, 4)]
    assert max(map(len, texts)) <= 20


def test_what_a_measurement_can_read_is_written_in_full():
    assert units.ratio(1e290) == "1.00e+290 ×"
    assert units.ratio(123456) == "123000 ×"
    assert units.significant(1e-9, 2) == "0.0000000010"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (589_824, "589,824"),
        (999_400, "999,400"),
        (2_359_296, "2.36 M"),
        (28_311_552, "28.3 M"),
        (10**9, "1.00 G"),
    ],
)
def test_a_count_has_three_digits_from_a_million_on(number, text):
    assert units.count(number) == text


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ((4.74, None, 3.42), "3.42 to 4.74 ×"),
        ((3.421, 3.422), "3.42 ×"),
        ((2.0,), "2.00 ×"),
        ((None,), "–"),
        ((), "–"),
    ],
)
def test_a_range_of_ratios_names_both_ends_once_each(ratios, text):
    assert units.ratio_range(ratios) == text
