"""Runs to render: a GPU's, a CPU's, and one with every outcome there is. Figures made up, shapes real."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports import content, terminal
from results.run import Run
from results.schema import Case, Outcome, Timing, Trial
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GPU_ENVIRONMENT: dict[str, Any] = {
    "device": "cuda",
    "cpu": {"name": "Example CPU", "cores": 16},
    "gpu": {
        "name": "NVIDIA H200",
        "uuid": "GPU-1",
        "driver": "580.65.06",
        "capability": [9, 0],
        "sm_count": 132,
        "memory_bytes": 150_000_000_000,
        "l2_bytes": 60 << 20,
        "power_limit_w": 700.0,
        "max_sm_clock_mhz": 1980,
    },
    "torch": {"version": "2.11.0", "cuda": "13.0", "cudnn": "9.19.0"},
    "python": "3.12.3",
    "platform": "Linux x86_64",
    "git": {"commit": "01a299b0c0ffee", "clean": True},
    "notices": [],
    "peaks": builders.GPU_ENVIRONMENT["peaks"],
}
CPU_ENVIRONMENT: dict[str, Any] = {
    "device": "cpu",
    "cpu": {"name": "Example CPU @ 2.1 GHz", "cores": 2},
    "gpu": None,
    "gpu_reason": "no CUDA device",
    "torch": {"version": "2.13.0+cpu", "cuda": None, "cudnn": None},
    "python": "3.11.9",
    "platform": "Linux x86_64",
    "git": None,
    "notices": [],
    "peaks": {},
}
QKV = {"per_head": 657e-6, "fused": 191e-6, "fused_qkv": 197e-6}
ATTENTION = {
    "per_head_loop": 1.92e-3,
    "materialized": 4.31e-3,
    "sdpa": 157e-6,
    "sdpa_cudnn": 156.4e-6,
    "sdpa_flash": 241e-6,
    "sdpa_efficient": 498e-6,
}
ONLY_CUDA = "needs a CUDA device, this run is on CPU"


def run(
    trials: Iterable[Trial], cases: Iterable[Case] = (), notes: Iterable[str] = (), **manifest: Any
) -> Run:
    """A run in memory; without `cases`, its plan is what the trials measured."""
    trials = list(trials)
    planned = list(cases) or list({trial.case: None for trial in trials})
    of = builders.manifest(planned, **{"environment": GPU_ENVIRONMENT, **manifest})
    return Run(Path("results/runs") / of.run_id, of, trials, notes=list(notes))


def gpu_trials(times_s: Mapping[str, float], replicates: int = 3, **case: Any) -> list[Trial]:
    """An ok trial of each variant in each replicate: eager twice the isolated time, graph 0.9 of it."""
    return [
        builders.trial(builders.case(variant, **case), replicate, median_s=time_s * 1.002**replicate)
        for replicate in range(replicates)
        for variant, time_s in times_s.items()
    ]


def gpu_run(**manifest: Any) -> Run:
    """Two groups of qkv and one of attention, all ok."""
    return run(
        [
            *gpu_trials({name: time_s / 20 for name, time_s in QKV.items()}),
            *gpu_trials(QKV, batch=32),
            *gpu_trials(ATTENTION, batch=32, stage="attention"),
        ],
        **manifest,
    )


def cpu_run(replicates: int = 3, **manifest: Any) -> Run:
    """One group of qkv and one of attention in float32, the CUDA-only variants unavailable."""
    cases = {"batch": 1, "seq_len": 256, "dtype": "fp32"}
    trials = [
        builders.cpu_trial(builders.case(variant, stage=stage, **cases), n, median_s=20 * time_s * 1.01**n)
        for n in range(replicates)
        for stage, times_s in (("qkv", QKV), ("attention", dict(list(ATTENTION.items())[:3])))
        for variant, time_s in times_s.items()
    ]
    absent = [
        failed(variant, Outcome.UNAVAILABLE, ONLY_CUDA, stage="attention", **cases)
        for variant in list(ATTENTION)[3:]
    ]
    return run([*trials, *absent], **{"environment": CPU_ENVIRONMENT, "replicates": replicates, **manifest})


def failed(variant: str, outcome: Outcome, reason: str, **case: Any) -> Trial:
    """A trial of the first replicate that ended in anything but ok."""
    return builders.trial(builders.case(variant, **case), 0, outcome=outcome, reason=reason)


def every_outcome() -> Run:
    """One group with every outcome, a variant that no graph could capture, and one not measured yet."""
    trials = [
        *gpu_trials({"per_head": 657e-6, "fused": 191e-6}),
        *(failed(f"is_{outcome.value}", outcome, f"why: {outcome.value}") for outcome in list(Outcome)[1:]),
        *(no_graph("uncaptured", replicate) for replicate in range(3)),
    ]
    cases = [*{trial.case: None for trial in trials}, builders.case("is_not_measured")]
    return run(trials, cases, notes=["line 9 of trials.jsonl is cut off after 311 bytes: left out"])


def no_graph(variant: str, replicate: int) -> Trial:
    """An ok trial whose graph mode has a reason in place of samples, and some flagged samples."""
    timings = {
        "isolated": builders.timing(3e-4, flags={"released_by_timeout": [4, 5]}),
        "eager": builders.timing(5e-4),
        "graph": Timing(reason="it synchronises, which a capture forbids"),
    }
    return builders.trial(builders.case(variant), replicate, timings=timings)


def rendered(of: Run, width: int = 100) -> str:
    """The report of a run as it is piped into a file."""
    out = io.StringIO()
    terminal.render(content.from_run(of), terminal.new_console(out, width))
    return out.getvalue()
