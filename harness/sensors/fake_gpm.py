"""A scripted performance monitor: the part of `pynvml` that `GpmMeter` calls, with metrics that a test decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

H200 = {
    2: (0, 87.79, b"smutil"),
    3: (0, 12.97, b"smocc"),
    5: (0, 85.18, b"mmaact"),
    8: (0, 0.0, None),
    10: (0, 16.16, b"dram"),
}
"""As an H200 answered for matmuls of 8192 that ran back to back for 0.5 s: return code, value and short name."""
UNKNOWN = (2, 0.0, None)

WORDS = {
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    15: "GPU is lost",
}
"""NVML's codes in the words of its Python package."""


class ScriptedNvmlError(Exception):
    """What the library raises; NVML's own has the code in `value`, too."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(WORDS.get(value, f"NVML Error with code {value}"))


class ScriptedMetrics:
    """What is asked of the monitor, and its answers."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: list[object] = []
        self.sample2: list[object] = []
        self.metrics = [_metric() for _ in range(20)]


@dataclass
class ScriptedGpm:
    """`gpm` maps a metric to its return code, percent and short name; others are refused as real ones are.

    `gpm_support` is whether the GPU has the monitor, or the code with which NVML refuses the question; `gpm_fault`
    is the code with which it refuses samples. `gpm_held` are the samples that were not given back; each holds
    the handles it was last taken of: the GPU's, and under MIG the instance's number.
    """

    gpm: dict[int, tuple[int, float, bytes | None]] = field(default_factory=lambda: dict(H200))
    gpm_support: bool | int = True
    gpm_fault: int | None = None
    gpm_held: list[list[object]] = field(default_factory=list)

    NVML_GPM_METRICS_GET_VERSION = 1
    c_nvmlGpmMetricsGet_t = ScriptedMetrics

    def nvmlGpmQueryDeviceSupport(self, gpu: str) -> SimpleNamespace:
        if not isinstance(self.gpm_support, bool):
            raise ScriptedNvmlError(self.gpm_support)
        return SimpleNamespace(isSupportedDevice=int(self.gpm_support))

    def nvmlGpmSampleAlloc(self) -> list[object]:
        self.gpm_held.append([])
        return self.gpm_held[-1]

    def nvmlGpmSampleFree(self, sample: list[object]) -> None:
        self.gpm_held = [held for held in self.gpm_held if held is not sample]

    def nvmlGpmSampleGet(self, gpu: str, sample: list[object]) -> None:
        self._fill(sample, gpu)

    def nvmlGpmMigSampleGet(self, gpu: str, instance: int, sample: list[object]) -> None:
        self._fill(sample, gpu, instance)

    def nvmlGpmMetricsGet(self, wanted: ScriptedMetrics) -> None:
        assert wanted.version == self.NVML_GPM_METRICS_GET_VERSION
        if not wanted.sample1 or not wanted.sample2 or wanted.sample1 is wanted.sample2:
            raise ScriptedNvmlError(2)
        for metric in wanted.metrics[: wanted.numMetrics]:
            code, value, name = self.gpm.get(metric.metricId, UNKNOWN)
            metric.nvmlReturn, metric.value, metric.metricInfo.shortName = code, value, name

    def _fill(self, sample: list[object], *handles: object) -> None:
        if self.gpm_fault is not None:
            raise ScriptedNvmlError(self.gpm_fault)
        sample[:] = handles


def _metric() -> SimpleNamespace:
    return SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0, metricInfo=SimpleNamespace(shortName=None))
