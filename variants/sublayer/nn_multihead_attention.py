"""sublayer/nn_multihead_attention: PyTorch's own module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.attention._plain import future_mask
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class NnMultiheadAttention(Variant):
    """What PyTorch users write: should match fused_sdpa, less what the module's Python and relayouts cost."""

    stage = "sublayer"
    name = "nn_multihead_attention"

    def prepare(self, weights: Weights) -> None:
        """Build the module without biases, in eval mode, and copy the weights into it.

        The module multiplies from the other side, y = x · Wᵀ, so each weight is transposed.
        """
        width, like = self.shape.d_model, weights.w_q
        self.module = torch.nn.MultiheadAttention(
            width, self.shape.n_head, bias=False, batch_first=True, device=like.device, dtype=like.dtype
        ).eval()
        with torch.no_grad():
            self.module.in_proj_weight.copy_(torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1).T)
            self.module.out_proj.weight.copy_(weights.w_o.T)
        # `is_causal` is only a hint: the module wants the mask as well. A boolean one, True where a key must not be
        # seen, it would turn into numbers on every call.
        self.mask: torch.Tensor | None = None
        if (future := future_mask(self.shape, like.device)) is not None:
            self.mask = torch.zeros_like(future, dtype=like.dtype).masked_fill_(future, -torch.inf)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        y: torch.Tensor
        y, _ = self.module(x, x, x, need_weights=False, attn_mask=self.mask, is_causal=self.shape.causal)
        return y
