"""The plan: the grid is always complete, and in a stable order."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.plan import case_of, figures, group_cases, leave_out, make_plan, shape_of
from harness.request import Selection
from results.schema import Outcome
from variants.direction import DIRECTIONS
from variants.shape import Shape
from variants.stage import STAGES

from .plans import CPU, GPU, VARIANTS, facts, plan

shapes = st.builds(
    lambda batch, seq_len, n_head, head_dim, causal, dtype, n_layer: Shape(
        batch, seq_len, n_head * head_dim, n_head, causal, dtype, n_layer
    ),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 200),
    st.integers(1, 512),
    st.booleans(),
    st.sampled_from(["bf16", "fp16", "tf32", "fp32", "float16"]),
    st.integers(1, 100),
)


def planned(stage, variant, shape, direction):
    """A case as a plan has it: only a stack is deeper than one layer."""
    shape = shape if STAGES[stage].deep else replace(shape, n_layer=1)
    return case_of(stage, variant, shape, direction)


cases = st.builds(
    planned,
    st.sampled_from(list(STAGES)),
    st.sampled_from(["a", "b", "per/head"]),
    shapes,
    st.sampled_from(DIRECTIONS),
)


def reasons(of):
    return {case.variant: (outcome, reason) for case, outcome, reason in of.left_out}


@pytest.mark.parametrize("environment", [CPU, GPU])
def test_everything_is_every_variant_at_every_default_shape(environment):
    per_shape = len(VARIANTS)
    assert len(plan(environment).cases) == per_shape * (4 if environment is CPU else 8)


ASIDE = facts("attention", "sdpa_strided", aside=True)


def test_an_aside_is_measured_where_it_is_named_and_told_of_where_it_is_not():
    found = plan(GPU, [*VARIANTS, ASIDE], stages=("attention",))
    assert ASIDE.name not in {case.variant for case in found.cases}
    assert found.asides == ((ASIDE.stage, ASIDE.name),)
    named = plan(
        GPU, [*VARIANTS, ASIDE], stages=("attention",), variants=("sdpa", ASIDE.name), models=("andrea-12m",)
    )
    assert [case.variant for case in named.cases] == ["sdpa", ASIDE.name] * 2, "at both batches"
    assert named.asides == ()
    assert plan(found=[*VARIANTS, ASIDE], stages=("qkv",)).asides == ()


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (("sdpa*",), {"sdpa", "sdpa_flash", "sdpa_strided"}),
        (("*_strided", "needs_cuda"), {"sdpa_strided", "needs_cuda"}),
        (("*",), {"sdpa", "sdpa_flash", "needs_cuda", "sdpa_strided"}),
    ],
)
def test_a_glob_names_every_variant_that_it_matches(globs, names):
    found = plan(found=[*VARIANTS, ASIDE], stages=("attention",), variants=globs)
    assert {case.variant for case in found.cases} == names


def test_a_glob_that_matches_nothing_is_unknown():
    with pytest.raises(UsageError, match=r"variant 'flex\*' is unknown"):
        plan(variants=("flex*",))


def test_a_case_left_out_keeps_its_place_in_the_grid_with_its_outcome_and_reason():
    found = plan(models=("andrea-12m",), stages=("attention",))
    assert [case.variant for group in found.groups for case in group.cases] == ["sdpa"]
    assert reasons(found) == {
        "sdpa_flash": (Outcome.UNSUPPORTED, "computes in bf16 or fp16, not in fp32"),
        "needs_cuda": (Outcome.UNAVAILABLE, "needs a CUDA device, this run is on CPU"),
    }
    assert [case.variant for case in found.cases] == ["sdpa", "sdpa_flash", "needs_cuda"]
    assert found.measured == 1


def test_tf32_on_a_cpu_is_left_out_and_on_a_gpu_it_is_not():
    on_cpu = plan(models=("andrea-12m",), dtypes=("tf32",))
    assert on_cpu.groups == ()
    assert len(on_cpu.cases) == len(VARIANTS)
    assert reasons(on_cpu)["sdpa"] == (
        Outcome.UNSUPPORTED,
        "tf32 is a tensor-core format: it needs a CUDA device",
    )
    on_gpu = plan(GPU, models=("andrea-12m",), dtypes=("tf32",))
    assert "sdpa" in {case.variant for group in on_gpu.groups for case in group.cases}


def test_what_the_machine_lacks_is_said_before_what_the_dtype_rules_out():
    both = facts("attention", "both", missing="fails to import", dtypes=("bf16",))
    assert reasons(plan(found=[both]))["both"] == (Outcome.UNAVAILABLE, "fails to import")


def test_groups_come_stage_by_stage_and_shape_by_shape_within_each():
    found = plan(models=("andrea-480m", "andrea-12m"), seq_len=(128, 7))
    places = [(group.stage, group.shape.d_model, group.shape.seq_len) for group in found.groups]
    stages = [stage for stage in STAGES if any(one.stage == stage for one in VARIANTS)]
    assert places == list(itertools.product(stages, (1536, 384), (128, 7)))


def test_stacks_are_planned_at_the_first_batch_and_their_models_depth():
    found = plan(GPU, [*VARIANTS, facts("stack", "fused_sdpa")], stages=("sublayer", "stack"))
    sizes = [
        (group.stage, group.shape.batch, group.shape.d_model, group.shape.n_layer) for group in found.groups
    ]
    layers = itertools.product(("sublayer",), (384, 768, 1536, 864), (1, 32), (1,))
    assert sizes == [
        *((stage, batch, d_model, n_layer) for stage, d_model, batch, n_layer in layers),
        ("stack", 1, 768, 12),
    ]


def test_every_depth_of_a_stack_is_a_group_of_its_own():
    found = plan(GPU, [facts("stack", "a"), facts("stack", "b")], n_layer=(1, 2, 12))
    assert [group.cases[0].group.split("/")[-1] for group in found.groups] == [
        f"b1-t1024-h12x64-l{n_layer}-causal-bf16" for n_layer in (1, 2, 12)
    ]


def test_everything_is_forward_unless_more_is_asked_for():
    assert {group.direction for group in plan().groups} == {"forward"}
    asked = plan(models=("andrea-12m",), directions=("step", "backward"))
    learning = dict.fromkeys(variant.stage for variant in VARIANTS)
    assert [(group.stage, group.direction) for group in asked.groups] == list(
        itertools.product(learning, ("step", "backward"))
    )
    assert len(asked.cases) == 2 * len(VARIANTS)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_split_of_a_single_token_is_left_out_for_there_is_nothing_to_move(direction):
    """Its copies would be views of what they are given, and have a rate all the same."""
    selection = Selection(d_model=(8,), n_head=(2,), batch=(1, 2), seq_len=(1, 2), directions=(direction,))
    found = make_plan(selection, [facts("split", "copies"), facts("attention", "sdpa")], CPU)
    why = "of a single token every head is contiguous as it arrives: nothing is to be moved"
    said = [((c.stage, c.batch, c.seq_len), *told) for c, *told in found.left_out]
    assert said == [(("split", 1, 1), Outcome.UNSUPPORTED, why)]
    assert len(found.cases) == 8


def test_a_stage_without_reference_gradients_is_left_out_of_them(monkeypatch):
    monkeypatch.setitem(STAGES, "output", replace(STAGES["output"], gradients=()))
    found = plan(models=("andrea-12m",), stages=("output",), directions=("forward", "step"))
    assert [group.direction for group in found.groups] == ["forward"]
    assert reasons(found) == {
        "concat_matmul": (
            Outcome.UNSUPPORTED,
            "has no backward: the stage has no reference for gradients",
        )
    }


def test_a_variant_without_a_backward_is_left_out_of_gradients_alone_with_its_reason():
    ours = facts("attention", "ours", no_backward="our kernel is written for the forward alone")
    found = plan(models=("andrea-12m",), directions=DIRECTIONS, found=[ours, facts("attention", "sdpa")])
    assert [(c.direction, c.variant) for group in found.groups for c in group.cases] == [
        ("forward", "ours"),
        ("forward", "sdpa"),
        ("backward", "sdpa"),
        ("step", "sdpa"),
    ]
    why = Outcome.UNSUPPORTED, "has no backward: our kernel is written for the forward alone"
    assert [(case.direction, *said) for case, *said in found.left_out] == [("backward", *why), ("step", *why)]


def test_what_is_resumed_is_left_out_by_its_direction_too():
    ours = facts("attention", "ours", no_backward="it has none")
    shape = Shape(1, 8, 16, 2)
    cases = [case_of("attention", "ours", shape, direction) for direction in DIRECTIONS]
    assert [case.direction for case, _, _ in leave_out(cases, [ours], CPU)] == ["backward", "step"]


@given(shapes)
def test_a_cases_work_is_that_of_its_direction(shape):
    for stage in STAGES:
        forward, backward, step = (
            figures(case_of(stage, "any", shape, direction)) for direction in DIRECTIONS
        )
        assert backward["useful_flops"] == 2 * forward["useful_flops"]
        assert step["useful_flops"] == forward["useful_flops"] + backward["useful_flops"]
        assert forward["parameters"] == backward["parameters"] == step["parameters"]
        assert forward["least_bytes"] <= backward["least_bytes"]
        # A step reads activations and weights once for both.
        assert step["least_bytes"] <= forward["least_bytes"] + backward["least_bytes"]


def test_variants_keep_the_order_they_were_found_in():
    found = plan(models=("andrea-12m",), stages=("qkv",))
    assert [case.variant for case in found.groups[0].cases] == ["per_head", "fused"]


def test_a_name_that_several_stages_have_is_chosen_in_all_of_them():
    chosen = plan(models=("andrea-12m",), variants=("per_head",))
    assert [case.stage for case in chosen.cases] == ["qkv", "sublayer"]


@settings(max_examples=40)
@given(
    variants=st.lists(
        st.builds(
            facts,
            st.sampled_from(list(STAGES)),
            st.text("abc", min_size=1, max_size=3),
            st.sampled_from([None, "absent"]),
            st.sampled_from([None, ("bf16",), ("fp32", "tf32")]),
        ),
        unique_by=lambda v: (v.stage, v.name),
        max_size=12,
    ),
    dtypes=st.sets(st.sampled_from(["bf16", "fp32", "tf32"]), min_size=1),
    environment=st.sampled_from([CPU, GPU]),
)
def test_the_grid_is_complete_whatever_is_left_out(variants, dtypes, environment):
    selection = Selection(models=("andrea-12m", "head-dim-72"), batch=(1, 2), dtypes=tuple(sorted(dtypes)))
    found = make_plan(selection, variants, environment)
    seq_len = 256 if environment is CPU else 1024
    whole = {
        case_of(v.stage, v.name, Shape(batch, seq_len, d_model, 12, True, dtype, n_layer))
        for v in variants
        for batch in (1, 2)
        for d_model, n_layer in (((384, 6), (864, 12)) if STAGES[v.stage].deep else ((384, 1), (864, 1)))
        for dtype in dtypes
    }
    assert len(found.cases) == len(whole)
    assert set(found.cases) == whole
    measured = [case for group in found.groups for case in group.cases]
    left = [case for case, _, _ in found.left_out]
    assert sorted(c.key for c in measured + left) == sorted(c.key for c in whole)
    assert all(reason for _, _, reason in found.left_out)
    assert all(group.cases for group in found.groups)
    # A group's cases stand together, the ones left out among them.
    assert len(list(itertools.groupby(found.cases, key=lambda c: c.group))) == len({c.group for c in whole})


@given(cases)
def test_a_case_gives_back_the_shape_it_was_made_from(case):
    assert case_of(case.stage, case.variant, shape_of(case), case.direction) == case


@given(st.sampled_from(list(STAGES)), shapes)
def test_a_shape_survives_being_stored_as_a_case(stage, shape):
    case = case_of(stage, "any", shape)
    assert shape_of(case) == shape
    assert (case.head_dim, case.direction) == (shape.head_dim, "forward")


@settings(max_examples=40)
@given(st.lists(cases, unique=True, max_size=12))
def test_grouped_cases_are_all_there_once_and_alike_but_for_the_variant(some):
    groups = group_cases(some)
    assert sorted(c.key for g in groups for c in g.cases) == sorted(c.key for c in some)
    assert len({g.cases[0].group for g in groups}) == len(groups)
    for group in groups:
        assert {(c.stage, shape_of(c), c.direction) for c in group.cases} == {
            (group.stage, group.shape, group.direction)
        }
        assert [c for c in some if c.group == group.cases[0].group] == list(group.cases)


def test_a_plans_measured_cases_group_into_the_plans_groups():
    found = plan(GPU)
    assert group_cases([case for group in found.groups for case in group.cases]) == found.groups


def test_without_any_variant_the_plan_is_empty():
    assert plan(found=[]).cases == ()
