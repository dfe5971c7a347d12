"""Claims on runs made up so that each is supported, refuted, or something between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from results.claims.claim import Answer
from results.schema import Outcome
from tests.results import builders
from tests.results.claims.made_up import answers, case, finding, run

if TYPE_CHECKING:
    from results.run import Run
    from results.schema import Case

QKV = {name: case("qkv", name) for name in ("per_head", "fused", "fused_qkv")}
KERNELS = {
    QKV["per_head"]: {"gemm": 36},
    QKV["fused"]: {"gemm": 3, "Memset (Device)": 3},
    QKV["fused_qkv"]: {"gemm": 1},
}


def test_c1_counts_kernels_and_no_fills() -> None:
    times = dict.fromkeys(QKV.values(), 1e-4)
    assert finding("C1", run(times, KERNELS)).judgement == "supported"
    more = {**KERNELS, QKV["fused"]: {"gemm": 4}}
    assert answers(finding("C1", run(times, more)))["matmul kernels of fused"] == "fails"
    assert finding("C1", run(times)).judgement == "not measurable here", "no kernels were recorded"


def test_c2_needs_heads_apart_to_be_slower() -> None:
    slow = run({QKV["per_head"]: 3e-4, QKV["fused"]: 1e-4})
    assert answers(finding("C2", slow))["the same for a Python caller"] == "holds"
    level = run({QKV["per_head"]: 1.05e-4, QKV["fused"]: 1e-4})
    assert finding("C2", level).judgement == "refuted", "neither at the peak nor faster"


def attention(name: str, **shape):
    return case("attention", name, **shape)


@pytest.mark.parametrize(
    ("strided_s", "relayout_s", "verdict"),
    [(2e-4, 0.5e-4, "supported"), (2e-4, 1.5e-4, "partly"), (1e-4, 0.5e-4, "refuted")],
)
def test_c8_asks_for_a_gain_that_pays_for_the_relayout(
    strided_s: float, relayout_s: float, verdict: str
) -> None:
    times = {
        attention("sdpa"): 1e-4,
        attention("sdpa_strided"): strided_s,
        case("split", "three_copies"): relayout_s,
    }
    assert finding("C8", run(times)).judgement == verdict


def test_c8_takes_the_fastest_relayout_and_lacks_none_silently() -> None:
    times = {attention("sdpa"): 1e-4, attention("sdpa_strided"): 2e-4}
    assert finding("C8", run(times)).judgement == "partly", "the relayout was not measured"
    both = {**times, case("split", "slow"): 9e-4, case("split", "fast"): 0.5e-4}
    found = finding("C8", run(both))
    assert found.judgement == "supported"
    assert any("split/fast" in part.says for part in found.parts)


@pytest.mark.parametrize(("copied_s", "answer"), [(1.5e-4, "fails"), (0.5e-4, "holds")])
def test_c8_holds_strided_heads_against_copies_in_the_same_call(copied_s: float, answer: str) -> None:
    times = {attention("sdpa_strided"): 1e-4, attention("sdpa_contiguous_copies"): copied_s}
    found = answers(finding("C8", run(times)))
    assert found["strided ÷ (copies + contiguous)"] == answer
    assert found["strided ÷ (relayout + contiguous)"] == "missing", "no relayout was measured apart"


def recorded_by_an_h200(batch: int = 32) -> dict[Case, float]:
    """Seconds by case as measured at width 768, T 1024: FA2 and cuDNN on both layouts, and three copies."""
    measured = {
        "sdpa": 157e-6, "sdpa_strided": 157e-6, "sdpa_cudnn": 157e-6, "sdpa_cudnn_strided": 157e-6,
        "sdpa_flash": 244e-6, "sdpa_flash_strided": 246e-6, "sdpa_contiguous_copies": (157 + 217) * 1e-6,
    }  # fmt: skip
    times = {attention(name, batch=batch): time_s for name, time_s in measured.items()}
    return {**times, case("split", "torch_contiguous", batch=batch): 217e-6}


def test_c8_is_refuted_by_what_an_h200_does_with_strided_heads() -> None:
    """The largest gain there is, FlashAttention-2's, is 0.8 %: less than a percent, and less than a copy costs."""
    found = finding("C8", run(recorded_by_an_h200()))
    assert found.judgement == "refuted"
    ratios = {
        part.says.split()[0]: part.number.value
        for part in found.parts
        if part.about == "strided ÷ contiguous"
    }
    assert ratios == pytest.approx({"sdpa": 1, "sdpa_cudnn": 1, "sdpa_flash": 246 / 244})
    assert answers(found)["strided ÷ (copies + contiguous)"] == "fails"
    assert found.of(Answer.MISSING) == []


def test_c8_asks_the_lessons_own_question_of_a_product_for_each_head_alone() -> None:
    loop = {attention("per_head_loop"): 1e-4, attention("per_head_loop_strided"): 1.2e-4}
    (part,) = finding("C8", run(loop)).of(Answer.HOLDS)
    assert part.number is not None
    assert (part.about, part.number.value) == ("strided ÷ contiguous", pytest.approx(1.2))


def blocks(times_s: dict[int, float]):
    """The lesson's kernel at some batches, and the library's, which takes 1e-4 s whatever the batch."""
    ours = {attention("block_per_head", batch=batch): time_s for batch, time_s in times_s.items()}
    library = {attention("sdpa", batch=batch): 1e-4 for batch in times_s}
    return run({**ours, **library}, {of: {"block_per_head": 1} for of in ours})


@pytest.mark.parametrize(
    ("times_s", "verdict"),
    [({32: 1e-4}, "supported"), ({1: 9e-4}, "partly"), ({32: 8e-4, 1: 2e-4}, "partly")],
)
def test_c9_asks_for_blocks_and_for_time(times_s: dict[int, float], verdict: str) -> None:
    assert finding("C9", blocks(times_s)).judgement == verdict


def test_c9_asks_that_more_heads_take_hardly_longer_where_there_is_room_for_them() -> None:
    about = "time as heads are added"
    (part,) = [one for one in finding("C9", blocks({32: 8e-4, 1: 2e-4})).parts if one.about == about]
    assert part.number is not None
    assert part.says == "32 × as many heads as at batch 1 take {} the time"
    assert (part.answer, part.number.value, part.margin) == (Answer.HOLDS, pytest.approx(4), "below 16 ×")
    assert answers(finding("C9", blocks({32: 64e-4, 1: 2e-4})))[about] == "fails", "one after the other"
    assert about not in answers(finding("C9", blocks({32: 8e-4})))
    full_already = blocks({64: 8e-4, 11: 2e-4})
    assert about not in answers(finding("C9", full_already)), "132 blocks for 132 multiprocessors: no room"


def sweep(times_s: dict[int, float], kernels: dict[int, str]):
    """PyTorch's attention at some head_dims."""
    cases = {head_dim: attention("sdpa", head_dim=head_dim, d_model=12 * head_dim) for head_dim in times_s}
    names = {cases[head_dim]: {name: 1} for head_dim, name in kernels.items()}
    return run({cases[head_dim]: time_s for head_dim, time_s in times_s.items()}, names)


def test_c12_knows_a_fallback_when_it_sees_one() -> None:
    stays = sweep({64: 1e-4, 72: 1e-4}, {64: "cudnn_x", 72: "cudnn_y"})
    assert answers(finding("C12", stays))["PyTorch's choice at 72"] == "fails"
    falls = sweep({64: 1e-4, 72: 2e-4}, {64: "pytorch_flash::flash_fwd_kernel", 72: "fmha_cutlassF"})
    assert answers(finding("C12", falls)) == {
        "issued ÷ useful at 72": "missing",
        "useful work a second at 64 ÷ at 72": "holds",
        "PyTorch's choice at 72": "holds",
        "attention at head_dim 64 and 72": "missing",  # of every kernel but sdpa
    }


def test_c11_weighs_times_with_the_work_done() -> None:
    half_the_work_in_the_same_time = sweep({64: 1e-4, 32: 1e-4}, {})
    found = finding("C11", half_the_work_in_the_same_time)
    (part,) = [part for part in found.parts if part.about.startswith("useful work")]
    assert part.number is not None
    assert part.number.value == pytest.approx(2)
    half_the_work_in_half_the_time = sweep({64: 1e-4, 32: 0.5e-4}, {})
    assert (
        answers(finding("C11", half_the_work_in_half_the_time))["useful work a second at 64 ÷ at 32"]
        == "fails"
    )


def layer(layer_s: float, stack_s: float | None = None):
    """The lesson's steps of 2e-4 s, a layer's own of 1e-4 s, kernels as due, a layer, and a stack of twelve."""
    steps = {
        case("qkv", "fused"): {"gemm": 3},
        attention("sdpa"): {"fmha": 1},
        case("output", "concat_matmul"): {"gemm": 1, "elementwise": 1},
    }
    taken = (case("qkv", "fused_qkv"), attention("sdpa_strided"), case("output", "strided_matmul"))
    whole, stack = case("sublayer", "fused_sdpa"), case("stack", "fused_sdpa")
    times = {**dict.fromkeys(steps, 2e-4), **dict.fromkeys(taken, 1e-4), whole: layer_s}
    kernels = {**steps, whole: {"gemm": 3}, stack: {"gemm": 48}}
    return run(times | ({stack: stack_s} if stack_s else {}), kernels, parameters={whole: 100, stack: 1200})


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


def test_a_cpu_has_no_tensor_cores_and_no_thread_blocks() -> None:
    times = {attention(name): 1e-4 for name in ("sdpa", "block_per_head")}
    on_cpu = run(times, environment=builders.CPU_ENVIRONMENT)
    for claim in ("C9", "C10", "C11", "C12"):
        found = finding(claim, on_cpu)
        assert found.judgement == "not measurable here"
        assert "this run is on a CPU" in str(found.parts[0].reason)


def test_c9_holds_with_a_block_a_multiprocessor_and_lacks_their_number_aloud() -> None:
    ours, library = attention("block_per_head", batch=11), attention("sdpa", batch=11)
    times, kernels = {ours: 1e-4, library: 1e-4}, {ours: {"block_per_head": 1}}
    assert answers(finding("C9", run(times, kernels)))["blocks for multiprocessors"] == "holds", "132 for 132"
    unknown = run(times, kernels, environment=builders.GPU_ENVIRONMENT)
    found = finding("C9", unknown)
    assert answers(found)["blocks for multiprocessors"] == "missing"
    assert found.judgement == "partly"


@pytest.mark.parametrize("claim", ["C10", "C11", "C12"])
def test_what_another_claim_measured_under_a_mask_leaves_no_head_dim_open(claim: str) -> None:
    """C8 has every kernel at 64 under a causal mask, in the same run as the sweep without one."""
    sizes = {head_dim: {"head_dim": head_dim, "d_model": 12 * head_dim} for head_dim in (32, 64, 72)}
    swept = [
        attention("sdpa", causal=False, batch=batch, **size) for size in sizes.values() for batch in (1, 32)
    ]
    masked = [attention("sdpa", batch=batch, **sizes[64]) for batch in (1, 32)]
    alone, mixed = (finding(claim, run(dict.fromkeys(of, 1e-4))) for of in (swept, swept + masked))
    told = [[(part.about, part.answer) for part in found.parts] for found in (alone, mixed)]
    assert told[0] == told[1]
    assert not any("causal" in part.at for part in mixed.parts)


def test_under_a_causal_mask_the_way_to_counts_that_tell_is_said_whole() -> None:
    (part,) = [one for one in finding("C11", sweep({32: 1e-4, 64: 1e-4}, {})).parts if "issued" in one.about]
    assert part.says == "issued ÷ useful at 32, of sdpa"
    assert "--mask full --counters ncu" in str(part.reason)


@pytest.mark.parametrize("claim", ["C10", "C11", "C12"])
def test_a_kernel_that_nobody_measured_does_not_pass_for_one_that_agrees(claim: str) -> None:
    found = finding(claim, sweep({32: 1e-4, 64: 1e-4, 72: 2e-4}, {}))
    lacking = [part.reason or "" for part in found.parts if part.about.startswith("attention at")]
    assert any("sdpa_efficient" in reason for reason in lacking)


def test_heads_of_another_width_than_the_models_do_not_pass_for_the_lessons() -> None:
    decoupled = {attention("sdpa", head_dim=width, d_model=768): 1e-4 * width for width in (32, 64, 72)}
    assert finding("C11", run(decoupled)).of(Answer.HOLDS) == []
    alone = {attention("sdpa", head_dim=72, d_model=768): 1e-4}
    assert "does not have attention/sdpa" in str(finding("C11", run(alone)).parts[0].reason)


@pytest.mark.parametrize("outcome", [Outcome.INCORRECT, Outcome.CRASHED, Outcome.OUT_OF_MEMORY])
def test_times_of_a_case_that_did_not_end_well_decide_nothing(outcome: Outcome) -> None:
    of = sweep({64: 1e-4, 72: 2e-4}, {})
    at_72 = next(index for index, one in enumerate(of.trials) if one.case.head_dim == 72)
    of.trials[at_72] = replace(of.trials[at_72], outcome=outcome, reason="it broke", timings={})
    found = finding("C10", of)
    (part,) = [part for part in found.parts if part.about == "useful work a second at 64 ÷ at 72"]
    assert (part.answer, part.number) == (Answer.MISSING, None)
    assert "it broke" in str(part.reason)


def test_a_split_matmul_is_a_matmul_and_what_adds_up_its_parts_is_none() -> None:
    split = {
        QKV["fused"]: {"nvjet_hsh_64x8_64x16_4x1_v_bz_splitK_TNT": 3, "cublasLt::splitKreduce_kernel": 3}
    }
    found = finding("C1", run(dict.fromkeys(QKV.values(), 1e-4), KERNELS | split))
    assert answers(found)["matmul kernels of fused"] == "holds"


def test_parameters_and_work_that_an_older_run_does_not_tell_refute_nothing() -> None:
    whole, stack = case("sublayer", "fused_sdpa"), case("stack", "fused_sdpa")
    untold = replace_trials(layer(3e-4, 36e-4), parameters=0, useful_flops=0)
    assert {one.case for one in untold.trials} >= {whole, stack}
    assert finding("C3", untold).judgement == "not measurable here"
    assert answers(finding("C13", untold))["a stack's time ÷ its layers'"] == "missing"
    sizes = replace_trials(sweep({64: 1e-4, 72: 2e-4}, {}), useful_flops=0)
    assert answers(finding("C10", sizes))["useful work a second at 64 ÷ at 72"] == "missing"
    of = replace_trials(run({QKV["per_head"]: 3e-4, QKV["fused"]: 1e-4}), useful_flops=0)
    assert finding("C2", of).of(Answer.MISSING)[0].reason == "its useful work is not known"


def replace_trials(of: Run, **changes: int) -> Run:
    return replace(of, trials=[replace(one, **changes) for one in of.trials])


def test_on_a_cpu_cases_that_are_there_are_not_said_to_be_lacking() -> None:
    on_cpu = run(dict.fromkeys(QKV.values(), 1e-4), environment=builders.CPU_ENVIRONMENT)
    assert finding("C1", on_cpu).parts[0].reason == "they were not counted"


def test_c8_tells_a_matmul_that_is_given_copies_from_one_that_is_slower() -> None:
    plain, strided = attention("materialized"), attention("materialized_strided")
    copies = {plain: {"gemm": 2, "softmax": 1}, strided: {"gemm": 2, "softmax": 1, "copy": 3}}
    (part, *_) = finding("C8", run({plain: 1e-4, strided: 2e-4}, copies)).of(Answer.HOLDS)
    assert part.says.endswith("contiguous ones, with 3 kernels more")
    alike = {plain: copies[plain], strided: copies[plain]}
    (part, *_) = finding("C8", run({plain: 1e-4, strided: 2e-4}, alike)).of(Answer.HOLDS)
    assert part.says.endswith("contiguous ones")


def test_c7_says_whose_kernel_ran_since_no_fused_one_takes_a_head_so_wide() -> None:
    twelve, one = attention("sdpa"), attention("sdpa", n_head=1, head_dim=768)
    kernels = {twelve: {"cudnn_x": 1}, one: {"gemm": 2, "softmax": 1}}
    (part,) = finding("C7", run({twelve: 1e-4, one: 9e-4}, kernels)).of(Answer.HOLDS)
    assert part.says.endswith("the time of 12 (cuDNN for 12, no fused kernel for one)")


@pytest.mark.parametrize("claim", ["C1", "C2", "C7", "C8", "C9", "C13"])
def test_a_run_of_gradients_answers_no_claim_and_says_which_way_they_go(claim: str) -> None:
    names = {
        "qkv": ("per_head", "fused", "fused_qkv"),
        "attention": ("sdpa", "sdpa_strided", "block_per_head"),
    }
    times = {
        replace(case(stage, name), direction=direction): 1e-4
        for stage, variants in names.items()
        for name in variants
        for direction in ("backward", "step")
    }
    found = finding(claim, run(times))
    assert found.judgement == "not measurable here"
    assert any(
        "backward and step alone, and claims are about forward" in str(part.reason) for part in found.parts
    )


def test_gradients_beside_a_forward_run_change_no_verdict() -> None:
    times = recorded_by_an_h200()
    steps = {replace(of, direction="step"): 3 * time_s for of, time_s in times.items()}
    alone, both = finding("C8", run(times)), finding("C8", run({**steps, **times}))
    assert (alone.judgement, alone.parts, alone.machine) == (both.judgement, both.parts, both.machine)
