"""stack/fused_sdpa: one matmul, one attention kernel, one matmul and an addition a layer."""

from __future__ import annotations

from variants.stack._repeated import Repeated
from variants.sublayer.fused_sdpa import FusedSdpa as Layer


class FusedSdpa(Repeated):
    """As many times a layer's time as there are layers, if nothing but the additions comes between them."""

    name = "fused_sdpa"
    layer = Layer
