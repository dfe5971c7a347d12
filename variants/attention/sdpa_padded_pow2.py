"""attention/sdpa_padded_pow2: head_dim padded by us to a power of two, then scaled_dot_product_attention."""

from __future__ import annotations

from variants.attention._padded import PaddedSdpa


class SdpaPaddedPow2(PaddedSdpa):
    """Faster than sdpa_padded if libraries tune for powers of two alone: their own padding would end there, too."""

    name = "sdpa_padded_pow2"
    aside = True

    def width(self, head_dim: int) -> int:
        """The next power of two."""
        return 1 << (head_dim - 1).bit_length()
