"""attention/sdpa: PyTorch's scaled_dot_product_attention, with the backend PyTorch chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import scaled_dot_product_attention

from variants.variant import Variant

if TYPE_CHECKING:
    import torch


class Sdpa(Variant):
    """Fast if one fused kernel runs all heads in parallel and never writes the scores to memory."""

    stage = "attention"
    name = "sdpa"

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], in the strides the backend chose."""
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)
