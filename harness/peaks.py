"""Datasheet peaks by device name: dense tensor-core rates with float32 accumulation, and memory bandwidth.

Percent of peak is taken against these; the clock each figure implies is kept beside it, because a GPU may
hold a higher or a lower one. Compute capability would not do as a key: L40, L40S and RTX 4090 are all 8.9. Only
where no datasheet is known it stands in, with the number of multiprocessors and the highest clock: what the
architecture could do at most, marked as derived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from results.peaks import DERIVED

if TYPE_CHECKING:
    from collections.abc import Mapping


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

FMA_PER_CLOCK = {
    (8, 0): (1024, 64),
    (8, 6): (512, 128),
    (8, 9): (512, 128),
    (9, 0): (2048, 128),
    (10, 0): (4096, 128),
}
"""Fused multiply-adds a clock and multiprocessor by compute capability: 16-bit tensor cores with float32
accumulation, float32 vector units. From NVIDIA's white papers of GA100, GA102, AD102, GH100 and B200."""

HALVED = "GeForce"
"""Of the capabilities 8.6 and 8.9, models of this brand accumulate in float32 at half the rate."""


def peaks_of(device_name: str) -> dict[str, dict[str, Any]]:
    """FLOP/s by dtype and bytes/s of "memory" for a GPU of this name; empty when no datasheet is known."""
    peak = _peak(device_name)
    if peak is None:
        return {}
    source = f"datasheet of {peak.name}"
    tensor = {"flops_per_s": peak.tensor_tflops * 1e12, "clock_mhz": peak.tensor_clock_mhz, "source": source}
    vector = {"flops_per_s": peak.vector_tflops * 1e12, "clock_mhz": peak.vector_clock_mhz, "source": source}
    memory = {"bytes_per_s": peak.memory_tb_per_s * 1e12, "source": source}
    return {**_by_dtype(tensor, vector), "memory": memory}


def peaks_of_gpu(gpu: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """As `peaks_of` its name; where no datasheet is known, what its architecture could do at most.

    `gpu` is an environment's. Derived peaks say so in their `source` and leave "memory" out; a GPU of an
    architecture not known here, or whose highest clock is not, has none.
    """
    rates, clock_mhz = FMA_PER_CLOCK.get(tuple(gpu["capability"])), gpu.get("max_sm_clock_mhz")
    known = peaks_of(gpu["name"])
    if known or rates is None or not clock_mhz:
        return known
    tensor_rate, vector_rate = rates
    if HALVED in gpu["name"]:
        tensor_rate //= 2
    return _by_dtype(*(_derived(gpu["sm_count"], 2 * rate, clock_mhz) for rate in (tensor_rate, vector_rate)))


def _derived(sm_count: int, flop_per_clock: int, clock_mhz: float) -> dict[str, Any]:
    return {
        "flops_per_s": sm_count * flop_per_clock * clock_mhz * 1e6,
        "clock_mhz": clock_mhz,
        "source": f"{DERIVED}: {sm_count} SMs × {flop_per_clock} FLOP × {clock_mhz:.0f} MHz",
    }


def _by_dtype(tensor: dict[str, Any], vector: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Both 16-bit types run at the tensor cores' rate, tf32 at half of it, fp32 on the vector units."""
    tf32 = {**tensor, "flops_per_s": tensor["flops_per_s"] / 2}
    return {"bf16": tensor, "fp16": tensor, "tf32": tf32, "fp32": vector}


def _peak(device_name: str) -> Peak | None:
    """The longest name that stands in the device's as whole words (GH200 is no H200), unless it is another model's."""
    for peak in sorted(PEAKS, key=lambda peak: -len(peak.name)):
        if found := re.search(rf"(?<![\w-]){re.escape(peak.name)}(?!\w)", device_name):
            rest = re.split(r"[\s-]+", device_name[found.end() :])
            return None if OTHER_MODELS & set(rest) else peak
    return None
