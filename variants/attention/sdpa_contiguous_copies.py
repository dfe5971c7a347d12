"""attention/sdpa_contiguous_copies: each head made contiguous first, then scaled_dot_product_attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.attention.sdpa import Sdpa

if TYPE_CHECKING:
    import torch


class SdpaContiguousCopies(Sdpa):
    """Slower than sdpa_strided if three copies cost more than contiguous heads gain: "transpose first", paid for."""

    name = "sdpa_contiguous_copies"
    arrives = "strided"
    aside = True

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], in the strides the backend chose."""
        return super().call(q.contiguous(), k.contiguous(), v.contiguous())
