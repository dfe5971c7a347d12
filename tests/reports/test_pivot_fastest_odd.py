"""What a pivot of times says where a time is unsure, the work is not known, or a value has a foreign name."""

from __future__ import annotations

from reports.pivot_cells import Times, Use
from tests.reports import runs
from tests.reports.pivoted import rendered
from tests.reports.test_pivot_fastest import at_n_head, said
from tests.results import builders


def test_a_value_between_that_may_be_the_fastest_as_well_is_named() -> None:
    one = [trial for trial in at_n_head({8: 1.01e-4}) if not trial.replicate]
    assert said([*one, *at_n_head({12: 1e-4, 24: 3e-4})]) == [
        "fused is fastest at n_head 12, not surely so against 8: at 24, the slowest, it takes 3.00 × the time"
    ]


def test_dtypes_compare_and_a_foreign_name_of_one_stays_text() -> None:
    times_s = {"bf16": 1e-4, "\x1b[31mfp16\n": 1.001e-4, "fp32": 4e-4}
    trials = [
        builders.trial(builders.case(dtype=dtype), replicate, median_s=time_s * 1.005**replicate)
        for replicate in range(3)
        for dtype, time_s in times_s.items()
    ]
    assert said(trials, "dtype") == [
        r"fused is fastest at dtype bf16, level at \x1b[31mfp16: at fp32 it takes 4.00 × the time"
    ]
    for cells in (Times(), Use()):
        assert all(line.isprintable() for line in rendered(runs.run(trials), cells, by="dtype").splitlines())


def test_times_of_work_that_is_not_known_do_not_compare() -> None:
    assert said(at_n_head({8: 1e-4, 12: 2e-4}, useful_flops=0, least_bytes=0)) == []
