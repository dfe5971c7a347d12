"""attention/sdpa_flash_strided: sdpa_flash on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.sdpa_flash import SdpaFlash


class SdpaFlashStrided(SdpaFlash):
    """As fast as sdpa_flash if its kernel reads a head by its strides; rows far apart may cost it a little."""

    name = "sdpa_flash_strided"
    arrives = "strided"
    aside = True
