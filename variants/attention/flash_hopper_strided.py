"""attention/flash_hopper_strided: flash_hopper on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.flash_hopper import FlashHopper


class FlashHopperStrided(FlashHopper):
    """As fast as flash_hopper if its copies, which know strides, bring rows from anywhere alike."""

    name = "flash_hopper_strided"
    arrives = "strided"
    aside = True
