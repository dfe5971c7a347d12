"""When a GPU's clock has been pulled down, and the rest that brings it back.

Under full load an H200 holds its highest clock for about 50 ms; then its power cap pulls it down by up to a
fifth, and idle it takes some 100 ms to come back. A case measured right after a heavy one would pay for that
one's heat.

Two clocks tell. The driver's is the one the GPU is set to, up to 100 ms ago. The one measured on the SM while a
case runs is what it really ran at: every case has one of its own, lower the harder it works the tensor cores,
though the driver reports the highest throughout. So a case is only compared with itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOWERED = 0.98
"""Below this share of what it was a clock counts as lowered; readings scatter by less."""
REST_S = 0.05
REST_SHARE = 0.25
"""At most this share of the time for measuring goes into rests: a clock that stays low is the GPU's way."""


class Cooling:
    """Rests before the next block if the last one left the GPU at a lowered clock; a locked clock never is."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._highest_mhz = 0.0
        self._lowered = False
        self._may_rest_s = 0.0

    def allow(self, measuring_s: float) -> None:
        """Begin a stretch of so many seconds, of which a share may go into rests."""
        self._may_rest_s = REST_SHARE * max(measuring_s, 0.0)

    def note(self, driver_mhz: float | None, measured_mhz: Sequence[float]) -> None:
        """A block ended: the driver's clock now, and what was measured in its series' blocks, this one last."""
        self._highest_mhz = max(self._highest_mhz, driver_mhz or 0.0)
        below_the_driver = driver_mhz is not None and driver_mhz < LOWERED * self._highest_mhz
        self._lowered = below_the_driver or bool(
            measured_mhz and measured_mhz[-1] < LOWERED * max(measured_mhz)
        )

    def rest(self) -> None:
        """Let the GPU idle if its clock is lowered and there is time for it."""
        if self._lowered and self._may_rest_s >= REST_S:
            self._may_rest_s -= REST_S
            self._sleep(REST_S)
