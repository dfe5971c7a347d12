"""Runs whose counters follow a rule, to pivot: a kernel of a few widths, variants by the dozen. Figures made up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from results.figures import CountedKernel, Counters, Gpm, Utilisation
from results.run import Run
from results.schema import Observation
from tests.results import builders, h200

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from results.schema import Case, Trial

WIDTHS = (64, 128, 256)
"""What a kernel is compiled for: a head of 72 runs in the 128-wide one."""


def width_of(head_dim: int) -> int:
    """The narrowest of these kernels that holds it."""
    return next(width for width in WIDTHS if head_dim <= width)


def sweep(values: Iterable[int], variants: Sequence[str] = ("padding",), **case: Any) -> Run:
    """Variants that pad to `WIDTHS`: as busy as their kernel is wide, their useful rate what padding leaves."""
    cases = [h200.case(variant, value, **case) for value in values for variant in variants]
    return run([observed(one, width_of(one.head_dim)) for one in cases])


def observed(of: Case, width: int, **counters: Any) -> tuple[Case, float, Observation]:
    """The case, its time at 400 TFLOP/s of what it issues, and its counters."""
    issued = h200.useful_flops(of) / of.head_dim * width
    kernel = CountedKernel(f"sm90_attention_{width}x128_kernel", 1, 1e-4, issued_flops=issued)
    told = Counters(
        **{
            "tensor_active_percent": 30.0 + width / 4,
            "issued_flops": issued,
            "rate_while_active": 1.0,
            "kernels": (kernel,),
            **counters,
        }
    )
    return of, issued / 400e12, Observation(of, gpm=Gpm(tensor_active_percent=50.0), counters=told)


def run(
    measured: Iterable[tuple[Case, float, Observation | None]], *, replicates: int = 3, **manifest: Any
) -> Run:
    """A run of these cases, each with its time in seconds and what was observed of it."""
    measured = list(measured)
    settings = {"counters": "ncu"}
    of = builders.manifest(
        [case for case, *_ in measured], **{"settings": settings, "replicates": replicates, **manifest}
    )
    trials = [timed(case, time_s * 1.001**n, n) for n in range(replicates) for case, time_s, _ in measured]
    return Run(Path("run"), of, trials, [seen for *_, seen in measured if seen], ceilings=h200.CEILINGS)


def timed(of: Case, time_s: float, replicate: int = 0, **trial: Any) -> Trial:
    """An ok trial of this time, with the attention's work."""
    work = {"useful_flops": h200.useful_flops(of), "utilisation": None}
    return builders.trial(of, replicate, median_s=time_s, **{**work, **trial})


def watched(**window: Any) -> Callable[[Observation], Observation]:
    """An observation whose NVML window says this."""
    from dataclasses import replace

    return lambda seen: replace(seen, utilisation=Utilisation(**window))
