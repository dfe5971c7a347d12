"""Ratios of times: paired by replicate, in one mode, with an interval, or in words why not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from results.claims.claim import Number, Unit
from results.claims.evidence import Evidence, exp, mean_interval, place_of
from results.claims.observed import Observed
from results.schema import Outcome
from results.store import read
from tests.results import builders
from tests.results.claims.made_up import case, run

ONE, TWO = case("qkv", "per_head"), case("qkv", "fused")
NAMED_ONE, NAMED_TWO = ("qkv", "per_head"), ("qkv", "fused")
PLACE = place_of(ONE)


def evidence(**changes) -> Evidence:
    return Evidence(run({ONE: 3e-4, TWO: 1e-4}, **changes), Observed())


def test_what_both_times_share_falls_out_of_their_ratio() -> None:
    found = evidence().ratio((NAMED_ONE,), (NAMED_TWO,), PLACE)
    assert isinstance(found, Number)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3), rel=2e-4)


def test_the_interval_is_the_t_interval_of_the_logs() -> None:
    of = run({ONE: 1e-4, TWO: 1e-4}, replicates=2)
    of.trials[0] = builders.trial(ONE, 0, timings={"isolated": builders.timing(1.1e-4, resolution_s=None)})
    of.trials[1] = builders.trial(ONE, 1, timings={"isolated": builders.timing(1.0e-4, resolution_s=None)})
    of.trials[2] = builders.trial(TWO, 0, timings={"isolated": builders.timing(1.0e-4, resolution_s=None)})
    of.trials[3] = builders.trial(TWO, 1, timings={"isolated": builders.timing(1.0e-4, resolution_s=None)})
    found = Evidence(of, Observed()).ratio((NAMED_ONE,), (NAMED_TWO,), PLACE)
    assert isinstance(found, Number)
    middle = math.log(1.1) / 2
    margin = (
        63.6567 * middle
    )  # Student's t of one degree, 99 %; the standard error of two is half their distance
    assert found.value == pytest.approx(math.exp(middle))
    assert (found.low, found.high) == pytest.approx(
        (math.exp(middle - margin), math.exp(middle + margin)), rel=1e-5
    )


def test_times_of_several_cases_add_up() -> None:
    found = evidence().ratio((NAMED_ONE, NAMED_TWO), (NAMED_TWO,), PLACE)
    assert isinstance(found, Number)
    assert found.value == pytest.approx(4, rel=1e-6)


def test_one_replicate_has_no_ratio() -> None:
    assert evidence(replicates=1).ratio((NAMED_ONE,), (NAMED_TWO,), PLACE) == (
        "1 replicate: an interval needs at least 2"
    )


def test_a_mode_that_one_lacks_is_said() -> None:
    of = run({ONE: 3e-4, TWO: 1e-4})
    of.trials = [builders.cpu_trial(one.case, one.replicate) if one.case == TWO else one for one in of.trials]
    seen = Evidence(of, Observed())
    assert seen.ratio((NAMED_ONE,), (NAMED_TWO,), PLACE, "graph") == "not all of them have a time in graph"
    assert isinstance(seen.ratio((NAMED_ONE,), (NAMED_TWO,), PLACE), Number), "eager is what both have"


def test_a_case_that_failed_has_no_place_and_its_reason_is_told() -> None:
    of = run({ONE: 3e-4, TWO: 1e-4})
    of.trials.append(builders.trial(TWO, 0, outcome=Outcome.CRASHED))
    seen = Evidence(of, Observed())
    assert seen.places((NAMED_ONE, NAMED_TWO)) == []
    assert seen.why_left_out((NAMED_ONE, NAMED_TWO), 768, 12) == "qkv/fused is crashed: made up: crashed"


def test_what_the_run_lacks_is_not_left_out() -> None:
    assert evidence().why_left_out((("qkv", "nothing"),), 768, 12) is None


def test_a_place_is_told_by_what_differs() -> None:
    large = case("qkv", "fused", batch=32)
    seen = Evidence(run({TWO: 1e-4, large: 1e-3}), Observed())
    assert [seen.words(place) for place in seen.places((NAMED_TWO,))] == ["batch 32", "batch 1"]
    assert seen.machine == "NVIDIA H200 (1,024 tokens, causal, bf16)"
    full = case("qkv", "fused", causal=False)
    seen = Evidence(run({TWO: 1e-4, full: 1e-3}), Observed())
    assert {seen.words(place) for place in seen.places((NAMED_TWO,))} == {
        "batch 1, causal",
        "batch 1, no mask",
    }


def test_a_run_without_cases_has_a_machine_and_no_places() -> None:
    seen = Evidence(run({}), Observed())
    assert (seen.machine, seen.places((NAMED_ONE,))) == ("NVIDIA H200", [])


def test_seeds_have_a_mean_and_an_interval_from_two_on() -> None:
    found = mean_interval([0.4, 0.6], Unit.SHARE)
    assert isinstance(found, Number)
    assert (found.value, found.high) == pytest.approx((0.5, 0.5 + 63.6567 * 0.1), rel=1e-5)
    assert mean_interval([0.4], Unit.SHARE) == "1 of at least 2 samples: no interval"


def test_a_folder_of_runs_is_judged_on_the_machines_that_its_times_are_from(tmp_path) -> None:
    """The newest may be experiments alone, made on another machine: no verdict of a GPU's times may name that."""
    gpu = builders.manifest([ONE], run_id="run-1", created_utc="2026-01-01T00:00:00+00:00")
    builders.stored(tmp_path, gpu, [builders.trial(ONE, replicate) for replicate in range(3)])
    later = {"created_utc": "2026-01-02T00:00:00+00:00", "environment": builders.CPU_ENVIRONMENT}
    builders.stored(tmp_path, replace(builders.manifest(run_id="run-2", **later), cases=()), [])
    found = Evidence.of(read(tmp_path))
    assert found.on_gpu
    assert found.machine.startswith(builders.GPU_ENVIRONMENT["gpu"]["name"])
    assert "left out" not in " ".join(read(tmp_path).notes), "no case of it was measured again"


def test_a_ratio_beyond_what_a_float_holds_is_as_good_as_unbounded() -> None:
    assert exp(1.5) == math.exp(1.5)
    assert 1e300 < exp(1e6) < math.inf
