"""The highest SM clock this process has seen, what counts as lowered, and a rest that brings it back.

Under full load an H200 holds its highest clock for about 50 ms; then its power cap pulls it down by up to a
fifth, and idle it takes some 100 ms to come back. A case measured right after a heavy one would pay for that
one's heat.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOWERED = 0.98
"""Below this share of the highest clock seen a clock counts as lowered; readings scatter by less."""
REST_S = 0.1
REST_SHARE = 0.25
"""At most this share of the time for measuring goes into rests: a clock that stays low is the GPU's way."""


class FullClock:
    """The highest clock that any block of this process ran at; a GPU whose clock is locked never rests."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._highest_mhz = 0.0
        self._last_mhz = 0.0
        self._may_rest_s = 0.0

    def allow(self, measuring_s: float) -> None:
        """Begin a stretch of so many seconds, of which a share may go into rests."""
        self._may_rest_s = REST_SHARE * max(measuring_s, 0.0)

    def note(self, mhz: float) -> None:
        """A block ran at this clock."""
        self._highest_mhz = max(self._highest_mhz, mhz)
        self._last_mhz = mhz

    def is_lowered(self, mhz: float) -> bool:
        """Whether this clock is clearly below the highest."""
        return mhz < LOWERED * self._highest_mhz

    def rest(self) -> None:
        """Let the GPU idle if the last block ran at a lowered clock and there is time for it."""
        if self.is_lowered(self._last_mhz) and self._may_rest_s >= REST_S:
            self._may_rest_s -= REST_S
            self._sleep(REST_S)
