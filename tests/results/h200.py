"""What an H200 did at batch 32, n_head 12, seq_len 1024, full mask, bf16: FA2 and cuDNN attention at three head_dims.

Counts, percentages and kernel names as Nsight Compute 2025.3.1 gave them (torch 2.11, cuDNN 9.19), rates in TFLOP/s
as a cold-cache event timer measured them on the same kind of machine, `4·B·H·T²·head_dim` FLOPs a call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.figures import CountedKernel, Counters, Dispatch, Gpm, Kernel, Matmul, Utilisation
from results.run import Run
from results.schema import Ceilings, Observation
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from results.schema import Case

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<{0}, 128, {1}, 4, 0, 0, cutlass::bfloat16_t, "
    "Flash_kernel_traits<{0}, 128, {1}, 4, cutlass::bfloat16_t>>, 0, 0, 0, 0, 1, 1, 0, 0>"
    "(pytorch_flash::Flash_fwd_params)"
)
CUDNN = (
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x{0}_4x1x1_cga1x1x1_kernel0_0"
)
FLOP_PER_CYCLE = 1024
"""What the tensor core of one quarter of an SM does at most in a cycle, in bf16."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One kernel's counts: `cycles` is sm__pipe_tensor_cycles_active.sum."""

    kernel: str
    tflops: float
    issued: int
    cycles: int
    active: float
    duration_s: float


COUNTED: dict[tuple[str, int], Counted] = {
    ("sdpa_flash", 32): Counted(FLASH.format(32, 128), 193, 51_539_607_552, 75_497_472, 30.46, 264_096e-9),
    ("sdpa_flash", 64): Counted(FLASH.format(64, 128), 284, 103_079_215_104, 150_994_944, 44.30, 366_688e-9),
    ("sdpa_flash", 72): Counted(FLASH.format(96, 64), 218, 154_618_822_656, 226_492_416, 45.09, 534_944e-9),
    ("sdpa_cudnn", 32): Counted(CUDNN.format(64), 219, 103_079_215_104, 100_663_296, 45.63, 238_208e-9),
    ("sdpa_cudnn", 64): Counted(CUDNN.format(64), 432, 103_079_215_104, 100_663_296, 45.63, 241_344e-9),
    ("sdpa_cudnn", 72): Counted(CUDNN.format(128), 349, 206_158_430_208, 201_326_592, 66.00, 336_192e-9),
}

CEILINGS = Ceilings(
    matmuls={"bf16": Matmul(8192, 792e12, 1980.0, 692e12, 1440.0)}, copy_bytes_per_s=4.3e12, source="a matmul"
)


def case(variant: str = "sdpa_cudnn", head_dim: int = 72, **overrides: Any) -> Case:
    """One of its cases."""
    shape = {"batch": 32, "head_dim": head_dim, "d_model": 12 * head_dim, "causal": False}
    return builders.case(variant, **{"stage": "attention", **shape, **overrides})


def useful_flops(of: Case) -> int:
    """Both products of the attention: 4 FLOPs for each pair of positions and feature."""
    return 4 * of.batch * of.n_head * of.seq_len**2 * of.head_dim


def counters(of: Case) -> Counters:
    """What Nsight Compute told of this case."""
    seen = COUNTED[of.variant, of.head_dim]
    return Counters(
        tensor_active_percent=seen.active,
        issued_flops=float(seen.issued),
        rate_while_active=seen.issued / (seen.cycles * FLOP_PER_CYCLE),
        sm_active_percent=96.5,
        occupancy_percent=14.05,
        dram_percent=8.3,
        kernels=(CountedKernel(seen.kernel, 1, seen.duration_s, seen.active, float(seen.issued)),),
        source="Nsight Compute",
    )


def observation(of: Case) -> Observation:
    """All sensors' figures; window, GPM and energy are made up around the recorded ones."""
    seen = COUNTED[of.variant, of.head_dim]
    span_s = useful_flops(of) / (0.9e12 * seen.tflops)
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
    gpm = Gpm(97.0, 14.0, seen.active - 0.5, 8.0, window_s=0.6, source="NVML GPM")
    dispatch = Dispatch(1.0, span_s, (Kernel(seen.kernel, 1.0, span_s),), calls=5, source="CUPTI")
    return Observation(of, utilisation=window, gpm=gpm, dispatch=dispatch, counters=counters(of))


def run(
    cases: Iterable[tuple[str, int]] = COUNTED,
    observed: Callable[[Observation], Observation] = lambda seen: seen,
    *,
    replicates: int = 3,
    **manifest: Any,
) -> Run:
    """These (variant, head_dim) in as many replicates, what was observed of them changed by `observed`."""
    planned = [case(variant, head_dim) for variant, head_dim in cases]
    settings = {"counters": "ncu", "budget_s": 60.0}
    of = builders.manifest(planned, **{"replicates": replicates, "settings": settings, **manifest})
    trials = [
        builders.trial(
            one,
            n,
            median_s=1.001**n * useful_flops(one) / (1e12 * COUNTED[one.variant, one.head_dim].tflops),
            useful_flops=useful_flops(one),
            utilisation=None,
        )
        for n in range(replicates)
        for one in planned
    ]
    observations = [observed(observation(one)) for one in planned]
    return Run(Path("run"), of, trials, observations, ceilings=CEILINGS)


def without(*fields: str) -> Callable[[Observation], Observation]:
    """An observation without these fields, for `run`."""
    return lambda seen: replace(seen, **dict.fromkeys(fields))
