"""attention/sdpa_cudnn_strided: sdpa_cudnn on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.sdpa_cudnn import SdpaCudnn


class SdpaCudnnStrided(SdpaCudnn):
    """As fast as sdpa_cudnn if its kernel reads a head by its strides."""

    name = "sdpa_cudnn_strided"
    arrives = "strided"
    aside = True
