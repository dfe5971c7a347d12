"""Runs made up for claims: times by case, on a GPU or a CPU, with what was dispatched where a test says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.claims import CLAIMS, Evidence, judge
from results.claims.observed import Observed
from results.figures import Dispatch, Kernel
from results.run import Run
from results.schema import Observation
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from results.claims import Finding
    from results.schema import Case

WOBBLE = (0.999, 1.0, 1.001, 1.0, 1.0)
"""What each replicate's times are multiplied with: processes differ a little, and alike for all cases."""


def case(stage: str, variant: str, **shape: Any) -> Case:
    """A case of ANDREA-120M in bf16, batch 1."""
    return builders.case(variant, stage=stage, **shape)


def run(
    times_s: Mapping[Case, float],
    kernels: Mapping[Case, Mapping[str, float]] | None = None,
    *,
    replicates: int = 5,
    parameters: Mapping[Case, int] | None = None,
    environment: dict[str, Any] | None = None,
) -> Run:
    """A run on an H200 (132 multiprocessors) in which a case's isolated, eager and graph times are alike."""
    gpu = {**builders.GPU_ENVIRONMENT, "gpu": {**builders.GPU_ENVIRONMENT["gpu"], "sm_count": 132}}
    trials = [
        builders.trial(
            of,
            replicate,
            timings={
                mode: builders.timing(time_s * WOBBLE[replicate]) for mode in ("isolated", "eager", "graph")
            },
            useful_flops=1000 * of.d_model,
            parameters=(parameters or {}).get(of, 0),
        )
        for of, time_s in times_s.items()
        for replicate in range(replicates)
    ]
    seen = [Observation(of, dispatch=_dispatch(named)) for of, named in (kernels or {}).items()]
    manifest = replace(
        builders.manifest(), cases=tuple(times_s), replicates=replicates, environment=environment or gpu
    )
    return Run(Path("nowhere"), manifest, trials, seen)


def _dispatch(launches: Mapping[str, float]) -> Dispatch:
    kernels = tuple(Kernel(name, count, 1e-6) for name, count in launches.items())
    return Dispatch(sum(launches.values()), 1e-5, kernels)


def finding(claim: str, of: Run, observed: Observed | None = None) -> Finding:
    """The claim, judged from this run and these experiments."""
    return judge(CLAIMS[claim], Evidence(of, observed or Observed()))


def answers(found: Finding) -> dict[str, str]:
    """The answer of each kind of statement; of several alike, the last."""
    return {part.about: part.answer.value for part in found.parts}


def attention(name: str, **shape):
    return case("attention", name, **shape)


def sweep(times_s: dict[int, float], kernels: dict[int, str]):
    """PyTorch's attention at some head_dims, heads enough for 132 multiprocessors."""
    cases = {
        head_dim: attention("sdpa", head_dim=head_dim, d_model=12 * head_dim, batch=32)
        for head_dim in times_s
    }
    names = {cases[head_dim]: {name: 1} for head_dim, name in kernels.items()}
    return run({cases[head_dim]: time_s for head_dim, time_s in times_s.items()}, names)


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
