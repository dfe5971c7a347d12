"""When a GPU's clock has been pulled down, and the rest that brings it back.

Under full load an H200 holds its highest clock for about 50 ms; then its power cap pulls it down by up to a
fifth, and idle it takes some 100 ms to come back. A case measured right after a heavy one would pay for that
one's heat.

Two clocks tell. The driver's is the one the GPU is set to, up to 100 ms ago. The one measured on the SM while a
case runs is what it really ran at: every case has one of its own, lower the harder it works the tensor cores,
though the driver reports the highest throughout. So a case is only compared with itself.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.sensors.nvml import Reading

LOWERED = 0.98
"""Below this share of what it was a clock counts as lowered; readings scatter by less."""
NEAR_THE_CAP = 0.8
"""From this share of the power limit on the cap is near: readings are an average over the last 100 ms."""
REST_S = 0.02
REST_SHARE = 0.5
"""At most this share of the time for measuring goes into rests: a clock that stays low is the GPU's way."""


class Cooling:
    """After a block that was hot the GPU rests for as long as the block took: at half the duty no cap is reached.

    Hot is a block near the power limit, or one that left a clock lower than it was. A clock that is locked, or
    lower because of what a case does, is neither.
    """

    def __init__(
        self, power_limit_w: float | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._near_the_cap_w = NEAR_THE_CAP * power_limit_w if power_limit_w else math.inf
        self._sleep = sleep
        self._highest_mhz = 0.0
        self._may_rest_s = self._rest_s = 0.0

    def allow(self, measuring_s: float) -> None:
        """Begin a stretch of so many seconds, of which a share may go into rests."""
        self._may_rest_s = REST_SHARE * max(measuring_s, 0.0)

    def note(self, driver: Reading, measured_mhz: Sequence[float | None], block_s: float) -> None:
        """A block of so many seconds ended: what the driver reads, and the clocks measured in its series' blocks.

        The last of `measured_mhz` is this block's; None is a block in which none was measured.
        """
        self._highest_mhz = max(self._highest_mhz, driver.sm_clock_mhz or 0.0)
        hot = (
            (driver.power_w or 0.0) > self._near_the_cap_w
            or (driver.sm_clock_mhz or math.inf) < LOWERED * self._highest_mhz
            or _below(measured_mhz)
        )
        self._rest_s = max(REST_S, block_s) if hot else 0.0

    def rest(self) -> None:
        """Let the GPU idle if the last block was hot and there is time for it."""
        seconds = min(self._rest_s, self._may_rest_s)
        self._rest_s = 0.0
        if seconds > 0:
            self._may_rest_s -= seconds
            self._sleep(seconds)


def _below(measured_mhz: Sequence[float | None]) -> bool:
    """Whether the last clock is known, and clearly below the highest known."""
    last = measured_mhz[-1] if measured_mhz else None
    return last is not None and last < LOWERED * max(mhz for mhz in measured_mhz if mhz is not None)
