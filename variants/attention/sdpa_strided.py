"""attention/sdpa_strided: sdpa on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.sdpa import Sdpa


class SdpaStrided(Sdpa):
    """As fast as sdpa if a fused kernel reads a head by its strides: no transpose is needed before it."""

    name = "sdpa_strided"
    arrives = "strided"
    aside = True
