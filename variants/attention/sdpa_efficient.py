"""attention/sdpa_efficient: scaled_dot_product_attention held to the memory-efficient kernel."""

from __future__ import annotations

from torch.nn.attention import SDPBackend

from variants.attention._forced_sdpa import ForcedSdpa
from variants.variant import Requires


class SdpaEfficient(ForcedSdpa):
    """Fused like flash, but older: the fallback for a head_dim or dtype that other fused kernels refuse."""

    name = "sdpa_efficient"
    requires = Requires(device="cuda")
    backend = SDPBackend.EFFICIENT_ATTENTION
