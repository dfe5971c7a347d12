"""C10 to C12 on runs made up so that a head_dim fits, is padded, is slower, or was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from results.claims.claim import Answer
from results.figures import Counters
from results.schema import Observation, Outcome
from tests.results.claims.made_up import answers, attention, finding, run, sweep


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


@pytest.mark.parametrize("claim", ["C10", "C11", "C12"])
def test_times_of_a_gpu_that_is_not_full_tell_nothing_of_tiles(claim: str) -> None:
    """At batch 1 twelve heads leave 132 multiprocessors idle: half the work takes as long, whatever the tile."""
    swept = {
        batch: [
            attention("sdpa", head_dim=size, d_model=12 * size, causal=False, batch=batch)
            for size in (32, 64, 72)
        ]
        for batch in (1, 32)
    }
    both, alone, small = (
        finding(claim, run(dict.fromkeys(of, 1e-4))) for of in (swept[1] + swept[32], swept[32], swept[1])
    )
    assert [part.answer for part in both.parts] == [part.answer for part in alone.parts]
    (part,) = [part for part in small.parts if part.about.startswith("useful work")]
    assert (part.answer, part.number) == (Answer.MISSING, None)
    assert "12 heads do not fill 132 multiprocessors" in str(part.reason)


def test_c10_asks_whether_it_is_multiples_of_16_that_fit() -> None:
    at = {
        size: attention("sdpa", head_dim=size, d_model=12 * size, causal=False, batch=32)
        for size in (64, 72, 80)
    }
    of = run({at[64]: 1e-4, at[72]: 2e-4, at[80]: 2e-4})
    for factor, answer in ((1.0, "holds"), (1.6, "fails")):
        of.observations[:] = [
            Observation(
                one, counters=Counters(issued_flops=1000 * one.d_model * (factor if one is at[80] else 1))
            )
            for one in at.values()
        ]
        found = answers(finding("C10", of))
        assert (found["issued ÷ useful at 64"], found["issued ÷ useful at 80"]) == ("holds", answer)
    (part,) = finding("C10", of).of(Answer.FAILS)
    assert part.says == "sdpa executes {} the FLOPs it needs at 80 = 5 × 16: it is padded"


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
