"""Datasheet peaks by device name: dense tensor-core rates with float32 accumulation, and memory bandwidth.

Percent of peak is taken against these; the clock each figure implies is kept beside it, because a GPU may
hold a higher or a lower one. Compute capability would not do as a key: L40, L40S and RTX 4090 are all 8.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Peak:
    """One GPU's datasheet: 16-bit tensor and float32 vector TFLOP/s, each with the SM clock it implies; memory TB/s.

    The two clocks differ where the vendor quotes the tensor cores at a lower boost clock than the rest.
    """

    name: str
    tensor_tflops: float
    tensor_clock_mhz: int
    vector_tflops: float
    vector_clock_mhz: int
    memory_tb_per_s: float


PEAKS = (
    Peak("H200", 989, 1830, 66.9, 1980, 4.8),
    Peak("H200 NVL", 835, 1545, 60.0, 1785, 4.8),
    Peak("H100", 989, 1830, 66.9, 1980, 3.35),
    Peak("H100 NVL", 835, 1545, 60.0, 1785, 3.9),
    Peak("H100 PCIe", 756, 1620, 51.2, 1755, 2.0),
    Peak("A100", 312, 1410, 19.5, 1410, 1.56),
    Peak("A100 80GB PCIe", 312, 1410, 19.5, 1410, 1.94),
    Peak("A100-SXM4-80GB", 312, 1410, 19.5, 1410, 2.04),
    Peak("L40", 181, 2490, 90.5, 2490, 0.864),
    Peak("L40S", 362, 2490, 91.6, 2520, 0.864),
    Peak("RTX 3090", 71, 1695, 35.6, 1695, 0.936),
    Peak("RTX 4090", 165, 2520, 82.6, 2520, 1.01),
    Peak("RTX A6000", 155, 1800, 38.7, 1800, 0.768),
)

OTHER_MODELS = {"Laptop", "Max-Q", "Ti", "SUPER", "D", "NVL", "MIG"}
"""A word after the name that makes it another GPU, or a part of one, with peaks of its own."""


def peaks_of(device_name: str) -> dict[str, dict[str, Any]]:
    """FLOP/s by dtype and bytes/s of "memory" for a GPU of this name; empty when no datasheet is known."""
    peak = _peak(device_name)
    if peak is None:
        return {}
    source = f"datasheet of {peak.name}"
    rates = {
        "bf16": (peak.tensor_tflops, peak.tensor_clock_mhz),
        "fp16": (peak.tensor_tflops, peak.tensor_clock_mhz),
        "tf32": (peak.tensor_tflops / 2, peak.tensor_clock_mhz),
        "fp32": (peak.vector_tflops, peak.vector_clock_mhz),
    }
    flops = {
        dtype: {"flops_per_s": tflops * 1e12, "clock_mhz": clock_mhz, "source": source}
        for dtype, (tflops, clock_mhz) in rates.items()
    }
    return {**flops, "memory": {"bytes_per_s": peak.memory_tb_per_s * 1e12, "source": source}}


def _peak(device_name: str) -> Peak | None:
    """The longest name that stands in the device's as whole words (GH200 is no H200), unless it is another model's."""
    for peak in sorted(PEAKS, key=lambda peak: -len(peak.name)):
        if found := re.search(rf"(?<![\w-]){re.escape(peak.name)}(?!\w)", device_name):
            rest = re.split(r"[\s-]+", device_name[found.end() :])
            return None if OTHER_MODELS & set(rest) else peak
    return None
