"""attention/sdpa_flash: scaled_dot_product_attention held to FlashAttention."""

from __future__ import annotations

from torch.nn.attention import SDPBackend

from variants.attention._forced_sdpa import ForcedSdpa
from variants.variant import Requires


class SdpaFlash(ForcedSdpa):
    """Fast if tiles that stay on chip beat scores in memory; a head_dim between its tile sizes is padded."""

    name = "sdpa_flash"
    requires = Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16"))
    backend = SDPBackend.FLASH_ATTENTION
