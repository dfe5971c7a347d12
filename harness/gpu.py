"""What the GPU timers ask of a GPU, so that a scripted one can stand in for it to the nanosecond.

`CudaGpu` in `cuda_gpu.py` is the real one, `ScriptedGpu` in `fakes.py` the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.timers import Call


@dataclass(frozen=True, slots=True)
class Captured:
    """What replays a captured call, the output that each replay writes, and what must be replayed first, if anything.

    The graphs write into memory of their own, which is theirs as long as this object is held.
    """

    replay: Call
    output: object
    before: Call | None = None


class Gpu(Protocol):
    """One stream of one GPU, one pair of events and one pair of clock stamps on it.

    Everything is queued and returns at once, except `wait` and `synchronize`.
    """

    def flush(self) -> None:
        """Queue a read of at least twice the L2 cache."""

    def hold(self) -> None:
        """Queue a kernel that keeps the stream busy until `release`, or for a bounded time."""

    def release(self) -> None:
        """Let the hold end; the first clock stamp is its last act."""

    def released_by_timeout(self) -> bool:
        """Whether the last hold ended by itself, so that what followed it was not hidden."""

    def record_start(self) -> None:
        """Queue the event that begins a span."""

    def record_end(self) -> None:
        """Queue the event that ends a span, and the second clock stamp behind it."""

    def stamp(self) -> None:
        """Queue the first clock stamp, where no hold writes it."""

    def wait(self) -> None:
        """Wait until the last end event and its stamp have happened."""

    def span_s(self) -> float:
        """Seconds between the two events."""

    def sm_clock_mhz(self) -> float | None:
        """The mean SM clock between the two stamps; None when they came from different SMs."""

    def capture(self, call: Call) -> Captured:
        """`call` captured in a CUDA graph; see `harness.capture.capture`.

        Raises:
            Unmeasurable: CUDA refuses to capture it; the message is CUDA's.
        """

    def synchronize(self) -> None:
        """Wait for everything queued, on any stream."""
