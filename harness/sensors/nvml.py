"""One GPU as NVML sees it: clocks, power, memory, and how busy it was. Never called inside a timed bracket."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

FIELD_POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT: `nvmlDeviceGetPowerUsage` is a one-second average on most GPUs, this is not."""

LOOK_BACK_US = 2_000_000
"""How far back utilisation samples are asked for, so that the one before a window is among them."""


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


class Nvml:
    """One GPU's readings. `library` is the `pynvml` module or something with its functions."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    @classmethod
    def open(cls, uuid: str, library: Any = None) -> Nvml:
        """The GPU with this UUID, the same physical GPU whatever CUDA_VISIBLE_DEVICES says.

        Raises:
            NvmlUnavailable: no NVML library, or it does not know the UUID.
        """
        if library is None:
            library = import_library()
        try:
            library.nvmlInit()
            return cls(library, library.nvmlDeviceGetHandleByUUID(uuid))
        except library.NVMLError as error:
            raise NvmlUnavailable(f"NVML has no GPU {uuid}: {error}") from error

    @property
    def driver(self) -> str:
        """The driver's version."""
        return str(self._library.nvmlSystemGetDriverVersion())

    def sm_clock_mhz(self) -> float | None:
        """The SM clock now, or None when this GPU does not tell."""
        return self._read("nvmlDeviceGetClockInfo", self._library.NVML_CLOCK_SM)

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
        return self._read("nvmlDeviceGetMaxClockInfo", self._library.NVML_CLOCK_SM)

    def power_limit_w(self) -> float | None:
        """The enforced power limit, or None when this GPU does not tell."""
        milliwatts = self._read("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1e3

    def temperature_c(self) -> float | None:
        """The GPU's temperature, or None when this GPU does not tell."""
        return self._read("nvmlDeviceGetTemperature", self._library.NVML_TEMPERATURE_GPU)

    def power_w(self) -> float | None:
        """Power drawn now: the instant reading where there is one, else the driver's average; None without either."""
        library = self._library
        try:
            value = library.nvmlDeviceGetFieldValues(self._handle, [FIELD_POWER_INSTANT])[0]
            if value.nvmlReturn == library.NVML_SUCCESS and value.value.uiVal:
                return float(value.value.uiVal) / 1e3
        except library.NVMLError:
            pass
        milliwatts = self._read("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1e3

    def memory_used_bytes(self) -> int | None:
        """Bytes in use on the whole device, by every process; None when this GPU does not tell."""
        library = self._library
        try:
            return int(library.nvmlDeviceGetMemoryInfo(self._handle, version=library.nvmlMemory_v2).used)
        except library.NVMLError:
            return None

    def busy_percent_since(self, start_us: float) -> float | None:
        """Share of time any kernel ran, over the driver's sampling periods that began after `start_us`.

        `start_us` is microseconds since 1970. None until the first such period has ended; the driver's
        periods are 1/6 s to 1 s long.

        Raises:
            NvmlUnavailable: this GPU keeps no utilisation samples.
        """
        library = self._library
        try:
            kind = library.NVML_GPU_UTILIZATION_SAMPLES
            _, samples = library.nvmlDeviceGetSamples(self._handle, kind, int(start_us) - LOOK_BACK_US)
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
            return float(getattr(self._library, function)(self._handle, *arguments))
        except self._library.NVMLError:
            return None


def import_library() -> Any:
    """The `pynvml` module of nvidia-ml-py.

    Raises:
        NvmlUnavailable: it is not installed.
    """
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailable(
            "the Python package nvidia-ml-py is not installed: pip install nvidia-ml-py"
        ) from error
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
