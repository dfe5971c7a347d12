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
        """Build the module without biases, in eval mode, with these weights.

        The module multiplies from the other side, y = x · Wᵀ, so each weight is transposed.
        """
        width, like = self.shape.d_model, weights.w_q
        self.module = torch.nn.MultiheadAttention(
            width, self.shape.n_head, bias=False, batch_first=True, device=like.device, dtype=like.dtype
        ).eval()
        # In the places of its parameters, not copied into them, which would cut gradients off from the weights.
        projections = torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1)
        _put(self.module, "in_proj_weight", projections.T.contiguous())
        _put(self.module.out_proj, "weight", weights.w_o.T.contiguous())
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


def _put(module: torch.nn.Module, name: str, weight: torch.Tensor) -> None:
    """A tensor where the module had a parameter."""
    delattr(module, name)
    setattr(module, name, weight)
