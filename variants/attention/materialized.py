"""attention/materialized: all heads at once, their scores a matrix in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.attention._plain import attend, future_mask
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Materialized(Variant):
    """Parallel over all heads, but slow if memory traffic rules: scores are written and read several times.

    Peak memory grows with batch × n_head × seq_len²: scores and softmax in float32, then the latter narrowed.
    """

    stage = "attention"
    name = "materialized"

    def prepare(self, weights: Weights) -> None:
        """Build the causal mask."""
        self.future = future_mask(self.shape, weights.w_q.device)

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim]."""
        heads = attend(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), self.future)
        return heads.view(q.shape)
