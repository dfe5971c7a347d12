"""What a run was measured on: machine, peaks and ceilings, software, each as parts of a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports import units
from reports.text import plain, shorten
from results.words import counted

if TYPE_CHECKING:
    from reports.content import Report
    from results.figures import Matmul
    from results.schema import Manifest


def machine(environment: dict[str, Any]) -> list[str]:
    """What it ran on: the GPU, or the CPU."""
    if _on_gpu(environment):
        return _gpu(environment.get("gpu") or {})
    cpu = environment.get("cpu") or {}
    return known(
        cpu.get("name") or "a CPU of unknown name",
        cpu.get("cores") and counted(cpu["cores"], "core"),
        environment.get("platform"),
    )


def peaks(report: Report) -> list[str]:
    """The datasheet's peaks of the run's dtypes, and of the memory."""
    entries = report.manifest.environment.get("peaks") or {}
    names = dict.fromkeys([*(group.case.dtype for group in report.groups), "memory"])
    return [_peak(name, entries[name]) for name in names if entries.get(name)]


def ceilings(report: Report) -> list[str]:
    """What this GPU reached, beside what its datasheet says: `bf16 matmul 8192³: burst 792 TFLOP/s at 1980 MHz, …`."""
    found = report.ceilings
    if found is None:
        return []
    dtypes = dict.fromkeys(group.case.dtype for group in report.groups)
    copy = found.copy_bytes_per_s
    return [
        *(_matmul(dtype, found.matmuls[dtype]) for dtype in dtypes if dtype in found.matmuls),
        *([f"copy {units.rate(copy, 'B')} read and written"] if copy else []),
        *([shorten(found.reason)] if found.reason else []),
    ]


def software(manifest: Manifest) -> list[str]:
    """The versions that a time depends on."""
    environment = manifest.environment
    torch, gpu, git = (environment.get(key) or {} for key in ("torch", "gpu", "git"))
    on_gpu = _on_gpu(environment)
    commit = (
        git.get("commit") and f" at {str(git['commit'])[:10]}{'' if git.get('clean') else ' with changes'}"
    )
    return known(
        f"torch {torch.get('version') or 'of unknown version'}",
        on_gpu and torch.get("cuda") and f"CUDA {torch['cuda']}",
        on_gpu and torch.get("cudnn") and f"cuDNN {_cudnn(torch['cudnn'])}",
        on_gpu and gpu.get("driver") and f"driver {gpu['driver']}",
        environment.get("python") and f"Python {environment['python']}",
        f"headbench {manifest.headbench_version}{commit or ''}",
    )


def reached(matmul: Matmul, peak_flops_per_s: float | None = None) -> list[str]:
    """`burst 792 TFLOP/s at 1980 MHz (80 % of peak)`, the same sustained; the reason for what is missing."""
    rates = (
        ("burst", matmul.burst_flops_per_s, matmul.burst_clock_mhz),
        ("sustained", matmul.sustained_flops_per_s, matmul.sustained_clock_mhz),
    )
    return [
        *(
            f"{name} {units.rate(rate)}{f' at {mhz:.0f} MHz' if mhz else ''}{share_of_peak(rate, peak_flops_per_s)}"
            for name, rate, mhz in rates
            if rate is not None
        ),
        *([matmul.reason] if matmul.reason else []),
    ]


def share_of_peak(rate: float | None, peak: float | None) -> str:
    """` (80 % of peak)`; nothing where either is not known."""
    return f" ({units.percent(rate / peak)} of peak)" if rate is not None and peak else ""


def known(*parts: object) -> list[str]:
    """The parts there are, made plain."""
    return [plain(part) for part in parts if part]


def _gpu(gpu: dict[str, Any]) -> list[str]:
    capability = gpu.get("capability")
    version = ".".join(map(str, capability)) if isinstance(capability, (list, tuple)) else capability
    return known(
        gpu.get("name") or "a GPU of unknown name",
        gpu.get("sm_count") and f"{gpu['sm_count']} SMs",
        gpu.get("memory_bytes") and units.size(gpu["memory_bytes"]),
        version and f"capability {version}",
        gpu.get("power_limit_w") and f"{gpu['power_limit_w']:.0f} W limit",
        gpu.get("max_sm_clock_mhz") and f"up to {gpu['max_sm_clock_mhz']:.0f} MHz",
    )


def _peak(name: str, peak: dict[str, Any]) -> str:
    rate = (
        units.rate(peak.get("flops_per_s")) if name != "memory" else units.rate(peak.get("bytes_per_s"), "B")
    )
    clock = f" at {peak['clock_mhz']:.0f} MHz" if peak.get("clock_mhz") else ""
    source = f" ({shorten(peak['source'], 60)})" if peak.get("source") else ""
    return plain(f"{name} {rate}{clock}{source}")


def _matmul(dtype: str, found: Matmul) -> str:
    return plain(f"{dtype} matmul {found.size}³: {shorten(', '.join(reached(found)))}")


def _cudnn(version: object) -> str:
    """`9.19.0` from 91900, which is how cuDNN counts since 9; before, 8.9.2 was 8902."""
    if not isinstance(version, int):
        return str(version)
    thousands = 10_000 if version >= 90_000 else 1_000
    return f"{version // thousands}.{version % thousands // 100}.{version % 100}"


def _on_gpu(environment: dict[str, Any]) -> bool:
    return str(environment.get("device")).startswith("cuda")
