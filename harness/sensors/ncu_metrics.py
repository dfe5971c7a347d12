"""Which counters tell of a GPU's tensor cores: their names differ between architectures, and a wrong one is silent.

Each metric costs a share of a pass in which every kernel runs once more, so only what is shown is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any

from harness.sensors.ncu import NcuUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

DURATION = "gpu__time_duration.sum"
ELAPSED = "sm__cycles_elapsed.sum"
SM_ACTIVE = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
REGISTERS = "launch__registers_per_thread"
WAVES = "launch__waves_per_multiprocessor"
COMMON = (DURATION, ELAPSED, SM_ACTIVE, OCCUPANCY, DRAM, REGISTERS, WAVES)
"""What every architecture calls alike."""

PERCENT = ".avg.pct_of_peak_sustained_elapsed"
SUM = ".sum"


@dataclass(frozen=True, slots=True)
class Operations:
    """A count of what tensor cores executed of one format, in FLOP.

    `dtype` is the one whose peak holds for the format, None where none of those that are known does.
    """

    metric: str
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Chip:
    """What to ask of one architecture: its tensor pipe's metric without suffix, and its operations by format."""

    pipe: str
    operations: tuple[Operations, ...]

    @property
    def active_percent(self) -> str:
        """The share of elapsed cycles in which the tensor pipe was busy, in percent."""
        return self.pipe + PERCENT

    @property
    def active_cycles(self) -> str:
        """The cycles in which it was, added up over all tensor pipes of the GPU."""
        return self.pipe + SUM

    @property
    def metrics(self) -> tuple[str, ...]:
        """All that a profile needs."""
        return (*COMMON, self.active_percent, self.active_cycles, *(each.metric for each in self.operations))


def _operations(*formats: tuple[str, str | None]) -> tuple[Operations, ...]:
    return tuple(Operations(f"sm__ops_path_tensor_src_{name}.sum", dtype) for name, dtype in formats)


_BF16, _FP16, _TF32 = ("bf16_dst_fp32", "bf16"), ("fp16_dst_fp32", "fp16"), ("tf32_dst_fp32", "tf32")
# Where both ways to accumulate are told apart, the one in fp16 may be faster than the peak that is known.
_ACCUMULATED_IN_FP16, _FP8 = ("fp16_dst_fp16", None), ("fp8", None)

CHIPS = {
    (8, 0): Chip(
        "sm__pipe_tensor_cycles_active", _operations(_BF16, _FP16, ("fp16_dst_fp16", "fp16"), _TF32)
    ),
    (8, 6): Chip("sm__pipe_tensor_cycles_active_v2", _operations(_BF16, _FP16, _ACCUMULATED_IN_FP16, _TF32)),
    (8, 9): Chip(
        "sm__pipe_tensor_cycles_active_v2", _operations(_BF16, _FP16, _ACCUMULATED_IN_FP16, _TF32, _FP8)
    ),
    (9, 0): Chip("sm__pipe_tensor_cycles_active", _operations(_BF16, ("fp16", "fp16"), _TF32, _FP8)),
}
"""By compute capability, as Nsight Compute lists them with `--query-metrics --chip`."""


def chip_of(gpu: Mapping[str, Any]) -> Chip:
    """What to ask of this GPU, an environment's.

    Raises:
        NcuUnavailable: its architecture's counters are not known here.
    """
    major, minor = gpu["capability"]
    if chip := CHIPS.get((major, minor)):
        return chip
    known = ", ".join(f"{major}.{minor}" for major, minor in CHIPS)
    raise NcuUnavailable(
        f"the tensor cores' counters of compute capability {major}.{minor} are not known here, "
        f"only those of {known}"
    )


def flop_per_clock(gpu: Mapping[str, Any], peaks: Mapping[str, Any]) -> dict[str, int]:
    """FLOP a clock that one SM's tensor cores can do, by dtype, from an environment's GPU and its peaks.

    Datasheets round their TFLOP/s; hardware counts in powers of two.
    """
    return {
        dtype: 2 ** round(log2(peak["flops_per_s"] / (gpu["sm_count"] * peak["clock_mhz"] * 1e6)))
        for dtype, peak in peaks.items()
        if "flops_per_s" in peak
    }
