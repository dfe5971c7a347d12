"""Plausible manifests, trials and stored runs for tests: figures made up, shapes and rules real.

Every builder takes keyword overrides, so that a test states only what it is about.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from results.figures import Memory, Utilisation
from results.schema import Case, Manifest, Outcome, Timing, Trial, Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

GPU_ENVIRONMENT: dict[str, Any] = {
    "device": "cuda:0",
    "notices": [],
    "gpu": {"name": "NVIDIA H200", "driver": "580.65", "sm_clock_mhz": 1980, "power_limit_w": 700.0},
    "cpu": {"name": "Example CPU", "cores": 16, "memory_bytes": 128 << 30},
    "torch": {"version": "2.11.0", "cuda": "13.0", "cudnn": 91400},
    "peaks": {
        "bf16": {"flops_per_s": 989e12, "clock_mhz": 1830, "source": "datasheet"},
        "fp32": {"flops_per_s": 67e12, "clock_mhz": 1980, "source": "datasheet"},
        "memory": {"bytes_per_s": 4.8e12, "source": "datasheet"},
    },
}
CPU_ENVIRONMENT: dict[str, Any] = {
    "device": "cpu",
    "notices": ["no CUDA device: measuring the CPU"],
    "gpu": None,
    "cpu": {"name": "Example CPU", "cores": 2, "memory_bytes": 8 << 30},
    "torch": {"version": "2.11.0", "cuda": None, "cudnn": None},
    "peaks": {},
}

BASELINES = {
    "qkv": "per_head",
    "attention": "per_head_loop",
    "output": "per_head_accumulate",
    "sublayer": "per_head",
    "split": "torch_contiguous",
    "stack": "fused_sdpa",
}
"""The variant each stage's others are compared with, as a run of the built-in stages records it."""


def case(variant: str = "fused", **overrides: Any) -> Case:
    """A case of ANDREA-120M's `qkv` stage in bf16, unless told otherwise."""
    return Case(
        **{
            "stage": "qkv",
            "variant": variant,
            "direction": "forward",
            "batch": 1,
            "seq_len": 1024,
            "d_model": 768,
            "n_head": 12,
            "head_dim": 64,
            "causal": True,
            "dtype": "bf16",
            **overrides,
        }
    )


def spans(median_s: float = 1e-4, samples: int = 9, spread: float = 0.01) -> tuple[float, ...]:
    """An odd number of samples spaced evenly around their median, ± spread at the ends, out of order."""
    half = samples // 2
    return tuple(
        median_s * (1 + spread * (((7 * i) % samples) - half) / max(half, 1)) for i in range(samples)
    )


def timing(median_s: float = 1e-4, **overrides: Any) -> Timing:
    """One warm-up, then nine samples of one call around `median_s`, in one block at 1830 MHz."""
    used = overrides.pop("used_s", spans(median_s))
    return Timing(
        **{
            "span_s": (3 * used[0], *used) if used else (),
            "warmup_samples": 1 if used else 0,
            "resolution_s": 1e-8,
            "precision": 0.004,
            "stopped": "precise",
            "block_samples": (len(used) + 1,) if used else (),
            "sm_clock_mhz": (1830.0,) if used else (),
            **overrides,
        }
    )


def trial(measured: Case | None = None, replicate: int = 0, **overrides: Any) -> Trial:
    """An ok trial with three modes; an `outcome` other than ok takes the times away and gives a reason.

    `median_s` sets the isolated time: eager is twice it, graph 0.9 times.
    """
    measured = measured or case()
    median_s = overrides.pop("median_s", 1e-4)
    if measured.stage == "split":
        moved = 6 * 2 * measured.batch * measured.seq_len * measured.d_model
        overrides = {"useful_flops": 0, "least_bytes": moved, "parameters": 0, **overrides}
    tokens = measured.batch * measured.seq_len
    fields: dict[str, Any] = {
        "case": measured,
        "replicate": replicate,
        "outcome": Outcome.OK,
        "useful_flops": 3 * 2 * tokens * measured.d_model**2,
        "least_bytes": 2 * (4 * tokens * measured.d_model + 3 * measured.d_model**2),
        "parameters": 3 * measured.d_model**2,
        "started_utc": "2026-01-02T03:04:05Z",
        "elapsed_s": 0.7,
    }
    if overrides.get("outcome", Outcome.OK) is Outcome.OK:
        fields |= {
            "timings": {
                "isolated": timing(median_s),
                "eager": timing(2 * median_s),
                "graph": timing(0.9 * median_s),
            },
            "memory": memory(),
            "utilisation": utilisation() if replicate == 0 else None,
            "verifications": (verification(when="before"), verification(when="after")),
        }
    else:
        fields |= {"reason": f"made up: {overrides['outcome'].value}"}
    return Trial(**{**fields, **overrides})


def cpu_trial(measured: Case, replicate: int = 0, *, median_s: float = 1e-3, **overrides: Any) -> Trial:
    """An ok trial as a CPU gives it: `eager` only, no clock, no NVML."""
    return trial(
        measured,
        replicate,
        **{
            "timings": {"eager": timing(median_s, block_samples=(10,), sm_clock_mhz=(None,))},
            "memory": memory(peak_delta_bytes=None, resident_bytes=None, reason="not counted on a CPU"),
            "utilisation": utilisation_unknown("no NVIDIA GPU") if replicate == 0 else None,
            **overrides,
        },
    )


def memory(**overrides: Any) -> Memory:
    """A peak of 6 MiB above 8 MiB resident."""
    return Memory(
        **{
            "peak_delta_bytes": 6 << 20,
            "resident_bytes": 8 << 20,
            "reserved_bytes": 32 << 20,
            "source": "torch's caching allocator",
            **overrides,
        }
    )


def utilisation(**overrides: Any) -> Utilisation:
    """A busy GPU, as NVML sees it."""
    return Utilisation(
        **{
            "gpu_busy_percent": 97.0,
            "memory_used_bytes": 2 << 30,
            "power_w": 412.5,
            "sm_clock_mhz": 1815.0,
            "temperature_c": 51.0,
            "window_s": 0.3,
            "source": "NVML",
            **overrides,
        }
    )


def utilisation_unknown(reason: str) -> Utilisation:
    """No numbers, and why."""
    return Utilisation(reason=reason)


def verification(**overrides: Any) -> Verification:
    """A pass, well inside bf16's limits."""
    return Verification(
        **{
            "when": "before",
            "relative_error": 2e-3,
            "limit": 1e-2,
            "worst_row_error": 5e-3,
            "worst_row_limit": 2e-2,
            "passed": True,
            **overrides,
        }
    )


def manifest(cases: Iterable[Case] = (), **overrides: Any) -> Manifest:
    """A three-replicate run on an H200; without cases, `per_head`, `fused` and `fused_qkv` of one group."""
    planned = tuple(cases) or (case("per_head"), case("fused"), case("fused_qkv"))
    return Manifest(
        **{
            "run_id": "20260102T030405Z-nvidia-h200-ab12",
            "created_utc": "2026-01-02T03:04:05Z",
            "headbench_version": "0.1.0",
            "command": ["headbench", "run", "--all"],
            "replicates": 3,
            "settings": {"device": "cuda", "budget_s": 120.0, "seed": 0},
            "environment": GPU_ENVIRONMENT,
            "baselines": BASELINES,
            "cases": planned,
            **overrides,
        }
    )


def trials(of: Manifest, medians_s: Mapping[str, float] | None = None) -> list[Trial]:
    """An ok trial for every case and replicate: each replicate 0.5 % slower than the one before.

    `medians_s` maps a variant to its isolated time; the others take 1e-4 s.
    """
    return [
        trial(planned, replicate, median_s=(medians_s or {}).get(planned.variant, 1e-4) * 1.005**replicate)
        for replicate in range(of.replicates)
        for planned in of.cases
    ]


def stored(folder: Path, of: Manifest | None = None, with_trials: Iterable[Trial] | None = None) -> Path:
    """The run's folder under `folder`, written without the store: manifest.json and trials.jsonl."""
    of = of or manifest()
    with_trials = trials(of) if with_trials is None else with_trials
    path = folder / of.run_id
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps(of.to_json()))
    (path / "trials.jsonl").write_text("".join(json.dumps(one.to_json()) + "\n" for one in with_trials))
    return path
