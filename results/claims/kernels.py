"""Which of the kernels that a call dispatched did its work, and by whom they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.figures import Kernel
    from results.ranking import Standing

FILLS_AND_COPIES = ("Memset", "Memcpy")
"""What CUPTI calls work that is no kernel: a library clears its semaphores with one."""

HELPERS = ("elementwise", "copy", "reduce")
"""Kernels beside a matmul: what lays out its input, and what adds up its parts (cuBLAS's `splitKreduce_kernel`).

A matmul that is split along its depth says so in its name, too (`nvjet_…_splitK_…`): it does the work.
"""

BACKENDS = {
    "cudnn": "cuDNN",
    "flash_fwd": "FlashAttention-2",
    "fmha_cutlass": "CUTLASS (memory-efficient)",
}
"""Whose fused attention a kernel is, by what its name holds."""


def launched(standing: Standing) -> float | str:
    """Launches of kernels in one call, fills and copies by the driver left out; in words why that is not known."""
    return _counted(standing, FILLS_AND_COPIES)


def matmuls(standing: Standing) -> float | str:
    """Launches of matmul kernels in one call of a variant that computes nothing else."""
    return _counted(standing, (*FILLS_AND_COPIES, *HELPERS))


def products_s(standing: Standing) -> float | None:
    """Seconds of one call in kernels that multiply matrices, where scores are stored; None where that is not known."""
    dispatch = standing.record.dispatch
    if dispatch is None:
        return None
    beside = (*FILLS_AND_COPIES, *HELPERS, "softmax")
    return sum(kernel.summed_s for kernel in dispatch.kernels if not _is_any(kernel, beside)) or None


def backend(standing: Standing) -> str | None:
    """Whose fused attention ran, or `none`: an unfused one; None where the kernels are not known."""
    dispatch = standing.record.dispatch
    if dispatch is None or not dispatch.kernels:
        return None
    names = [kernel.name for kernel in dispatch.kernels]
    return next((told for part, told in BACKENDS.items() if any(part in name for name in names)), "none")


def _counted(standing: Standing, without: tuple[str, ...]) -> float | str:
    dispatch = standing.record.dispatch
    if dispatch is None or dispatch.launches is None:
        return (dispatch.reason if dispatch else None) or "its kernels were not recorded"
    return sum(kernel.launches for kernel in dispatch.kernels if not _is_any(kernel, without))


def _is_any(kernel: Kernel, parts: tuple[str, ...]) -> bool:
    return any(part.lower() in kernel.name.lower() for part in parts)
