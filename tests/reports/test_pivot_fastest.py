"""What a pivot of times says of its values: at which each variant is fastest, where the work is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reports import pivot
from reports.pivot_cells import Times
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders, h200

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.schema import Trial


def at_n_head(times_s: dict[int, float], variant: str = "fused", **trial: object) -> list[Trial]:
    """Three replicates, 0.5 % apart, of a width of 768 in these many heads."""
    return [
        builders.trial(
            builders.case(variant, n_head=n_head, head_dim=768 // n_head),
            replicate,
            median_s=time_s * 1.005**replicate,
            **trial,
        )
        for replicate in range(3)
        for n_head, time_s in times_s.items()
    ]


def said(trials: Iterable[Trial], by: str = "n_head", **manifest: object) -> list[str]:
    found = pivot.from_run(runs.run(trials, **manifest), by, Times())
    return [sentence for table in found.tables for sentence in table.sentences]


def test_the_fastest_value_is_named_with_what_the_slowest_takes() -> None:
    assert said(at_n_head({12: 1e-4, 8: 1.25e-4})) == [
        "fused is fastest at n_head 12: at 8 it takes 1.25 × the time"
    ]
    assert said(at_n_head({1: 3e-4, 8: 1.25e-4, 12: 1e-4})) == [
        "fused is fastest at n_head 12: at 1, the slowest, it takes 3.00 × the time"
    ]


def test_values_whose_intervals_overlap_are_level() -> None:
    assert said(at_n_head({8: 1e-4, 12: 1.001e-4})) == [
        "fused is level at n_head 8 and 12: intervals overlap"
    ]
    assert said(at_n_head({8: 1e-4, 12: 1.001e-4, 24: 2e-4})) == [
        "fused is fastest at n_head 8, level at 12: at 24 it takes 2.00 × the time"
    ]


def test_each_variant_has_its_own_and_what_has_no_second_time_has_none() -> None:
    failed = at_n_head({8: 1e-4}, "lone", outcome=Outcome.CRASHED, reason="died")
    trials = [*at_n_head({8: 1e-4, 12: 2e-4}), *at_n_head({8: 4e-4, 12: 3e-4}, "per_head")]
    assert said([*trials, *at_n_head({12: 1e-4}, "lone"), *failed]) == [
        "fused is fastest at n_head 8: at 12 it takes 2.00 × the time",
        "per_head is fastest at n_head 12: at 8 it takes 1.33 × the time",
    ]


def test_without_intervals_a_ratio_is_marked_as_unsure() -> None:
    one = [trial for trial in at_n_head({8: 1e-4, 12: 2e-4}) if not trial.replicate]
    assert said(one, replicates=1) == ["fused is fastest at n_head 8: at 12 it takes ~2.00 × the time"]


@pytest.mark.parametrize("by", ["head_dim", "batch"])
def test_times_of_different_work_do_not_compare(by: str) -> None:
    shapes = ((1, 32), (2, 64))
    trials = [
        builders.trial(of, n, useful_flops=h200.useful_flops(of))
        for n in range(3)
        for batch, head_dim in shapes
        for of in [
            h200.case(head_dim=head_dim if by == "head_dim" else 64, batch=batch if by == "batch" else 1)
        ]
    ]
    assert len(pivot.from_run(runs.run(trials), by, Times()).tables) == 1
    assert said(trials, by) == []
