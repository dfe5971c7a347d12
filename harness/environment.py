"""What a run ran on: captured once, in a process of its own, so that the parent never touches CUDA."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.errors import UsageError, shown
from harness.peaks import peaks_of_gpu
from harness.sensors.nvml import Nvml, NvmlUnavailable, gpus_seen

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUPY_CACHE_DIR",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TRITON_CACHE_DIR",
)
"""What changes times or results, or says where compiled kernels come from."""
DISTORTING = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits for its kernel: eager times are not a caller's, others are refused",
    "NVIDIA_TF32_OVERRIDE": "the precision of float32 matmuls is overridden: fp32 may be refused as incorrect",
}
"""Variables that are honoured, and what must be said of it; "0" and nothing leave things as they are."""
IDLE_BYTES = 200 << 20
"""A GPU that nobody uses has a few MiB of its memory in use, or some 100 where it draws a desktop's picture."""
MOST_NAMED = 3
PACKAGES = ("harness", "variants", "kernels", "results", "reports")
ROOT = Path(__file__).resolve().parent.parent


def capture(wanted: str | None) -> dict[str, Any]:
    """Everything a manifest says of the machine, for the device asked for (None: the GPU if there is one).

    Raises:
        UsageError: `wanted` is a CUDA device and there is none.
    """
    import torch

    device, notices = choose_device(wanted)
    gpu = _gpu(device) if device.startswith("cuda") else None
    notices += [*_busy_machine(), *_busy_gpu(gpu), *_distorted(os.environ)]
    return {
        "device": device,
        "notices": notices,
        "gpu": gpu,
        "gpu_reason": None if gpu else "the run is on the CPU",
        "cpu": {
            "name": _cpu_name(),
            "cores": os.cpu_count(),
            "affinity": sorted(os.sched_getaffinity(0)),
            "memory_bytes": _memory_bytes(),
        },
        "peaks": peaks_of_gpu(gpu) if gpu else {},
        "torch": _torch_facts(torch),
        "packages": {
            "numpy": _version("numpy"),
            "cupy": _version("cupy-cuda13x"),
            "triton": _version("triton"),
        },
        "variables": {name: os.environ.get(name) for name in VARIABLES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "headbench": __version__,
        "source_sha256": _source_digest(),
        "git": _git(),
    }


def choose_device(wanted: str | None) -> tuple[str, list[str]]:
    """The device to measure and what must be said about it first.

    Raises:
        UsageError: `wanted` names a CUDA device that is not there, or is no device's name.
    """
    import torch

    if wanted is not None and not re.fullmatch(r"cpu|cuda(:[0-9]{1,4})?", wanted):
        raise UsageError(f"device {shown(wanted)} is unknown: cpu, cuda or cuda:N would do")
    kind, _, index = (wanted or "").partition(":")
    usable = torch.cuda.is_available()
    unused_gpu = None if usable else _unused_gpu(torch)
    if kind == "cuda":
        if not usable:
            raise UsageError(
                f"device {wanted!r} is not there: {unused_gpu or 'no CUDA device: --device cpu would do'}"
            )
        if index and int(index) >= torch.cuda.device_count():
            last = torch.cuda.device_count() - 1
            raise UsageError(f"device {wanted!r} is not there: the last CUDA device is cuda:{last}")
        return f"cuda:{int(index or 0)}", []
    if unused_gpu:
        return "cpu", [f"{unused_gpu}; measuring the CPU meanwhile"]
    if kind == "cpu":
        return "cpu", ["measuring the CPU, as asked"]
    return ("cuda:0", []) if usable else ("cpu", ["no CUDA device: measuring the CPU"])


def _unused_gpu(torch: Any) -> str | None:
    """One line on a GPU that NVML sees and torch cannot use, with both ways out."""
    seen = gpus_seen()
    if not seen:
        return None
    name, driver = seen[0]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.version.cuda and visible is not None and visible.strip() in ("", "-1"):
        return f"NVML sees {name} (driver {driver}), but CUDA_VISIBLE_DEVICES={visible!r} hides it: unset it"
    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a build without CUDA"
    return (
        f"NVML sees {name} (driver {driver}), but torch {torch.__version__} is {built} and cannot use it: "
        f"install a torch build for a CUDA that this driver supports, or update the driver"
    )


def _gpu(device: str) -> dict[str, Any]:
    import torch

    facts = torch.cuda.get_device_properties(device)
    gpu: dict[str, Any] = {
        "name": facts.name,
        "uuid": f"GPU-{facts.uuid}",
        "capability": [facts.major, facts.minor],
        "sm_count": facts.multi_processor_count,
        "memory_bytes": facts.total_memory,
        "l2_bytes": facts.L2_cache_size,
    }
    try:
        nvml = Nvml.open(gpu["uuid"])
    except NvmlUnavailable as error:
        return {**gpu, "nvml_reason": str(error)}
    return {**gpu, **_seen_by_nvml(nvml)}


def _seen_by_nvml(nvml: Nvml) -> dict[str, Any]:
    """How NVML finds the GPU before this process has made a context on it: whoever uses it now is another."""
    others, others_reason = None, None
    try:
        others = [asdict(process) for process in nvml.processes()]
    except NvmlUnavailable as error:
        others_reason = str(error)
    return {
        "driver": nvml.driver,
        "power_limit_w": nvml.power_limit_w(),
        "max_sm_clock_mhz": nvml.max_sm_clock_mhz(),
        "sm_clock_mhz": nvml.sm_clock_mhz(),
        "temperature_c": nvml.temperature_c(),
        "memory_used_bytes": nvml.memory_used_bytes(),
        "other_processes": others,
        "other_processes_reason": others_reason,
        "nvml_reason": None,
    }


def _busy_gpu(gpu: Mapping[str, Any] | None) -> list[str]:
    """A warning when other programs use the GPU, or its memory where NVML shows none."""
    if gpu is None or gpu["nvml_reason"]:
        return []
    others, used = gpu["other_processes"] or (), gpu["memory_used_bytes"]
    effect = "times will be less certain, percentages of the whole GPU include it"
    if others:
        listed = [_process(other) for other in others[:MOST_NAMED]]
        more = [f"{len(others) - MOST_NAMED} more"] if len(others) > MOST_NAMED else []
        who = "another process uses" if len(others) == 1 else f"{len(others)} other processes use"
        return [f"{who} this GPU: {'; '.join(listed + more)}: {effect}"]
    if used is None or used <= IDLE_BYTES:
        return []
    return [
        f"{_gib(used)} of this GPU's memory are in use and NVML shows no process that has it "
        f"(another container's, perhaps): if it computes, {effect}"
    ]


def _process(process: Mapping[str, Any]) -> str:
    memory = process["memory_bytes"]
    return f"pid {process['pid']}, {'memory not told' if memory is None else _gib(memory)}"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _busy_machine() -> list[str]:
    """A warning when other programs keep half of the cores or more busy."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < cores / 2:
        return []
    return [
        f"load average {load:.1f} on {cores} cores: other programs are running, times will be less certain",
        f"on a busy CPU fewer threads are steadier: OMP_NUM_THREADS={max(1, cores // 2)}",
    ]


def _distorted(variables: Mapping[str, str]) -> list[str]:
    return [
        f"{name}={variables[name]}: {effect}"
        for name, effect in DISTORTING.items()
        if variables.get(name, "0") not in ("", "0")
    ]


def _torch_facts(torch: Any) -> dict[str, Any]:
    from harness.state import describe

    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        **describe(),
    }


def _source_digest() -> str:
    """SHA-256 of headbench's own code, built-in variants and kernels among it, wherever it is installed."""
    digest = hashlib.sha256()
    files = (
        file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.suffix in (".py", ".cu")
    )
    for file in sorted(files):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _git() -> dict[str, Any] | None:
    """The commit headbench itself runs from and whether the tree was clean; None outside a checkout of its own.

    Installed into somebody's virtual environment, it may lie inside a repository that is not its own.
    """
    try:
        top, commit, status = (
            subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
            for arguments in (
                ["rev-parse", "--show-toplevel"],
                ["rev-parse", "HEAD"],
                ["status", "--porcelain"],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "clean": not status} if Path(top).resolve() == ROOT.resolve() else None


def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
