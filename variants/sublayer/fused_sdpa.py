"""sublayer/fused_sdpa: one matmul, one attention kernel, one matmul."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.layout import merge_heads, split_heads
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class FusedSdpa(Variant):
    """Fastest if few, wide operations win: heads are a stride throughout, and no activation is copied.

    SDPA reads Q, K and V as strided views of the projection; whether that costs it speed is the question.
    """

    stage = "sublayer"
    name = "fused_sdpa"

    def prepare(self, weights: Weights) -> None:
        """Lay W_Q, W_K and W_V side by side: [d_model, 3 · d_model]."""
        self.w_qkv = torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1)
        self.w_o = weights.w_o

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        q, k, v = (split_heads(y, self.shape.n_head) for y in (x @ self.w_qkv).chunk(3, dim=-1))
        heads = scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)
        return merge_heads(heads) @ self.w_o
