"""NVML's performance monitor (GPM, Hopper and newer): what the multiprocessors did between two samples of counters.

It needs no privilege and watches the whole GPU, or one MIG instance, so the window must hold nothing but the call.
A window begins on a GPU that has been busy for a while: the first sample after idling counts from long before.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from harness.sensors.nvml import INSTANCE, NvmlUnavailable
from results.figures import Gpm

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sensors.nvml import Nvml

METRICS = {"sm_active_percent": 2, "occupancy_percent": 3, "tensor_active_percent": 5, "dram_percent": 10}
"""NVML_GPM_METRIC_SM_UTIL, SM_OCCUPANCY, ANY_TENSOR_UTIL and DRAM_BW_UTIL."""
LEAST_S = 0.2
"""Windows of 50 ms read half of what is there, shorter ones nothing; from 200 ms on they repeat."""
HIGHEST = 101.0
"""A share may exceed 100 % by rounding, not by more: after a reset of the counters it does."""
SOURCE = "NVML GPM"


class GpmMeter:
    """Two samples of the counters, held until `close`; `start` and `stop` any number of times between."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float]) -> None:
        library = self._library = nvml.library
        self._nvml, self._clock = nvml, clock
        self._instance = library.nvmlDeviceGetGpuInstanceId(nvml.device) if nvml.scope == INSTANCE else None
        self._samples = [library.nvmlGpmSampleAlloc()]
        try:
            self._samples.append(library.nvmlGpmSampleAlloc())
        except library.NVMLError:
            self.close()
            raise
        self._start_s = math.nan
        self._fault: str | None = "the window was never started"

    @classmethod
    def open(cls, nvml: Nvml, clock: Callable[[], float] = time.monotonic) -> GpmMeter:
        """The monitor of this GPU; `clock` gives seconds.

        Raises:
            NvmlUnavailable: the GPU or its driver has none.
        """
        library = nvml.library
        try:
            if library.nvmlGpmQueryDeviceSupport(nvml.gpu).isSupportedDevice:
                return cls(nvml, clock)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise NvmlUnavailable(
                    f"driver {nvml.driver} is older than NVML's performance monitor: update it to 525 or newer"
                ) from error
            if error.value != library.NVML_ERROR_NOT_SUPPORTED:
                raise NvmlUnavailable(f"NVML's performance monitor refuses this GPU: {error}") from error
        raise NvmlUnavailable(
            "this GPU has no performance monitor that NVML reads (Hopper and newer have): "
            "--counters ncu counts on older ones, too"
        )

    def start(self) -> None:
        """Begin a window, on a GPU that has been busy for 50 ms. What goes wrong, `stop` says."""
        self._fault = self._take(0)
        self._start_s = self._clock()

    def stop(self) -> Gpm:
        """End it: shares of the cycles since `start`, or the reason why each is not known."""
        window_s = self._clock() - self._start_s
        fault = self._fault or self._take(1)
        if fault is None and window_s < LEAST_S:
            fault = (
                f"NVML's performance monitor reads too low in {window_s * 1e3:.0f} ms: {LEAST_S} s would do"
            )
        self._fault = "the window was not started anew"
        if fault:
            return Gpm(source=SOURCE, reason=fault)
        try:
            read = self._read()
        except self._library.NVMLError as error:
            return Gpm(source=SOURCE, reason=f"NVML's performance monitor compares no samples: {error}")
        value = {field: one for field, one in read.items() if isinstance(one, float)}
        return Gpm(
            sm_active_percent=value.get("sm_active_percent"),
            occupancy_percent=value.get("occupancy_percent"),
            tensor_active_percent=value.get("tensor_active_percent"),
            dram_percent=value.get("dram_percent"),
            window_s=window_s,
            missing={field: one for field, one in read.items() if isinstance(one, str)},
            source=SOURCE,
            scope=self._nvml.scope if self._instance is None else "MIG instance",
        )

    def close(self) -> None:
        """Give the samples back."""
        for sample in self._samples:
            self._library.nvmlGpmSampleFree(sample)
        self._samples = []

    def _take(self, index: int) -> str | None:
        """Fill one sample, in less than 1 ms; what went wrong, if anything."""
        library, gpu, sample = self._library, self._nvml.gpu, self._samples[index]
        try:
            if self._instance is None:
                library.nvmlGpmSampleGet(gpu, sample)
            else:
                library.nvmlGpmMigSampleGet(gpu, self._instance, sample)
        except library.NVMLError as error:
            return f"NVML's performance monitor gives no sample: {error}"
        return None

    def _read(self) -> dict[str, float | str]:
        """Each metric between the two samples in percent, or why not."""
        library = self._library
        wanted = library.c_nvmlGpmMetricsGet_t()
        wanted.version = library.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics = len(METRICS)
        wanted.sample1, wanted.sample2 = self._samples
        for index, metric in enumerate(METRICS.values()):
            wanted.metrics[index].metricId = metric
        library.nvmlGpmMetricsGet(wanted)
        return {field: _percent(library, wanted.metrics[index]) for index, field in enumerate(METRICS)}


def _percent(library: Any, metric: Any) -> float | str:
    """A metric's value, or why it is none: an unknown one may come as a plain 0 that has no name."""
    named = f"metric {metric.metricId} of NVML's performance monitor"
    if metric.nvmlReturn != library.NVML_SUCCESS:
        return f"{named}: {library.NVMLError(metric.nvmlReturn)}"
    if metric.metricInfo.shortName is None:
        return f"{named}: this driver does not know it"
    if not math.isfinite(metric.value):
        return f"{named} reads {metric.value}"
    if not 0 <= metric.value <= HIGHEST:
        return f"{named} reads {metric.value:.4g} %, which no share of cycles can be"
    return float(metric.value)
