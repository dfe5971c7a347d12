"""sublayer/compiled: fused_sdpa, as torch.compile makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import scaled_dot_product_attention

from variants.compiling import compiled
from variants.inputs import blank_activations
from variants.layout import merge_heads, split_heads
from variants.sublayer.fused_sdpa import FusedSdpa

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Compiled(FusedSdpa):
    """No faster than fused_sdpa if matmuls and attention stay the libraries' own; its checks cost the host time."""

    name = "compiled"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Arrange the weights and compile the layer.

        Raises:
            Unsupported: it cannot be compiled here.
        """
        super().prepare(weights)
        w = weights.w_q
        (x,) = blank_activations(self.stage, self.shape, self.arrives, w.device, gradients=w.requires_grad)
        self.compute = compiled(sublayer, x, self.w_qkv, self.w_o, self.shape.n_head, self.shape.causal)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        y: torch.Tensor = self.compute(x, self.w_qkv, self.w_o, self.shape.n_head, self.shape.causal)
        return y


def sublayer(
    x: torch.Tensor, w_qkv: torch.Tensor, w_o: torch.Tensor, n_head: int, causal: bool
) -> torch.Tensor:
    """All five steps of one layer, as a function of its weights."""
    q, k, v = (split_heads(y, n_head) for y in (x @ w_qkv).chunk(3, dim=-1))
    return merge_heads(scaled_dot_product_attention(q, k, v, is_causal=causal)) @ w_o
