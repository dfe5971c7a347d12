"""Claims on runs made up so that each is supported, refuted, or something between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from results.claims.claim import Answer
from results.figures import Dispatch, Kernel
from results.schema import Observation
from tests.results import builders
from tests.results.claims.made_up import answers, attention, case, finding, layer, run, sweep

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
    assert "contiguous ones, with 3 kernels more (its products alone 1.00 ×" in part.says
    alike = {plain: copies[plain], strided: copies[plain]}
    (part, *_) = finding("C8", run({plain: 1e-4, strided: 2e-4}, alike)).of(Answer.HOLDS)
    assert "kernels more" not in part.says


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


def test_c8_tells_what_the_products_alone_take_where_scores_are_stored() -> None:
    """Softmax and mask are most of it: a product that takes half as long again hardly shows in the whole."""
    plain, strided = attention("per_head_loop"), attention("per_head_loop_strided")
    of = run({plain: 1e-4, strided: 1.02e-4})
    for one, products_s in ((plain, 1e-5), (strided, 1.5e-5)):
        kernels = (Kernel("nvjet_x", 24, products_s), Kernel("softmax_warp_forward", 12, 8e-5))
        of.observations.append(Observation(one, dispatch=Dispatch(36, 9e-5, kernels)))
    (part, *_) = finding("C8", of).of(Answer.HOLDS)
    assert part.says.endswith("contiguous ones (its products alone 1.50 ×, under a profiler)")
