"""What a run tells other tools, in plain values: the machine it ran on, and every sample of a case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from results.record import newest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.schema import Trial

GPU_FACTS = (
    "name",
    "uuid",
    "driver",
    "capability",
    "sm_count",
    "memory_bytes",
    "l2_bytes",
    "power_limit_w",
    "max_sm_clock_mhz",
)
"""Of what a manifest says of a GPU, all that stays as it is from one run to the next: no clock, no temperature."""

TORCH_FACTS = ("version", "cuda", "cudnn")


def machine_facts(environment: dict[str, Any]) -> dict[str, Any]:
    """`headbench` (its version), `device`, `gpu` (None on a CPU) and `torch`, from a manifest's environment."""
    gpu, torch = environment.get("gpu"), environment.get("torch") or {}
    return {
        "headbench": environment.get("headbench"),
        "device": environment.get("device"),
        "gpu": {name: gpu.get(name) for name in GPU_FACTS} if gpu else None,
        "torch": {name: torch.get(name) for name in TORCH_FACTS},
    }


def machine_slug(environment: dict[str, Any]) -> str:
    """`nvidia-h200`: the GPU's name as a part of a folder's; `cpu` without a GPU."""
    gpu = environment.get("gpu")
    name = str(gpu["name"]) if gpu else "cpu"
    return "-".join(re.findall(r"[a-z0-9]+", name.lower())) or "gpu"


def every_sample(trials: Iterable[Trial]) -> dict[str, list[dict[str, Any]]]:
    """By timing mode, a series per replicate: its `span_s` (seconds a call) as taken, warm-ups first, and flags."""
    series: dict[str, list[dict[str, Any]]] = {}
    for trial in newest(trials):
        for mode, timing in trial.timings.items():
            if timing.span_s:
                series.setdefault(mode, []).append(
                    {
                        "replicate": trial.replicate,
                        "span_s": list(timing.span_s),
                        "warmup_samples": timing.warmup_samples,
                        "calls_per_sample": timing.calls_per_sample,
                        "flags": timing.flags,
                    }
                )
    return series
