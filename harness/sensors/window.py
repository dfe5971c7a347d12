"""The long window: one case runs back to back while NVML watches the whole GPU, at the clock that this settles to.

One window serves NVML and its performance monitor, so that what they say is of the same seconds.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from harness.sensors.nvml import NvmlUnavailable
from harness.sensors.sensor import unseen
from results.figures import Utilisation

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sensors.feed import Feed
    from harness.sensors.gpm import GpmMeter
    from harness.sensors.nvml import Nvml
    from harness.timers import Call
    from results.figures import Figures

WARM_S = 0.06
"""The first batches fill the queue, and lift an idle clock."""
LEAST_S = 0.55
"""What the energy counter needs, which ticks every 20 to 100 ms, and GPM after it has settled."""
GPM_SETTLES_S = 0.3
"""GPM's counters are up to some 200 ms behind: begun earlier, its window holds the idle time before this one."""
LIMIT_S = 2.5
"""Longer than two of the slowest sampling periods NVML uses."""
PAUSE_S = 1e-3
SOURCE = "NVML"
NOT_TOLD = "NVML does not tell it of this GPU"


class DeviceWindow:
    """NVML's readings and, where there is one, its performance monitor's, of a call that runs back to back.

    `feed` makes what keeps the GPU busy with a call. Without `gpm`, `gpm_reason` says why.
    """

    step = "NVML window"
    fields = ("utilisation", "gpm")
    reason: str | None = None

    def __init__(
        self, nvml: Nvml, gpm: GpmMeter | None, gpm_reason: str | None, feed: Callable[[Call], Feed]
    ) -> None:
        self._nvml, self._gpm, self._gpm_reason, self._feed = nvml, gpm, gpm_reason, feed

    def sample(self, call: Call) -> dict[str, Figures]:
        """Run `call` until NVML has published a period that lies wholly inside the run, half a second at least."""
        feed = self._feed(call)
        keep_fed(feed, WARM_S)
        watched = self._watch(feed)
        feed.top_up()  # still running while the rest is read
        gpm = self._gpm.stop() if self._gpm else unseen("gpm", self._gpm_reason or "not asked for")
        utilisation = self._read(watched, feed)
        feed.drain()
        return {"utilisation": replace(utilisation, calls=feed.calls(), span_s=feed.span_s()), "gpm": gpm}

    def close(self) -> None:
        """Give the performance monitor's samples back."""
        if self._gpm:
            self._gpm.close()

    def _watch(self, feed: Feed) -> Utilisation:
        """What takes a while: until NVML has told of a whole period, or says that it never will."""
        start = time.time()
        energy = _EnergyTicks(self._nvml)
        busy: float | None = None
        missing: dict[str, str] = {}
        counting = self._gpm is None
        while time.time() - start < LIMIT_S:
            feed.top_up()
            if self._gpm and not counting and time.time() - start >= GPM_SETTLES_S:
                self._gpm.start()
                counting = True
            energy.poll()
            try:
                busy = self._nvml.busy_percent_since(start * 1e6) if busy is None else busy
            except NvmlUnavailable as error:
                missing["gpu_busy_percent"] = str(error)
            if time.time() - start >= LEAST_S and (busy is not None or missing):
                break
            time.sleep(PAUSE_S)
        if busy is None and not missing:
            missing["gpu_busy_percent"] = f"NVML published no sample within {LIMIT_S} s"
        energy_j, energy_window_s = energy.taken()
        if energy_j is None:
            missing["energy_j"] = energy.why_not()
        return Utilisation(
            gpu_busy_percent=busy,
            window_s=time.time() - start,
            energy_j=energy_j,
            energy_window_s=energy_window_s,
            fed_by=feed.mode,
            missing=missing,
            source=SOURCE,
            scope=self._nvml.scope,
        )

    def _read(self, watched: Utilisation, feed: Feed) -> Utilisation:
        """What is read once, at the end of the window, while the GPU still works."""
        told: dict[str, float | None] = asdict(self._nvml.reading())
        feed.top_up()
        told["memory_used_bytes"] = self._nvml.memory_used_bytes()
        missing = {name: NOT_TOLD for name, value in told.items() if value is None}
        try:
            told["other_processes"] = len(self._nvml.other_processes())
        except NvmlUnavailable as error:
            missing["other_processes"] = str(error)
        return replace(watched, missing=watched.missing | missing, **told)  # type: ignore[arg-type]


class _EnergyTicks:
    """The energy counter between two of its own ticks: read anywhere else, it is up to a tick behind."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._seen = nvml.energy_j()
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def poll(self) -> None:
        """Look whether it has ticked."""
        if self._seen is None:
            return
        now_j, now_s = self._nvml.energy_j(), time.time()
        if now_j is None or now_j == self._seen:
            return
        self._seen = now_j
        if self._first is None:
            self._first = (now_j, now_s)
        else:
            self._last = (now_j, now_s)

    def taken(self) -> tuple[float | None, float | None]:
        """Joules and seconds between the first tick and the last; None for both before there were two."""
        if self._first is None or self._last is None:
            return None, None
        return self._last[0] - self._first[0], self._last[1] - self._first[1]

    def why_not(self) -> str:
        """The reason for a None."""
        if self._seen is None:
            return "this GPU has no energy counter"
        return "the energy counter ticked less than twice in the window"


def keep_fed(feed: Feed, seconds: float) -> None:
    """Keep the queue full for so long."""
    end = time.time() + seconds
    while time.time() < end:
        feed.top_up()
        time.sleep(PAUSE_S)
