"""attention/sdpa_padded: head_dim padded by us to a multiple of 16, then scaled_dot_product_attention."""

from __future__ import annotations

from variants.attention._padded import PaddedSdpa


class SdpaPadded(PaddedSdpa):
    """Faster than sdpa if a library falls back at an odd head_dim, by more than the copies into padded rows cost."""

    name = "sdpa_padded"
    aside = True

    def width(self, head_dim: int) -> int:
        """The next multiple of 16, what a tensor core's instruction is deep."""
        return -(-head_dim // 16) * 16
