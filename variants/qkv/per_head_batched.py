"""qkv/per_head_batched: all heads of Q, K and V in one batched matmul."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.layout import columns_per_head
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class PerHeadBatched(Variant):
    """Faster than per_head by its launches, one instead of 3 × n_head; slower than fused if each product is too narrow.

    X is the same for every head: a batch with a stride of 0. The output is one buffer
    [3, n_head, batch, seq_len, head_dim].
    """

    stage = "qkv"
    name = "per_head_batched"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Stack the heads of W_Q, W_K and W_V: [3 · n_head, d_model, head_dim]."""
        n_head = self.shape.n_head
        heads = [columns_per_head(w, n_head) for w in (weights.w_q, weights.w_k, weights.w_v)]
        self.w = torch.stack([w for of in heads for w in of])

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Q, K and V [3 · n_head, batch · seq_len, head_dim]."""
        return torch.bmm(x.flatten(0, 1).expand(len(self.w), -1, -1), self.w)

    def canonical(self, output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Views [batch, n_head, seq_len, head_dim]."""
        shape = self.shape
        heads = output.view(3, shape.n_head, shape.batch, shape.seq_len, shape.head_dim)
        return heads.transpose(1, 2).unbind(0)
