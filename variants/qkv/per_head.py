"""qkv/per_head: one small matmul for each head of Q, of K and of V."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.layout import columns_per_head
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights

Heads = list[torch.Tensor]


class PerHead(Variant):
    """Slow on a GPU if small matmuls matter: 3 × n_head launches, each too narrow to fill the tensor cores.

    Every head's output is a buffer of its own, [batch, seq_len, head_dim].
    """

    stage = "qkv"
    name = "per_head"

    def prepare(self, weights: Weights) -> None:
        """Split each weight into n_head contiguous [d_model, head_dim] matrices."""
        self.w_q, self.w_k, self.w_v = (
            columns_per_head(w, self.shape.n_head) for w in (weights.w_q, weights.w_k, weights.w_v)
        )

    def call(self, x: torch.Tensor) -> tuple[Heads, Heads, Heads]:
        """Three lists of n_head tensors [batch, seq_len, head_dim]."""
        return [x @ w for w in self.w_q], [x @ w for w in self.w_k], [x @ w for w in self.w_v]

    def canonical(self, output: tuple[Heads, Heads, Heads]) -> tuple[torch.Tensor, ...]:
        """The heads stacked into [batch, n_head, seq_len, head_dim]."""
        return tuple(torch.stack(heads, dim=1) for heads in output)
