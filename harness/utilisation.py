"""The long window: one case runs back to back while NVML watches the whole GPU, at the clock that this settles to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from harness.nvml import Nvml, NvmlUnavailable
from results.schema import Utilisation

if TYPE_CHECKING:
    from harness.timers import Call

WINDOW_LIMIT_S = 2.5
"""Longer than two of the slowest sampling periods NVML uses."""
BATCH_S = 5e-3
"""Calls are queued in batches of about this long, two of them in flight, so that the GPU never waits."""
SOURCE = "NVML, whole device"


def watch(call: Call, once_s: float, nvml: Nvml) -> Utilisation:
    """Run `call` until NVML has published a sampling period that lies wholly inside the run."""
    batch = max(1, min(500, round(BATCH_S / max(once_s, 1e-6))))
    start = time.time()
    busy: float | None = None
    reason: str | None = None
    in_flight = None
    batches = 1
    while busy is None and time.time() - start < WINDOW_LIMIT_S:
        in_flight = _queue(call, batch, in_flight)
        batches += 1
        try:
            busy = nvml.busy_percent_since(start * 1e6)
        except NvmlUnavailable as error:
            reason = str(error)
            break
    last = _queue(call, batch, in_flight)  # still running while the rest is read
    power_w, sm_clock_mhz = nvml.power_w(), nvml.sm_clock_mhz()  # first: the other queries are slow
    last.synchronize()
    ended = time.time()
    return Utilisation(
        gpu_busy_percent=busy,
        memory_used_bytes=nvml.memory_used_bytes(),
        power_w=power_w,
        sm_clock_mhz=sm_clock_mhz,
        temperature_c=nvml.temperature_c(),
        window_s=ended - start,
        calls=batch * batches,
        span_s=(ended - start) / (batch * batches),
        source=SOURCE,
        reason=reason
        or (None if busy is not None else f"NVML published no sample within {WINDOW_LIMIT_S} s"),
    )


def _queue(call: Call, batch: int, in_flight: Any) -> Any:
    """Queue a batch, wait for the one before it, and return the event that ends this one."""
    import torch

    for _ in range(batch):
        call()
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    if in_flight is not None:
        in_flight.synchronize()
    return event
