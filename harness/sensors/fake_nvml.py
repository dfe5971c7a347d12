"""A scripted NVML: as much of the `pynvml` module as the harness calls, with readings that a test decides."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar

from harness.sensors.fake_gpm import ScriptedGpm, ScriptedNvmlError

T = TypeVar("T")


class ScriptedMismatchError(Exception):
    """What the Python package raises where the driver has an older version of a function."""


@dataclass(frozen=True)
class ScriptedProcess:
    """A line of NVML's list; memory that the driver does not tell is None, or 2^64 - 1."""

    pid: int
    usedGpuMemory: int | None


def _this_process() -> list[ScriptedProcess]:
    return [ScriptedProcess(os.getpid(), 776 << 20)]


@dataclass
class ScriptedNvml(ScriptedGpm):
    """As much of `pynvml` as the harness calls. A reading that is None is not supported by this GPU.

    `samples` are (microseconds, percent) pairs as the driver keeps them; `compute` and `graphics` are the
    processes it lists. `instances` maps a MIG instance's UUID to its GPU's and to its number there: what an
    instance has no figures of is refused for it, as NVML does. `broken` is the code with which `nvmlInit` fails,
    as where there is no driver.
    """

    uuids: tuple[str, ...] = ("GPU-other", "GPU-mine")
    names: tuple[str, ...] = ("Other GPU", "My GPU")
    sm_clock_mhz: int | None = 1755
    max_sm_clock_mhz: int | None = 1980
    power_limit_mw: int | None = 700_000
    temperature_c: int | None = 41
    clock_event_reasons: int | None = 0
    instant_power_mw: int | None = 312_500
    average_power_mw: int | None = 250_000
    memory_used_bytes: int | None = 1 << 30
    energy_mj: int | None = 5_000_000
    samples: list[tuple[int, int]] | None = field(default_factory=list)
    compute: list[ScriptedProcess] | None = field(default_factory=_this_process)
    graphics: list[ScriptedProcess] | None = field(default_factory=list)
    instances: dict[str, tuple[str, int]] = field(default_factory=dict)
    broken: int | None = None

    NVMLError = ScriptedNvmlError
    NVMLLibraryMismatchError = ScriptedMismatchError
    NVML_SUCCESS = 0
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_GPU_UTILIZATION_SAMPLES = 1
    nvmlMemory_v2 = 0x2000028

    def nvmlInit(self) -> None:
        if self.broken is not None:
            raise ScriptedNvmlError(self.broken)

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids and uuid not in self.instances:
            raise ScriptedNvmlError(6)
        return uuid

    def nvmlDeviceIsMigDeviceHandle(self, handle: str) -> bool:
        return handle in self.instances

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        return self.instances[handle][0]

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:
        return self.instances[handle][1]

    def nvmlDeviceGetName(self, handle: str) -> str:
        return self.names[self.uuids.index(handle)]

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        return self._of_gpu(handle, self.sm_clock_mhz)

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        assert clock == self.NVML_CLOCK_SM
        return self._of_gpu(handle, self.max_sm_clock_mhz)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return self._of_gpu(handle, self.power_limit_mw)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self._of_gpu(handle, self.clock_event_reasons)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._of_gpu(handle, self.temperature_c)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self._of_gpu(handle, self.average_power_mw)

    def nvmlDeviceGetFieldValues(self, handle: str, fields: list[int]) -> list[SimpleNamespace]:
        """One field's failure is in its own return code, as with the real library."""
        assert fields == [186]
        known = self.instant_power_mw is not None and handle not in self.instances
        value = SimpleNamespace(uiVal=self.instant_power_mw or 0)
        return [SimpleNamespace(nvmlReturn=0 if known else self.NVML_ERROR_NOT_SUPPORTED, value=value)]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self._of_gpu(handle, self.energy_mj)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[ScriptedProcess]:
        return _supported(self.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[ScriptedProcess]:
        return _supported(self.graphics)

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int) -> SimpleNamespace:
        assert version == self.nvmlMemory_v2
        return SimpleNamespace(used=_supported(self.memory_used_bytes))

    def nvmlDeviceGetSamples(
        self, handle: str, kind: int, since_us: int
    ) -> tuple[int, list[SimpleNamespace]]:
        assert kind == self.NVML_GPU_UTILIZATION_SAMPLES
        kept = [sample for sample in self._of_gpu(handle, self.samples) if sample[0] > since_us]
        if not kept:
            raise ScriptedNvmlError(self.NVML_ERROR_NOT_FOUND)
        return 1, [
            SimpleNamespace(timeStamp=stamp, sampleValue=SimpleNamespace(uiVal=percent))
            for stamp, percent in kept
        ]

    def _of_gpu(self, handle: str, value: T | None) -> T:
        """A figure that only a whole GPU has."""
        return _supported(None if handle in self.instances else value)


def _supported(value: T | None) -> T:
    if value is None:
        raise ScriptedNvmlError(3)
    return value
