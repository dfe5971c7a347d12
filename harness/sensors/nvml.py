"""One GPU as NVML sees it: clocks, power, memory, processes, and how busy it was. Never called inside a timed bracket.

Of a MIG instance NVML knows the memory and the processes; clocks, power, temperature and energy are the whole GPU's.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

FIELD_POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT: `nvmlDeviceGetPowerUsage` is a one-second average on most GPUs, this is not."""

LOOK_BACK_US = 2_000_000
"""How far back utilisation samples are asked for, so that the one before a window is among them."""

NOT_AVAILABLE = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE: what a driver under Windows says of memory that it does not manage."""

NEWEST = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlGpmMigSampleGet", "NVMLLibraryMismatchError")
"""What of the library came last: the package that was called `pynvml` is without it, and hides nvidia-ml-py."""

WHOLE = "whole GPU"
INSTANCE = "MIG instance; clocks, power, temperature and energy of the whole GPU"


class NvmlUnavailable(Exception):
    """NVML cannot say anything about this GPU; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the GPU is between two blocks; None is what it does not tell.

    The driver refreshes its figures every 100 ms or so. `clock_event_reasons` is NVML's bit mask of why the clock
    is not higher; `results.clock_events` has its words.
    """

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_event_reasons: int | None = None


NOTHING_READ = Reading()


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses the GPU; its memory is None where the driver does not tell."""

    pid: int
    memory_bytes: int | None


class Nvml:
    """One GPU's readings. `library` is the `pynvml` module or something with its functions.

    `device` is what computes, `gpu` the whole GPU: the same, unless `device` is a MIG instance. `scope` says which
    of both the figures are of.
    """

    def __init__(self, library: Any, device: Any, gpu: Any, scope: str) -> None:
        self.library, self.device, self.gpu, self.scope = library, device, gpu, scope

    @classmethod
    def open(cls, uuid: str, library: Any = None) -> Nvml:
        """The GPU or MIG instance with this UUID, the same whatever CUDA_VISIBLE_DEVICES says.

        CUDA does not say of a UUID whether it is a GPU's or an instance's, so "GPU-…" stands for both.

        Raises:
            NvmlUnavailable: no NVML library, or it does not know the UUID.
        """
        if library is None:
            library = import_library()
        try:
            library.nvmlInit()
            device = _device(library, uuid)
            if _is_instance(library, device):
                gpu = library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
                return cls(library, device, gpu, INSTANCE)
        except library.NVMLError as error:
            raise NvmlUnavailable(f"NVML has no GPU {uuid}: {error}") from error
        return cls(library, device, device, WHOLE)

    @property
    def driver(self) -> str:
        """The driver's version."""
        return str(self.library.nvmlSystemGetDriverVersion())

    def sm_clock_mhz(self) -> float | None:
        """The SM clock now, or None when this GPU does not tell."""
        return self._read("nvmlDeviceGetClockInfo", self.library.NVML_CLOCK_SM)

    def reading(self) -> Reading:
        """Clock, power, temperature and clock-event reasons, in less than 0.1 ms."""
        reasons = self._read("nvmlDeviceGetCurrentClocksEventReasons")
        return Reading(
            self.sm_clock_mhz(),
            self.power_w(),
            self.temperature_c(),
            None if reasons is None else int(reasons),
        )

    def max_sm_clock_mhz(self) -> float | None:
        """The highest SM clock, or None when this GPU does not tell."""
        return self._read("nvmlDeviceGetMaxClockInfo", self.library.NVML_CLOCK_SM)

    def power_limit_w(self) -> float | None:
        """The enforced power limit, or None when this GPU does not tell."""
        milliwatts = self._read("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1e3

    def temperature_c(self) -> float | None:
        """The GPU's temperature, or None when this GPU does not tell."""
        return self._read("nvmlDeviceGetTemperature", self.library.NVML_TEMPERATURE_GPU)

    def power_w(self) -> float | None:
        """Power drawn now: the instant reading where there is one, else the driver's average; None without either."""
        library = self.library
        try:
            value = library.nvmlDeviceGetFieldValues(self.gpu, [FIELD_POWER_INSTANT])[0]
            if value.nvmlReturn == library.NVML_SUCCESS and value.value.uiVal:
                return float(value.value.uiVal) / 1e3
        except library.NVMLError:
            pass
        milliwatts = self._read("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1e3

    def energy_j(self) -> float | None:
        """Joules taken since the driver was loaded; None when this GPU does not tell. Slow: several ms on some."""
        millijoules = self._read("nvmlDeviceGetTotalEnergyConsumption")
        return millijoules / 1e3 if millijoules else None

    def memory_used_bytes(self) -> int | None:
        """Bytes in use on the device, by every process; None when this GPU does not tell."""
        library = self.library
        try:
            return _known(library.nvmlDeviceGetMemoryInfo(self.device, version=library.nvmlMemory_v2).used)
        except library.NVMLError:
            return None

    def processes(self) -> tuple[Process, ...]:
        """Every process that NVML lists on this device, compute or graphics: before this one uses it, the others.

        Raises:
            NvmlUnavailable: it keeps no list here.
        """
        listed = list(self._listed("nvmlDeviceGetComputeRunningProcesses"))
        with suppress(NvmlUnavailable):  # some GPUs have no graphics at all
            listed += self._listed("nvmlDeviceGetGraphicsRunningProcesses")
        of_pid = {one.pid: Process(int(one.pid), _known(one.usedGpuMemory)) for one in reversed(listed)}
        return tuple(of_pid[pid] for pid in sorted(of_pid))

    def other_processes(self) -> tuple[Process, ...]:
        """The processes beside this one, which has a context on the device.

        Raises:
            NvmlUnavailable: NVML keeps no list here, or one that does not show this process, let alone others.
        """
        listed = self.processes()
        others = tuple(one for one in listed if one.pid != os.getpid())
        if others == listed:
            raise NvmlUnavailable(
                f"NVML lists {len(listed)} processes on this GPU and this one is not among them: "
                "in a container it counts by other process ids, or shows none"
            )
        return others

    def busy_percent_since(self, start_us: float) -> float | None:
        """Share of time any kernel ran, over the driver's sampling periods that began after `start_us`.

        `start_us` is microseconds since 1970. None until the first such period has ended; the driver's
        periods are 1/6 s to 1 s long.

        Raises:
            NvmlUnavailable: this GPU keeps no utilisation samples.
        """
        library = self.library
        try:
            kind = library.NVML_GPU_UTILIZATION_SAMPLES
            _, samples = library.nvmlDeviceGetSamples(self.device, kind, int(start_us) - LOOK_BACK_US)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_NOT_FOUND:  # none yet, as after the driver's start
                return None
            raise NvmlUnavailable(f"NVML keeps no utilisation samples of this GPU: {error}") from error
        inside = [
            float(sample.sampleValue.uiVal)
            for before, sample in itertools.pairwise(samples)
            if before.timeStamp >= start_us
        ]
        return sum(inside) / len(inside) if inside else None

    def _read(self, function: str, *arguments: Any) -> float | None:
        try:
            return float(getattr(self.library, function)(self.gpu, *arguments))
        except self.library.NVMLError:
            return None

    def _listed(self, function: str) -> Any:
        library = self.library
        try:
            return getattr(library, function)(self.device)
        except (library.NVMLError, library.NVMLLibraryMismatchError) as error:
            raise NvmlUnavailable(f"NVML does not list this GPU's processes: {error}") from error


def _device(library: Any, uuid: str) -> Any:
    """The handle of a GPU's UUID, or of the MIG instance that has it."""
    try:
        return library.nvmlDeviceGetHandleByUUID(uuid)
    except library.NVMLError:
        with suppress(library.NVMLError):
            return library.nvmlDeviceGetHandleByUUID(uuid.replace("GPU-", "MIG-", 1))
        raise


def _is_instance(library: Any, device: Any) -> bool:
    """Whether it is a MIG instance; drivers that are older than MIG lack the question."""
    try:
        return bool(library.nvmlDeviceIsMigDeviceHandle(device))
    except library.NVMLError:
        return False


def _known(bytes_: int | None) -> int | None:
    return None if bytes_ is None or bytes_ == NOT_AVAILABLE else int(bytes_)


def import_library() -> Any:
    """The `pynvml` module of nvidia-ml-py.

    Raises:
        NvmlUnavailable: it is not installed, is broken, or is another module of that name.
    """
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise NvmlUnavailable(
            "the Python package nvidia-ml-py is not installed: pip install nvidia-ml-py"
        ) from error
    except Exception as error:
        raise NvmlUnavailable(
            f"the Python module pynvml cannot be imported ({type(error).__name__}: {error}): "
            "pip install --force-reinstall nvidia-ml-py"
        ) from error
    if lacking := next((name for name in NEWEST if not hasattr(pynvml, name)), None):
        raise NvmlUnavailable(
            f"the Python module pynvml lacks {lacking}, so it is no recent nvidia-ml-py: "
            "pip uninstall pynvml; pip install --force-reinstall nvidia-ml-py"
        )
    return pynvml


def gpus_seen(library: Any = None) -> list[tuple[str, str]]:
    """(name, driver) of every GPU NVML sees; an empty list without NVML or without a GPU."""
    try:
        library = library or import_library()
    except NvmlUnavailable:
        return []
    try:
        library.nvmlInit()
        driver = str(library.nvmlSystemGetDriverVersion())
        handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
        return [(str(library.nvmlDeviceGetName(handle)), driver) for handle in handles]
    except library.NVMLError:
        return []
