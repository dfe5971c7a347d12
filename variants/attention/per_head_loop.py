"""attention/per_head_loop: a Python loop over the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.attention._plain import attend, future_mask
from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class PerHeadLoop(Variant):
    """Slow if the heads are the parallelism: each one's few kernels wait for those of the head before.

    Scores in memory, one head's at a time; every head's output is a buffer of its own.
    """

    stage = "attention"
    name = "per_head_loop"

    def prepare(self, weights: Weights) -> None:
        """Build the causal mask."""
        self.future = future_mask(self.shape, weights.w_q.device)

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        """n_head tensors [batch, seq_len, head_dim]."""
        return [attend(q[:, h], k[:, h], v[:, h], self.future) for h in range(self.shape.n_head)]

    def canonical(self, output: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The heads stacked into [batch, n_head, seq_len, head_dim]."""
        return (torch.stack(output, dim=1),)
