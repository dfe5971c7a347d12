from __future__ import annotations

import pytest

from reports import content
from reports.series.calls import ALL, GAPS, GAPS_AND_KERNELS, KERNELS, LAUNCH, LAUNCH_AND_GAPS, call_parts
from results.figures import Dispatch
from results.schema import Observation, Timing
from results.store import read
from tests.reports import runs
from tests.results import builders


def one(*, busy_s=None, graph_s=9e-5, reason=None):
    """The parts of a case whose eager call takes 200 µs."""
    timings = {"isolated": builders.timing(1e-4), "eager": builders.timing(2e-4)}
    timings["graph"] = builders.timing(graph_s) if graph_s else Timing(reason="it synchronises")
    run = runs.run([builders.trial(builders.case(), n, timings=timings) for n in range(3)])
    if busy_s or reason:
        run.observations = [Observation(builders.case(), dispatch=Dispatch(36, busy_s, reason=reason))]
    (found,) = call_parts(content.from_run(run))
    return found


def test_launches_gaps_and_kernels_add_up_to_the_eager_call():
    found = one(busy_s=8e-5)
    assert {part.name: part.seconds for part in found.parts} == {
        KERNELS: pytest.approx(8e-5),
        GAPS: pytest.approx(1e-5),
        LAUNCH: pytest.approx(11e-5),
    }
    assert found.share(LAUNCH) == pytest.approx(0.55)
    assert (found.launches, found.reason) == (36, None)


def test_a_negative_difference_is_kept_as_it_is():
    assert one(busy_s=9.5e-5).share(GAPS) == pytest.approx(-0.025)


def test_without_kernels_gaps_stay_with_them_and_the_reason_is_told():
    found = one(reason="CUPTI is taken")
    assert [part.name for part in found.parts] == [GAPS_AND_KERNELS, LAUNCH]
    assert found.reason == "kernels: CUPTI is taken"


def test_without_a_graph_launches_stay_with_gaps():
    found = one(busy_s=8e-5, graph_s=None)
    assert [part.name for part in found.parts] == [KERNELS, LAUNCH_AND_GAPS]
    assert found.reason == "graph: it synchronises"


def test_on_a_cpu_an_eager_call_is_one_part():
    found = call_parts(content.from_run(runs.cpu_run()))
    assert {part.name for call in found for part in call.parts} == {ALL}


def test_the_parts_of_every_recorded_case_add_up():
    found = call_parts(content.from_run(read("nvidia-h200/default")))
    assert len(found) == 151
    for call in found:
        assert sum(part.seconds for part in call.parts) == pytest.approx(call.eager_s)
