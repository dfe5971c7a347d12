"""All that `claims` would measure on a GPU, played by a made-up run: every rule finds the records that it needs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from harness.claims_measuring import cases_to_count, plan_of
from harness.lesson import algebra
from harness.plan import VariantFacts, figures
from results.claims import CLAIMS, Evidence, judge
from results.claims.claim import Answer
from results.claims.observed import Learnt, Observed
from results.figures import Counters, Dispatch, Kernel
from results.run import Run
from results.schema import Observation
from tests.results import builders
from tests.results.claims.made_up import WOBBLE
from variants.registry import discover

if TYPE_CHECKING:
    from pathlib import Path

    from results.schema import Case

H200 = {**builders.GPU_ENVIRONMENT["gpu"], "memory_bytes": 141 << 30, "sm_count": 132}
ENVIRONMENT = {**builders.GPU_ENVIRONMENT, "device": "cuda:0", "gpu": H200}

KERNELS = {
    "per_head": {"nvjet": 36},
    "fused": {"nvjet": 3},
    "concat_matmul": {"copy": 1, "nvjet": 1},
    "sdpa": {"cudnn_flash": 1},
}
"""By the variant's name; where none is known, one kernel."""


@cache
def facts() -> tuple[VariantFacts, ...]:
    """Every variant, asides too, as a GPU that lacks nothing has them."""
    known = discover().variants
    return tuple(
        VariantFacts(stage, name, "", "", None, None, aside=of.aside) for (stage, name), of in known.items()
    )


def played(folder: Path, *ids: str) -> Run:
    """A run of what these claims ask for, each case at half the peak of the GPU; counters where they are asked for."""
    claims = [CLAIMS[one] for one in ids] or list(CLAIMS.values())
    plan = plan_of((cases for claim in claims for cases in claim.cases), list(facts()), ENVIRONMENT)
    counted = cases_to_count(claims, list(facts()), ENVIRONMENT)
    trials = [
        builders.trial(
            case,
            replicate,
            timings={
                mode: builders.timing(seconds_of(case) * factor) for mode in ("isolated", "eager", "graph")
            },
            **figures(case),
        )
        for case in plan.cases
        for replicate, factor in enumerate(WOBBLE)
    ]
    seen = [Observation(case, dispatch=dispatch(case)) for case in plan.cases]
    seen += [
        Observation(case, counters=Counters(issued_flops=figures(case)["useful_flops"])) for case in counted
    ]
    settings = {"counters": "ncu" if counted else "gpm"}
    manifest = replace(
        builders.manifest(plan.cases, replicates=5, environment=ENVIRONMENT), settings=settings
    )
    return Run(folder, manifest, trials, seen)


def seconds_of(case: Case) -> float:
    told = figures(case)
    return max(told["useful_flops"] / 494e12, told["least_bytes"] / 2.4e12, 5e-6)


def dispatch(case: Case) -> Dispatch:
    known = KERNELS.get(case.variant, {"kernel": 1})
    kernels = tuple(Kernel(name, count, 1e-6) for name, count in known.items())
    return Dispatch(sum(known.values()), 1e-6, kernels)


@cache
def experiments() -> Observed:
    """Algebra as it is, trainings made up."""
    learnt = [
        Learnt(seed, heads, 500, 1.8 + 0.05 * (heads == 1), 0.99, 0.2, 0.7, 0.2, -0.3 if heads > 1 else None)
        for seed in range(5)
        for heads in (4, 1)
    ]
    return Observed(
        algebra.calls(), algebra.parameters(), algebra.round_trips(), algebra.dependence(), learnt
    )


OPEN = {
    "C3": "MLP and embeddings as the other three quarters",
    "C6": "a head that follows the latest entity",
}
"""What no machine answers."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_statement_lacks_a_record_alone_or_with_all_other_claims(tmp_path, claim: str) -> None:
    for run in (played(tmp_path), played(tmp_path, claim)):
        found = judge(CLAIMS[claim], Evidence(run, experiments()))
        lacking = [(part.about, part.reason) for part in found.of(Answer.MISSING)]
        assert [about for about, _ in lacking] == ([OPEN[claim]] if claim in OPEN else []), lacking


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_judged_alike_alone_and_with_all_others(tmp_path, claim: str) -> None:
    together, alone = (Evidence(run, experiments()) for run in (played(tmp_path), played(tmp_path, claim)))
    answers = [
        [(part.about, part.answer, part.number) for part in judge(CLAIMS[claim], evidence).parts]
        for evidence in (together, alone)
    ]
    assert answers[0] == answers[1]
