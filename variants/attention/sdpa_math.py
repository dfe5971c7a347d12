"""attention/sdpa_math: scaled_dot_product_attention held to its unfused fallback."""

from __future__ import annotations

from torch.nn.attention import SDPBackend

from variants.attention._forced_sdpa import ForcedSdpa
from variants.variant import Requires


class SdpaMath(ForcedSdpa):
    """Slow: matmuls and a softmax with the scores in memory, what PyTorch runs when no fused kernel fits."""

    name = "sdpa_math"
    aside = True
    requires = Requires(device="cuda")
    backend = SDPBackend.MATH
