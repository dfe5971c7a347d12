"""The GPU present, as the timers use it: events and graphs by PyTorch, the kernels of `kernels/timing.cu`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness.capture import capture
from harness.timers import EagerTimer, Timer
from kernels import loader

if TYPE_CHECKING:
    from harness.gpu import Captured
    from harness.timers import Call

HOLD_LIMIT_S = 1.0
STAMP_WORDS = 3
"""A stamp is the cycle counter, the time in ns, and the SM's number."""


def gpu_timers() -> list[Timer]:
    """The three modes on the current device.

    Raises:
        KernelError: the kernels that flush, hold and stamp cannot be compiled.
    """
    from harness.gpu_timers import Bench, GraphTimer, IsolatedTimer

    gpu = CudaGpu()
    bench = Bench(gpu)
    return [IsolatedTimer(bench), EagerTimer(gpu.synchronize, gpu=gpu), GraphTimer(bench)]


class CudaGpu:
    """PyTorch's current stream of its current device; see `harness.gpu.Gpu` for what each method means."""

    def __init__(self) -> None:
        self._kernels = {name: loader.kernel("timing", name) for name in ("flush", "hold", "stamp")}
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._scratch = torch.zeros(2 * device.L2_cache_size // 16 * 4, dtype=torch.int32, device="cuda")
        self._sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._blocks = 4 * device.multi_processor_count
        # Pinned memory has one address on host and GPU (unified addressing), so each sees the other's stores.
        self._flags = torch.zeros(2, dtype=torch.int32, pin_memory=True)
        self._stamps = torch.zeros((2, STAMP_WORDS), dtype=torch.int64, pin_memory=True)
        self._host_flags, self._host_stamps = self._flags.numpy(), self._stamps.numpy()
        self._stream = torch.cuda.current_stream()
        self._start, self._end, self._stamped = _event(timing=True), _event(timing=True), _event(timing=False)

    def flush(self) -> None:
        """Queue a read of at least twice the L2 cache."""
        words = self._scratch.numel() // 4
        self._launch(
            "flush", self._scratch.data_ptr(), np.uint64(words), self._sink.data_ptr(), blocks=self._blocks
        )

    def hold(self) -> None:
        """Queue the kernel that spins on a flag of ours; earlier stamps are void."""
        self._host_flags[:] = 0
        self._host_stamps[:] = 0
        flags, limit_ns = self._flags.data_ptr(), np.uint64(int(HOLD_LIMIT_S * 1e9))
        self._launch("hold", flags, flags + 4, limit_ns, self._stamps[0].data_ptr())

    def release(self) -> None:
        """Set the flag."""
        self._host_flags[0] = 1

    def released_by_timeout(self) -> bool:
        """Whether the last hold ended by itself."""
        return bool(self._host_flags[1])

    def record_start(self) -> None:
        """Queue the event that begins a span."""
        self._start.record(self._stream)

    def record_end(self) -> None:
        """Queue the event that ends it, and a stamp behind it, outside the span."""
        self._end.record(self._stream)
        self._launch("stamp", self._stamps[1].data_ptr())
        self._stamped.record(self._stream)

    def stamp(self) -> None:
        """Queue the first stamp, where no hold writes it."""
        self._launch("stamp", self._stamps[0].data_ptr())

    def wait(self) -> None:
        """Wait for the end event and the stamp behind it."""
        self._stamped.synchronize()

    def span_s(self) -> float:
        """Seconds between the two events."""
        return float(self._start.elapsed_time(self._end)) * 1e-3

    def sm_clock_mhz(self) -> float | None:
        """The mean SM clock between the two stamps; None where they are of two SMs, or the hold wrote none."""
        (cycles, ns, sm), (later_cycles, later_ns, later_sm) = self._host_stamps.tolist()
        if ns == 0 or later_ns <= ns or sm != later_sm:
            return None
        return float((later_cycles - cycles) / (later_ns - ns)) * 1e3

    def capture(self, call: Call) -> Captured:
        """See `harness.capture.capture`."""
        return capture(call)

    def synchronize(self) -> None:
        """Wait for the whole device."""
        torch.cuda.synchronize()

    def _launch(self, kernel: str, *arguments: Any, blocks: int = 1) -> None:
        self._kernels[kernel].launch(blocks, 256 if blocks > 1 else 1, *arguments)


def _event(timing: bool) -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=timing)  # type: ignore[no-untyped-call]
    return event
