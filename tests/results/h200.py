"""What an H200 did at batch 32, n_head 12, seq_len 1024, full mask, bf16: FA2 and cuDNN attention at three head_dims.

Counters are read from what Nsight Compute wrote (torch 2.11, cuDNN 9.19; tests/data). The rates were measured by a
cold-cache event timer on the same kind of machine. Window, energy and GPM are made up around them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.figures import Dispatch, Gpm, Kernel, Matmul, Utilisation
from results.run import Run
from results.schema import Ceilings, Observation
from tests.harness import recorded_counters
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from results.figures import Counters
    from results.schema import Case

TFLOPS = {
    ("sdpa_flash", 32): 193,
    ("sdpa_flash", 64): 284,
    ("sdpa_flash", 72): 218,
    ("sdpa_cudnn", 32): 219,
    ("sdpa_cudnn", 64): 432,
    ("sdpa_cudnn", 72): 349,
}
RECORDED = {"sdpa_flash": "fa2", "sdpa_cudnn": "cudnn"}
"""What the recorded table calls these variants."""

CEILINGS = Ceilings(
    matmuls={"bf16": Matmul(8192, 792e12, 1980.0, 692e12, 1440.0)}, copy_bytes_per_s=4.3e12, source="torch"
)
SETTINGS = {"counters": "ncu", "budget_s": 60.0}


@cache
def recorded(name: str) -> Counters:
    """The counters of one case of the recorded table."""
    found: Counters = recorded_counters.counted(name)
    return found


def case(variant: str = "sdpa_cudnn", head_dim: int = 72, **overrides: Any) -> Case:
    """One of its cases."""
    shape = {"batch": 32, "head_dim": head_dim, "d_model": 12 * head_dim, "causal": False}
    return builders.case(variant, **{"stage": "attention", **shape, **overrides})


def useful_flops(of: Case) -> int:
    """Both products of the attention: 4 FLOPs for each pair of positions and feature."""
    return 4 * of.batch * of.n_head * of.seq_len**2 * of.head_dim


def observation(of: Case) -> Observation:
    """What all sensors tell of one of these cases."""
    counters = recorded(f"{RECORDED[of.variant]}-{of.head_dim}-full")
    span_s = useful_flops(of) / (0.9e12 * TFLOPS[of.variant, of.head_dim])
    window = Utilisation(
        gpu_busy_percent=99.0,
        power_w=640.0,
        window_s=0.6,
        calls=round(0.6 / span_s),
        span_s=span_s,
        energy_j=300.0,
        energy_window_s=0.5,
        other_processes=0,
        fed_by="graph",
        source="NVML",
    )
    gpm = Gpm(97.0, 14.0, (counters.tensor_active_percent or 0.0) - 0.5, 8.0, window_s=0.6, source="NVML GPM")
    kernels = tuple(Kernel(kernel.name, 1.0, span_s) for kernel in counters.kernels)
    dispatch = Dispatch(1.0, span_s, kernels, calls=5, source="CUPTI")
    return Observation(of, utilisation=window, gpm=gpm, dispatch=dispatch, counters=counters)


def run(
    cases: Iterable[tuple[str, int]] = TFLOPS,
    observed: Callable[[Observation], Observation] = lambda seen: seen,
    *,
    replicates: int = 3,
    **manifest: Any,
) -> Run:
    """These (variant, head_dim) in as many replicates, what was observed of them changed by `observed`."""
    planned = [case(variant, head_dim) for variant, head_dim in cases]
    of = builders.manifest(planned, **{"replicates": replicates, "settings": SETTINGS, **manifest})
    trials = [
        builders.trial(
            one,
            n,
            median_s=1.001**n * useful_flops(one) / (1e12 * TFLOPS[one.variant, one.head_dim]),
            useful_flops=useful_flops(one),
            utilisation=None,
        )
        for n in range(replicates)
        for one in planned
    ]
    return Run(Path("run"), of, trials, [observed(observation(one)) for one in planned], ceilings=CEILINGS)


def without(*fields: str) -> Callable[[Observation], Observation]:
    """An observation without these fields, for `run`."""
    return lambda seen: replace(seen, **dict.fromkeys(fields))
