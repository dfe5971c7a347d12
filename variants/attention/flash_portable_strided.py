"""attention/flash_portable_strided: flash_portable on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.flash_portable import FlashPortable


class FlashPortableStrided(FlashPortable):
    """As fast as flash_portable if its kernel reads a head by its strides."""

    name = "flash_portable_strided"
    arrives = "strided"
    aside = True
