"""What this GPU reaches at most, measured: a large matmul by dtype, burst and sustained, and a large copy.

A datasheet counts with a clock that a GPU may never hold. Burst is one matmul, caches cold, on a rested GPU, as an
isolated time is taken; sustained is matmuls back to back once power and temperature have settled. Each has the clock
that its own samples measured on an SM, since a driver's clock stays high while the power cap pulls the real one down.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import torch

from harness.clock_check import copy_bytes_per_s
from harness.faults import why_survived
from harness.sensors.feed import CudaFeed
from harness.sensors.window import keep_fed
from harness.state import float32_matmul_precision
from harness.timers import Unmeasurable
from harness.warm_call import WARM_UP_CALLS
from results.figures import Matmul
from results.schema import Ceilings
from variants.inputs import torch_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.sensors.feed import Feed
    from harness.timers import Bracket, Call, Timer

SIZE = 8192
FP32_SIZE = 4096
"""Vector units take 15 times as long as tensor cores; this size fills them as well."""
REST_S = 0.1
"""What an H200 needs until its clock is back at its highest."""
BURST_SAMPLES = 7
SETTLE_S = 0.5
SUSTAINED_S = 1.0
CLOCK_SAMPLES = 3
SOURCE = (
    f"matmuls of random numbers, 2 N³ FLOP each; burst: the median of {BURST_SAMPLES} isolated times, each after "
    f"{REST_S} s of rest; sustained: back to back for {SUSTAINED_S:g} s after {SETTLE_S} s of the same; copy: of 8 × "
    "L2, isolated; clocks measured on an SM while a matmul ran"
)
SCOPE = "whole GPU"


def measure(dtypes: Sequence[str], timers: Sequence[Timer]) -> Ceilings:
    """The current CUDA device's ceilings. Whatever a dtype cannot be measured for is its reason.

    Raises:
        Exception: the GPU's context is lost.
    """
    isolated = next(timer for timer in timers if timer.mode == "isolated")
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return Ceilings(
        matmuls={dtype: _matmul(dtype, isolated) for dtype in dtypes},
        copy_bytes_per_s=copy_bytes_per_s(isolated, 8 * l2_bytes),
        ended_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        source=SOURCE,
        scope=SCOPE,
    )


def _matmul(dtype: str, isolated: Timer) -> Matmul:
    size = FP32_SIZE if dtype == "fp32" else SIZE
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(float32_matmul_precision(dtype))
    try:
        return time_matmul(square_matmul(size, torch_dtype(dtype), "cuda"), size, isolated)
    except (RuntimeError, Unmeasurable) as error:
        return Matmul(size, reason=why_survived(error))
    finally:
        torch.set_float32_matmul_precision(before)
        torch.cuda.empty_cache()


def square_matmul(size: int, dtype: torch.dtype, device: torch.device | str) -> Call:
    """The product of two random matrices [size, size], into memory of its own.

    Random, since a multiplication by zeros takes less power, and so runs at a higher clock.
    """
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return partial(torch.mm, left, right, out=out)


def time_matmul(
    call: Call,
    size: int,
    isolated: Timer,
    feed: Callable[[Call], Feed] = CudaFeed,
    sleep: Callable[[float], None] = time.sleep,
) -> Matmul:
    """Burst, then sustained, of a matmul of this size.

    Raises:
        Unmeasurable: the call cannot be timed alone.
    """
    for _ in range(WARM_UP_CALLS):
        call()
    bracket = isolated.bracket(call)
    burst_s, burst_mhz = _burst(bracket, sleep)
    sustained_s, sustained_mhz = _sustained(call, bracket, feed)
    flops = 2 * size**3
    return Matmul(
        size=size,
        burst_flops_per_s=flops / burst_s,
        burst_clock_mhz=burst_mhz,
        sustained_flops_per_s=None if sustained_s is None else flops / sustained_s,
        sustained_clock_mhz=sustained_mhz,
        reason=None if sustained_s else f"fewer than two batches of matmuls ended in {SUSTAINED_S:g} s",
    )


def _burst(bracket: Bracket, sleep: Callable[[float], None]) -> tuple[float, float | None]:
    """Seconds of one call on a rested GPU, and the clock in MHz."""
    spans_s, clocks_mhz = [], []
    for _ in range(BURST_SAMPLES):
        sleep(REST_S)
        sample = bracket.sample()
        spans_s.append(sample.span_s)
        clocks_mhz.append(sample.sm_clock_mhz)
    return median(spans_s), _median(clocks_mhz)


def _sustained(
    call: Call, bracket: Bracket, feed: Callable[[Call], Feed]
) -> tuple[float | None, float | None]:
    """Seconds a call took in the window, and the clock of single calls right behind it, the queue still full."""
    settling = feed(call)
    keep_fed(settling, SETTLE_S)
    settling.drain()
    window = feed(call)
    keep_fed(window, SUSTAINED_S)
    span_s = window.span_s()  # before the clock's samples, which stand between batches
    clocks_mhz = []
    for _ in range(CLOCK_SAMPLES):
        window.top_up()
        clocks_mhz.append(bracket.sample().sm_clock_mhz)
    window.drain()
    return span_s, _median(clocks_mhz)


def _median(clocks_mhz: Sequence[float | None]) -> float | None:
    known = [mhz for mhz in clocks_mhz if mhz is not None]
    return median(known) if known else None
