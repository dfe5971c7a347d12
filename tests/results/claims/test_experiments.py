"""Claims judged from experiments, and how these are stored."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from results.claims import Evidence
from results.claims.observed import (
    FILE,
    Calls,
    Dependence,
    Learnt,
    Observed,
    Parameters,
    RoundTrips,
    append,
    load,
)
from results.errors import StoreError
from results.store import read
from tests.results import builders
from tests.results.claims.made_up import answers, case, finding, run

NOTHING = run({})
LEARNT = Learnt(0, 4, 500, 1.0, 0.99, 0.2, 0.7, 0.1, -0.3)
TRAINED = [replace(LEARNT, seed=seed, beside_clone=-0.3 + 0.01 * seed) for seed in range(5)]
DEPENDENCE = Dependence(0, 4, 6, own_least=0.7, others_largest=0.0, mixed_least=0.5, mixed_median=2.0)


def test_c1_is_supported_on_a_cpu_by_what_pytorch_is_asked_for() -> None:
    counted = Calls(12, {"per_head": 36, "fused": 3, "fused_qkv": 1})
    assert finding("C1", NOTHING, Observed(calls=[counted])).judgement == "supported"
    wrong = Calls(12, {"per_head": 36, "fused": 36, "fused_qkv": 36})
    assert finding("C1", NOTHING, Observed(calls=[wrong])).judgement == "partly"


def test_c3_depends_on_what_is_assumed_of_the_rest() -> None:
    attention, embeddings = 28_311_552, 7_275_264
    plain = Parameters(768, 12, 3072, 8449, 1024, attention, 56_623_104, embeddings)
    found = finding("C3", NOTHING, Observed(parameters=[plain]))
    assert list(answers(found).values()) == ["holds", "holds", "missing"], (
        "92.2 M is another model than 120 M"
    )
    assert "92.2 M and is another" in str(found.parts[2].reason)
    assert "120.5 M, of which MLP and embeddings are 77 %" in str(found.parts[2].reason)
    gated = replace(plain, mlp=84_934_656)
    assert finding("C3", NOTHING, Observed(parameters=[gated])).judgement == "supported"
    narrow = replace(plain, attention=12 * 768**2, mlp=12 * 768**2)
    assert finding("C3", NOTHING, Observed(parameters=[narrow])).judgement == "refuted"
    wide = replace(plain, attention=60_000_000, mlp=52_000_000)
    assert answers(finding("C3", NOTHING, Observed(parameters=[wide])))[found.parts[2].about] == "fails"


@pytest.mark.parametrize(
    ("changed", "scrambled", "verdict"),
    [(0, 90, "supported"), (1, 90, "refuted"), (0, 0, "not measurable here"), (3, 0, "not measurable here")],
)
def test_c4_needs_a_test_that_could_have_failed(changed: int, scrambled: int, verdict: str) -> None:
    tried = Observed(round_trips=[RoundTrips(0, 200, changed, scrambled)])
    assert finding("C4", NOTHING, tried).judgement == verdict


@pytest.mark.parametrize(
    ("change", "verdict"),
    [({}, "supported"), ({"others_largest": 1e-9}, "partly"), ({"mixed_least": 1e-9}, "partly")],
)
def test_c5_takes_no_rounding_for_isolation(change: dict[str, float], verdict: str) -> None:
    found = finding("C5", NOTHING, Observed(dependence=[DEPENDENCE, replace(DEPENDENCE, seed=1, **change)]))
    assert found.judgement == verdict


def test_c5_is_refuted_where_both_halves_fail_and_open_where_nothing_could() -> None:
    wrong = replace(DEPENDENCE, others_largest=0.1, mixed_least=0.0)
    assert finding("C5", NOTHING, Observed(dependence=[wrong])).judgement == "refuted"
    dead = replace(DEPENDENCE, own_least=0.0)
    assert list(answers(finding("C5", NOTHING, Observed(dependence=[dead]))).values()) == ["missing", "holds"]


def test_c6_is_never_more_than_partly_supported_since_entities_are_not_measured() -> None:
    found = finding("C6", NOTHING, Observed(learnt=TRAINED))
    assert list(answers(found).values()) == ["holds", "holds", "holds", "missing"]
    assert found.judgement == "partly"


def test_c6_sees_redundant_heads_with_gradients_as_large() -> None:
    about = "gradients of a unique head ÷ those of a redundant one"
    level = [replace(one, beside_clone=0.001 * one.seed) for one in TRAINED]
    assert answers(finding("C6", NOTHING, Observed(learnt=level)))[about] == "fails"
    scattered = [replace(one, beside_clone=(-1) ** one.seed) for one in TRAINED]
    assert answers(finding("C6", NOTHING, Observed(learnt=scattered)))[about] == "undecided"


def test_c6_says_of_no_head_that_it_looks_somewhere_more_often_than_always() -> None:
    scattered = [replace(one, previous=0.99 if one.seed else 0.1, matching=0.0) for one in TRAINED]
    numbers = [part.number for part in finding("C6", NOTHING, Observed(learnt=scattered)).parts[1:3]]
    bounds = [(number.low, number.high) for number in numbers if number]
    assert bounds == [(0, 1), (0, 0)]


def test_c6_counts_the_seeds_that_its_number_is_of() -> None:
    one_lacks = [replace(TRAINED[0], beside_clone=None), *TRAINED[1:]]
    assert "of 4 seeds" in finding("C6", NOTHING, Observed(learnt=one_lacks)).parts[0].says


def test_c7_pairs_losses_by_seed_and_times_by_shape() -> None:
    one_head = [replace(one, n_head=1, loss=1.05 + 0.001 * one.seed) for one in TRAINED]
    times = {
        case(stage, variant, n_head=n_head, head_dim=768 // n_head): time_s
        for stage, variant in (("attention", "sdpa"), ("sublayer", "fused_sdpa"))
        for n_head, time_s in ((12, 1e-4), (1, 3e-4))
    }
    assert finding("C7", run(times), Observed(learnt=TRAINED + one_head)).judgement == "supported"
    better = [replace(one, loss=0.9) for one in one_head]
    assert finding("C7", run(times), Observed(learnt=TRAINED + better)).judgement == "partly"
    assert finding("C7", NOTHING, Observed(learnt=TRAINED + better)).judgement == "refuted"


def test_an_experiment_comes_back_as_it_was_stored(tmp_path) -> None:
    append(tmp_path, "learnt", LEARNT.to_json())
    append(tmp_path, "dependence", DEPENDENCE.to_json())
    observed = load(tmp_path)
    assert (observed.learnt, observed.dependence, observed.notes) == ([LEARNT], [DEPENDENCE], [])


def test_a_run_without_experiments_has_none(tmp_path) -> None:
    assert load(tmp_path) == Observed()


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "{}", '{"learnt": {}}', '{"unheard_of": {}}', '{"learnt": {"seed": "x"}}', '"text"', "\x80",
     json.dumps({"calls": {"n_head": 12, "matmuls": {"fused": 1.5}}}),
     json.dumps({"learnt": replace(LEARNT, seed=1).to_json() | {"loss": 0.0}}),
     json.dumps({"learnt": replace(LEARNT, seed=1).to_json() | {"loss": -1.0}}),
     json.dumps({"parameters": dict.fromkeys(
         ("d_model", "n_layer", "mlp_width", "vocabulary", "context", "attention", "mlp", "embeddings"), 0)}),
     *(json.dumps({"learnt": replace(LEARNT, seed=1).to_json() | wrong}) for wrong in (
         {"loss": 1e308}, {"steps": 0}, {"n_head": 0}, {"previous": 1.5}, {"matching_untrained": -0.1})),
     *(json.dumps({"dependence": DEPENDENCE.to_json() | wrong}) for wrong in (
         {"n_head": 0}, {"head_dim": -6}, {"own_least": -0.7}, {"mixed_median": -2.0})),
     *(json.dumps({"round_trips": {"seed": 0, "shapes": 9, "changed": 0, "scrambled": 9} | wrong}) for wrong in (
         {"shapes": -4}, {"changed": -1}, {"scrambled": 10})),
     json.dumps({"calls": {"n_head": 12, "matmuls": {"fused": -3}}}),
     json.dumps({"calls": {"n_head": 0, "matmuls": {"fused": 3}}})],
)  # fmt: skip
def test_a_damaged_line_is_noted_and_costs_no_other(tmp_path, line: str) -> None:
    (tmp_path / FILE).write_bytes(line.encode("latin-1") + b"\n")
    append(tmp_path, "learnt", LEARNT.to_json())
    observed = load(tmp_path)
    assert observed.learnt == [LEARNT]
    assert len(observed.notes) == 1
    assert "\n" not in observed.notes[0]


def test_a_folder_that_cannot_be_written_is_said(tmp_path) -> None:
    with pytest.raises(StoreError, match="cannot store an experiment in"):
        append(tmp_path / "nowhere", "learnt", LEARNT.to_json())


def test_experiments_of_merged_runs_are_all_seen_the_newest_last(tmp_path) -> None:
    for day, shapes in ((1, 100), (2, 200)):
        of = builders.manifest(run_id=f"run-{day}", created_utc=f"2026-01-0{day}T00:00:00+00:00")
        append(builders.stored(tmp_path, of), "round_trips", RoundTrips(0, shapes, 0, 9).to_json())
    observed = Evidence.of(read(tmp_path)).observed
    assert [one.shapes for one in observed.round_trips] == [100, 200]


def test_a_seed_trained_twice_is_one_sample_and_short_trainings_do_not_mix_in() -> None:
    short = [replace(one, steps=250, previous=0.0) for one in TRAINED]
    once, again = (
        finding("C6", NOTHING, Observed(learnt=of)) for of in (TRAINED, [*TRAINED, *short, *TRAINED])
    )
    assert once.parts == again.parts


def test_experiments_in_a_pipe_are_refused_and_not_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(StoreError, match=r"claims.jsonl: it is no plain file: .* or name another run"):
        load(tmp_path)
