import json
import math
from dataclasses import replace

import pytest

from results.schema import Case, Manifest, Outcome, Timing, Trial
from tests.results.builders import case, manifest, timing, trial, verification


def test_an_outcome_is_a_fault_or_was_never_tried_or_neither():
    assert [one.value for one in Outcome if one.failed] == ["incorrect", "crashed", "timed_out"]
    assert [one.value for one in Outcome if one.never_tried] == ["unsupported", "unavailable"]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_trial_survives_json(outcome):
    one = trial(outcome=outcome)
    assert Trial.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False))) == one


def test_a_manifest_survives_json():
    one = manifest()
    assert Manifest.from_json(json.loads(json.dumps(one.to_json(), allow_nan=False))) == one


def test_what_was_stored_before_there_were_stacks_is_of_one_layer():
    stored = trial().to_json()
    del stored["case"]["n_layer"]
    assert Trial.from_json(stored) == trial()


def test_a_stacks_depth_stands_in_its_keys_and_no_other_cases_does():
    layer = case()
    stack = replace(layer, stage="stack", n_layer=12)
    assert f"h{stack.n_head}x{stack.head_dim}-l12-" in stack.key
    assert "-l" not in layer.key
    assert stack.group != replace(stack, n_layer=6).group
    assert Case(**layer.plain()) == layer
    assert "n_layer" not in layer.plain()
    assert Case(**stack.plain()) == stack


def test_an_error_that_is_not_a_number_is_stored_as_not_known():
    stored = trial(verifications=(verification(relative_error=math.inf, passed=False),)).to_json()
    assert Trial.from_json(stored).verifications[0].relative_error is None


def test_warm_ups_are_kept_but_not_used():
    assert Timing(span_s=(9.0, 1.0, 2.0), warmup_samples=1).used_s == (1.0, 2.0)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_only_an_ok_trial_has_times_and_every_other_says_why(outcome):
    with pytest.raises(ValueError, match="cannot have times"):
        trial(outcome=outcome, timings={"eager": timing()})
    with pytest.raises(ValueError, match="must say why"):
        trial(outcome=outcome, reason=None)


def test_an_unknown_timing_mode_is_refused():
    with pytest.raises(ValueError, match="'warm' is unknown: isolated, eager, graph are known"):
        trial(timings={"warm": timing()})


@pytest.mark.parametrize("span", [math.nan, math.inf])
def test_a_sample_is_a_finite_time(span):
    with pytest.raises(ValueError, match="sample 1 is"):
        Timing(span_s=(1.0, span))


@pytest.mark.parametrize("warmups", [-1, 3])
def test_there_are_no_more_warm_ups_than_samples(warmups):
    with pytest.raises(ValueError, match=f"{warmups} warm-ups among 2 samples"):
        Timing(span_s=(1.0, 1.0), warmup_samples=warmups)


@pytest.mark.parametrize("replicates", [0, -1, 10**9])
def test_replicates_are_a_count(replicates):
    with pytest.raises(ValueError, match="1 to 10,000"):
        manifest(replicates=replicates)


def test_a_groups_key_is_shared_by_its_variants_and_nobody_else():
    fused = case("fused")
    assert fused.group == case("per_head").group
    others = [replace(fused, **change) for change in ({"batch": 2}, {"causal": False}, {"dtype": "fp16"})]
    assert len({fused.group, *(other.group for other in others)}) == 4
