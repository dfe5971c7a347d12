"""qkv/fused_qkv: one matmul for Q, K and V together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.layout import split_heads
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class FusedQkv(Variant):
    """Fastest if launches and reads of X matter: X is read for one matmul three times as wide.

    The output is one buffer [batch, seq_len, 3 · d_model]: Q, K and V side by side in each row.
    """

    stage = "qkv"
    name = "fused_qkv"

    def prepare(self, weights: Weights) -> None:
        """Lay W_Q, W_K and W_V side by side: [d_model, 3 · d_model]."""
        self.w_qkv = torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Q, K and V in one tensor [batch, seq_len, 3 · d_model]."""
        return x @ self.w_qkv

    def canonical(self, output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Views [batch, n_head, seq_len, head_dim]."""
        return tuple(split_heads(y, self.shape.n_head) for y in output.chunk(3, dim=-1))
