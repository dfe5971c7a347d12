"""Where an eager call waits: shown for the cases that do, with what each part is."""

from __future__ import annotations

from pathlib import Path

from reports.content import from_run
from reports.export import to_markdown
from reports.launches import launches_grid
from results.figures import Dispatch
from results.run import Run
from results.schema import Observation
from tests.reports.runs import rendered
from tests.results import builders

PATH = Path("results/runs/made-up")
PER_HEAD, FUSED = builders.case("per_head"), builders.case("fused")


def recorded(per_head_busy_s: float = 119e-6):
    """Per head 800 µs eager and 121 µs in a graph; fused 100 µs and 96 µs."""
    times = {PER_HEAD: (800e-6, 121e-6, per_head_busy_s), FUSED: (100e-6, 96e-6, 95e-6)}
    trials = [
        builders.trial(
            case,
            timings={
                "isolated": builders.timing(graph_s),
                "eager": builders.timing(eager_s),
                "graph": builders.timing(graph_s),
            },
        )
        for case, (eager_s, graph_s, _) in times.items()
    ]
    seen = [
        Observation(case, dispatch=Dispatch(launches=36, busy_s=busy_s, calls=5))
        for case, (_, _, busy_s) in times.items()
    ]
    planned = builders.manifest([PER_HEAD, FUSED], replicates=1)
    return Run(PATH, planned, trials, seen)


def test_a_case_that_waits_for_launches_is_shown_with_its_parts_and_one_that_does_not_is_not():
    (line,) = launches_grid(from_run(recorded())).lines
    assert line.cells == ("qkv", "per_head", "800 µs", "679 µs", "2.00 µs", "119 µs", "░░░░░░░█", "36")


def test_a_negative_gap_is_printed_as_such():
    (line,) = launches_grid(from_run(recorded(per_head_busy_s=125e-6))).lines
    assert "-4.00 µs" in line.cells


def test_the_terminal_and_markdown_show_the_same_parts():
    for text in (rendered(recorded()), to_markdown(recorded())):
        assert "launch (eager − graph)" in text
        assert "679 µs" in text


def test_without_observations_there_is_no_such_table():
    trials = [builders.trial(PER_HEAD)]
    run = Run(PATH, builders.manifest([PER_HEAD], replicates=1), trials)
    assert launches_grid(from_run(run)) is None
