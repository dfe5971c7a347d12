"""attention/sdpa_cudnn: scaled_dot_product_attention held to cuDNN's fused attention."""

from __future__ import annotations

from torch.nn.attention import SDPBackend

from variants.attention._forced_sdpa import ForcedSdpa
from variants.variant import Requires


class SdpaCudnn(ForcedSdpa):
    """Fastest where NVIDIA tuned it for the GPU at hand; an unusual head_dim may cost more than elsewhere."""

    name = "sdpa_cudnn"
    requires = Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16"))
    backend = SDPBackend.CUDNN_ATTENTION
