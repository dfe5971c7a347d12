"""Datasheet peaks by device name: dense tensor-core rates with float32 accumulation, and memory bandwidth.

Percent of peak is taken against these; the clock each datasheet assumes is kept beside it, because a GPU may
hold a higher or a lower one. Compute capability would not do as a key: L40, L40S and RTX 4090 are all 8.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Peak:
    """One GPU's datasheet: 16-bit tensor TFLOP/s, float32 vector TFLOP/s, memory TB/s, and the clock assumed."""

    name: str
    tensor_tflops: float
    vector_tflops: float
    memory_tb_per_s: float
    clock_mhz: int


# The first name that stands in the device's name wins, so longer names come first.
PEAKS = (
    Peak("H200", 989, 66.9, 4.8, 1830),
    Peak("H100 PCIe", 756, 51.2, 2.0, 1620),
    Peak("H100 NVL", 835, 60.0, 3.9, 1785),
    Peak("H100", 989, 66.9, 3.35, 1830),
    Peak("A100-SXM4-80GB", 312, 19.5, 2.04, 1410),
    Peak("A100 80GB PCIe", 312, 19.5, 1.94, 1410),
    Peak("A100", 312, 19.5, 1.56, 1410),
    Peak("L40S", 362, 91.6, 0.864, 2490),
    Peak("L40", 181, 90.5, 0.864, 2490),
    Peak("RTX 4090", 165, 82.6, 1.01, 2520),
    Peak("RTX 3090", 71, 35.6, 0.936, 1695),
    Peak("RTX A6000", 155, 38.7, 0.768, 1800),
)


def peaks_of(device_name: str) -> dict[str, dict[str, Any]]:
    """FLOP/s by dtype and bytes/s of "memory" for a GPU of this name; empty when no datasheet is known."""
    peak = next((p for p in PEAKS if p.name in device_name), None)
    if peak is None or "Laptop" in device_name:
        return {}
    source = f"datasheet of {peak.name}"
    rates = {
        "bf16": peak.tensor_tflops,
        "fp16": peak.tensor_tflops,
        "tf32": peak.tensor_tflops / 2,
        "fp32": peak.vector_tflops,
    }
    flops = {
        dtype: {"flops_per_s": rate * 1e12, "clock_mhz": peak.clock_mhz, "source": source}
        for dtype, rate in rates.items()
    }
    return {**flops, "memory": {"bytes_per_s": peak.memory_tb_per_s * 1e12, "source": source}}
