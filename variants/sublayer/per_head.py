"""sublayer/per_head: every head apart, from the projections to the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.attention._plain import attend, future_mask
from variants.layout import columns_per_head, rows_per_head
from variants.output.per_head_accumulate import accumulate
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class PerHead(Variant):
    """Every head alone, from projection to output: slow if many small launches lose to few wide ones."""

    stage = "sublayer"
    name = "per_head"

    def prepare(self, weights: Weights) -> None:
        """Split all four weights by head and build the causal mask."""
        n_head = self.shape.n_head
        self.w_q = columns_per_head(weights.w_q, n_head)
        self.w_k = columns_per_head(weights.w_k, n_head)
        self.w_v = columns_per_head(weights.w_v, n_head)
        self.w_o = rows_per_head(weights.w_o, n_head)
        self.future = future_mask(self.shape, weights.w_q.device)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        projections = zip(self.w_q, self.w_k, self.w_v, strict=True)
        heads = [attend(x @ w_q, x @ w_k, x @ w_v, self.future) for w_q, w_k, w_v in projections]
        return accumulate(heads, self.w_o)
