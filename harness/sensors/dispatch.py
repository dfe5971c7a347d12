"""What a call puts on the GPU: kernels, copies and fills by name, and how long any of them ran.

Recorded by CUPTI through PyTorch's profiler, in a process of its own: once CUPTI is loaded, launches of the same
process take longer for good (13 % in one measurement), so nothing is timed after it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from results.figures import Dispatch, Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.timers import Call
    from results.figures import Figures

CALLS = 5
SOURCE = "CUPTI, by PyTorch's profiler"
SCOPE = "this process, kernel by kernel"
LONGEST_NAME = 200
"""Names of templates run to thousands of characters; what tells two kernels apart stands at the front."""

Interval = tuple[str, int, int]
"""A kernel's name, when it began and when it ended, in nanoseconds."""


class DispatchSensor:
    """CUPTI's record of a few calls."""

    step = "kernels"
    fields = ("dispatch",)
    reason: str | None = None

    def sample(self, call: Call) -> dict[str, Figures]:
        """Run `call` a few times under the profiler."""
        import torch

        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            for _ in range(CALLS):
                call()
            torch.cuda.synchronize()
        found: Any = profile.profiler.kineto_results.events() if profile.profiler else ()
        on_gpu = (event for event in found if event.device_type().name == "CUDA")
        recorded = [(e.name(), e.start_ns(), e.start_ns() + e.duration_ns()) for e in on_gpu]
        return {"dispatch": summary(recorded, CALLS)}

    def close(self) -> None:
        """Nothing is held between samples."""


def summary(intervals: list[Interval], calls: int) -> Dispatch:
    """What `calls` calls ran, per call. Kernels of one name are added up: each is work, none is a repetition."""
    if not intervals:
        return Dispatch(calls=calls, source=SOURCE, scope=SCOPE, reason="the profiler recorded no kernel")
    of_name: dict[str, list[int]] = defaultdict(list)
    for name, start, end in intervals:
        of_name[name[:LONGEST_NAME]].append(end - start)
    kernels = (
        Kernel(name, len(durations) / calls, sum(durations) * 1e-9 / calls)
        for name, durations in of_name.items()
    )
    return Dispatch(
        launches=len(intervals) / calls,
        busy_s=union_ns((start, end) for _, start, end in intervals) * 1e-9 / calls,
        kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.summed_s)),
        calls=calls,
        source=SOURCE,
        scope=SCOPE,
    )


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """How much time at least one of these intervals covers: what runs side by side counts once."""
    covered, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            covered, reached = covered + end - start, end
        elif end > reached:
            covered, reached = covered + end - reached, end
    return covered
