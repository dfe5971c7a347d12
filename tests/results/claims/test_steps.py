"""C13 on a layer, its steps and a stack, made up so that they add up or do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from results.schema import Outcome
from tests.results import builders
from tests.results.claims.made_up import answers, finding, layer


@pytest.mark.parametrize(
    ("layer_s", "stack_s", "verdict"),
    [(3e-4, 36e-4, "supported"), (2e-4, 24e-4, "partly"), (3e-4, 24e-4, "partly"), (3e-4, None, "partly")],
)
def test_c13_adds_up_steps_and_layers(layer_s: float, stack_s: float | None, verdict: str) -> None:
    assert finding("C13", layer(layer_s, stack_s)).judgement == verdict


def test_c13_holds_a_layer_against_the_steps_that_it_takes_and_tells_the_lessons() -> None:
    parts = {part.about: part for part in finding("C13", layer(3e-4, 36e-4)).parts}
    summed = parts["Σ of the steps' times ÷ the layer's"]
    assert summed.number is not None
    assert summed.number.value == pytest.approx(1)
    assert "(qkv/fused_qkv, attention/sdpa_strided, output/strided_matmul)" in summed.says
    assert "the lesson's five, with a copy to concatenate, 2.00 ×" in summed.says
    assert "(48 kernels, a layer is 3: a stack adds residuals)" in parts["a stack's time ÷ its layers'"].says


def test_c13_takes_contiguous_attention_where_no_other_was_measured_and_lacks_a_step_aloud() -> None:
    of = layer(3e-4)
    dense = replace(of, trials=[one for one in of.trials if one.case.variant != "sdpa_strided"])
    assert any("attention/sdpa, output" in part.says for part in finding("C13", dense).parts)
    copied = replace(of, trials=[one for one in of.trials if one.case.variant != "strided_matmul"])
    assert answers(finding("C13", copied))["Σ of the steps' times ÷ the layer's"] == "missing"


def test_c13_asks_for_a_stack_where_there_is_one_and_lacks_it_aloud_where_there_is_none() -> None:
    with_stack, at_32 = layer(3e-4, 36e-4), layer(3e-4)
    large = [replace(one, case=replace(one.case, batch=32)) for one in at_32.trials]
    both = replace(with_stack, trials=[*with_stack.trials, *large])
    depths = [part for part in finding("C13", both).parts if part.about == "a stack's time ÷ its layers'"]
    assert [(part.at, part.answer.value) for part in depths] == [("batch 1", "holds")]
    (lacking,) = [
        part for part in finding("C13", at_32).parts if part.about == "a stack's time ÷ its layers'"
    ]
    assert "does not have stack/fused_sdpa" in str(lacking.reason)


def test_of_stacks_of_several_depths_c13_takes_the_deepest() -> None:
    of = layer(3e-4, 36e-4)
    deep = [
        replace(
            one,
            case=replace(one.case, n_layer=n_layer),
            parameters=100 * n_layer,
            timings={mode: builders.timing(3e-4 * n_layer) for mode in one.timings},
        )
        for one in of.trials
        if one.case.stage == "stack"
        for n_layer in (24, 2)
    ]
    layers = [one for one in of.trials if one.case.stage != "stack"]
    told = [part.says for part in finding("C13", replace(of, trials=[*layers, *deep])).parts]
    assert any("the time of 24 layers" in says for says in told)
    assert not any("the time of 2 layers" in says for says in told)
    broken = [
        replace(one, outcome=Outcome.OUT_OF_MEMORY, reason="too deep", timings={})
        if one.case.n_layer == 24
        else one
        for one in [*layers, *deep]
    ]
    told = [part.says for part in finding("C13", replace(of, trials=broken)).parts]
    assert any("the time of 2 layers" in says for says in told), "the deepest that has a time"
