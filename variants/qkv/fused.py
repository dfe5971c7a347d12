"""qkv/fused: one matmul for Q, one for K, one for V."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.layout import split_heads
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights

Projections = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]


class Fused(Variant):
    """Faster than one matmul a head if width is what tensor cores want: one BLAS call instead of n_head.

    Each output is one buffer [batch, seq_len, d_model] in which the heads are a stride.
    """

    stage = "qkv"
    name = "fused"

    def prepare(self, weights: Weights) -> None:
        """The weights are used as they come."""
        self.weights = weights

    def call(self, x: torch.Tensor) -> Projections:
        """Q, K, V, each [batch, seq_len, d_model]."""
        return x @ self.weights.w_q, x @ self.weights.w_k, x @ self.weights.w_v

    def canonical(self, output: Projections) -> tuple[torch.Tensor, ...]:
        """Views [batch, n_head, seq_len, head_dim]."""
        return tuple(split_heads(y, self.shape.n_head) for y in output)
