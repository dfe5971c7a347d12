"""What is answered where a group has one time to rank, and which marks that leaves to be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports import content
from reports.answers import answers
from tests.reports import runs
from tests.results import builders

if TYPE_CHECKING:
    from results.schema import Trial


def which(trials: list[Trial]) -> str:
    (found,) = answers(content.from_run(runs.run(trials)))
    return found.which


def test_who_is_alone_with_a_time_to_rank_is_not_said_to_be_alone_with_a_time() -> None:
    alone = "fused alone can be ranked in the one shape measured"
    lone = runs.gpu_trials({"fused": 1e-4})
    assert which([*lone, *runs.gpu_trials({"per_head": 1e-9})]) == alone
    eager = [
        builders.trial(builders.case("per_head"), replicate, timings={"eager": builders.timing(3e-4)})
        for replicate in range(3)
    ]
    assert which([*lone, *eager]) == alone


def test_to_be_alone_in_one_shape_is_not_said_of_the_next() -> None:
    at_1, at_32 = runs.gpu_trials({"fused": 1e-4}), runs.gpu_trials({"fused": 2e-3, "sdpa": 1e-3}, batch=32)
    assert which([*at_1, *at_32]) == "fused alone has a time at batch 1; sdpa is the fastest at batch 32"


def test_to_lead_in_one_shape_is_not_said_of_where_nothing_stood_beside() -> None:
    at_1 = runs.gpu_trials({"sdpa": 1e-4})
    at_32 = [
        trial
        for batch in (32, 64)
        for trial in runs.gpu_trials({"fused": 2e-3, "per_head": 4e-3}, batch=batch)
    ]
    assert (
        which([*at_1, *at_32]) == "fused is the fastest at batch 32 and 64; sdpa alone has a time at batch 1"
    )


def test_a_mark_that_no_sentence_bears_is_not_explained() -> None:
    """Eager times overlap, but nothing was watched, so that nothing is told of what eager calls save."""
    trials = [
        builders.trial(
            builders.case(variant),
            replicate,
            timings={
                "isolated": builders.timing(isolated_s),
                "eager": builders.timing(eager_s * 1.02**replicate),
            },
        )
        for replicate in range(3)
        for variant, isolated_s, eager_s in (("fused", 1e-4, 1e-4), ("per_head", 2e-4, 1.01e-4))
    ]
    assert "~" not in runs.rendered(runs.run(trials))
