"""output/per_head_accumulate: Σ O_h · W_O^h, one matmul a head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.layout import rows_per_head
from variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from variants.inputs import Weights


class PerHeadAccumulate(Variant):
    """No copy of the heads, but slow if Y's traffic counts: n_head matmuls read and write all of it.

    The sum is kept in the inputs' dtype, so every head after the first rounds it once more.
    """

    stage = "output"
    name = "per_head_accumulate"

    def prepare(self, weights: Weights) -> None:
        """Split W_O into n_head matrices [head_dim, d_model]."""
        self.w_o = rows_per_head(weights.w_o, self.shape.n_head)

    def call(self, heads: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        return accumulate(heads.unbind(1), self.w_o)


def accumulate(heads: Sequence[torch.Tensor], w_o: Sequence[torch.Tensor]) -> torch.Tensor:
    """Σ heads[h] [batch, seq_len, head_dim] · w_o[h] [head_dim, d_model], added up in place."""
    y = heads[0] @ w_o[0]
    for head, w in zip(heads[1:], w_o[1:], strict=True):
        y.baddbmm_(head, w.expand(len(head), -1, -1))
    return y
