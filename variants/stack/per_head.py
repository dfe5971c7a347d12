"""stack/per_head: every head of every layer apart."""

from __future__ import annotations

from variants.stack._repeated import Repeated
from variants.sublayer.per_head import PerHead as Layer


class PerHead(Repeated):
    """Slower than fused_sdpa by more than in one layer, if the host's launches are what it waits for: they add up."""

    name = "per_head"
    layer = Layer
