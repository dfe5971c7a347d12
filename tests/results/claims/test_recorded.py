"""The verdicts that the recorded H200 runs support, derived by hand from their figures (`report` shows them)."""

from __future__ import annotations

from functools import cache

import pytest

import results
from results.claims import CLAIMS, Evidence, judge
from results.claims.claim import Answer

DEFAULT = {
    "C1": "supported",  # 36, 3 and 1 nvjet kernels
    "C2": "partly",  # heads apart take 598 of 178 µs, but the fused matmul does 637 of 793 TFLOP/s
    "C3": "partly",  # 4 × 768² recorded; no model built
    "C4": "not measurable here",
    "C5": "not measurable here",
    "C6": "not measurable here",
    "C7": "not measurable here",  # no shape with one head
    "C8": "not measurable here",  # no strided twins
    "C9": "not measurable here",  # no block_per_head
    "C10": "partly",  # faster per FLOP than 72; what is executed was not counted
    "C11": "partly",
    "C12": "partly",  # slower per FLOP than 64, yet cuDNN at both
    "C13": "partly",  # 3 + 1 + 1 kernels, 171.4 + 155.0 + 59.1 µs for a layer of 387.5; a stack at 1.10 × is open
}
HEAD_DIM = {
    "C10": "partly",  # every library issues 1.00 × at 64; 80 was not measured
    "C11": "partly",  # cuDNN issues 2.00 × at 32, FlashAttention-2 1.00 ×
    "C12": "partly",  # 1.33 to 1.78 × at 72, ours 1.00 ×, cuDNN stays
}


@cache
def evidence(name: str) -> Evidence:
    return Evidence.of(results.read(f"nvidia-h200/{name}"))


def number(name: str, claim: str, says: str) -> float:
    """The number of the one statement at batch 32 that holds these words."""
    parts = judge(CLAIMS[claim], evidence(name)).parts
    (found,) = [part for part in parts if says in part.says and part.at.startswith("batch 32")]
    assert found.number is not None
    return found.number.value


@pytest.mark.parametrize(("claim", "verdict"), DEFAULT.items())
def test_the_default_run_answers_what_it_holds(claim: str, verdict: str) -> None:
    assert judge(CLAIMS[claim], evidence("default")).judgement == verdict


@pytest.mark.parametrize(("claim", "verdict"), HEAD_DIM.items())
def test_the_head_dim_run_answers_what_it_holds(claim: str, verdict: str) -> None:
    assert judge(CLAIMS[claim], evidence("head_dim")).judgement == verdict


@pytest.mark.parametrize(
    ("name", "claim", "says", "by_hand"),
    [
        ("default", "C2", "replayed without launches", 598.00 / 178.17),
        ("default", "C2", "a Python caller waits", 668.78 / 182.77),
        ("default", "C10", "sdpa does", (229.59 / 72) / (159.19 / 64)),
        ("default", "C11", "sdpa_flash does", (178.18 / 32) / (246.28 / 64)),
        ("default", "C13", "measured apart", (171.37 + 155.00 + 59.12) / 387.47),
        ("head_dim", "C11", "sdpa_cudnn executes", 2.0),
        ("head_dim", "C12", "sdpa_flash executes", 4 / 3),
    ],
)
def test_numbers_are_those_of_the_report(name: str, claim: str, says: str, by_hand: float) -> None:
    assert number(name, claim, says) == pytest.approx(by_hand, rel=2e-3)


def test_every_interval_holds_its_number() -> None:
    for name in ("default", "head_dim"):
        for claim in CLAIMS.values():
            for part in judge(claim, evidence(name)).parts:
                if part.number and part.number.low is not None and part.number.high is not None:
                    assert part.number.low <= part.number.value <= part.number.high


def test_what_is_missing_says_why() -> None:
    for claim in CLAIMS.values():
        for part in judge(claim, evidence("default")).parts:
            undecided = part.answer in (Answer.MISSING, Answer.UNDECIDED)
            assert bool(part.reason) == undecided
            assert ("{}" in part.says) <= (part.number is not None)
