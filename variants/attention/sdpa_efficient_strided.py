"""attention/sdpa_efficient_strided: sdpa_efficient on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.sdpa_efficient import SdpaEfficient


class SdpaEfficientStrided(SdpaEfficient):
    """As fast as sdpa_efficient if its kernel reads a head by its strides."""

    name = "sdpa_efficient_strided"
    arrives = "strided"
    aside = True
