"""output/per_head_addmm: Σ O_h · W_O^h, one addmm a head, each on a stride of O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.layout import rows_per_head
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class PerHeadAddmm(Variant):
    """No copy and one launch a head, yet slow if Y's traffic counts: each head's addmm reads and writes all of it.

    A head is some columns of every row, which a matmul takes as they lie. The sum is kept in the inputs'
    dtype, so every head after the first rounds it once more.
    """

    stage = "output"
    name = "per_head_addmm"
    arrives = "strided"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Split W_O into n_head matrices [head_dim, d_model]."""
        self.w_o = rows_per_head(weights.w_o, self.shape.n_head)

    def call(self, heads: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        first, *others = (head.flatten(0, 1) for head in heads.unbind(1))  # views [batch · seq_len, head_dim]
        y = first @ self.w_o[0]
        for head, w in zip(others, self.w_o[1:], strict=True):
            y.addmm_(head, w)
        return y.view(self.shape.batch, self.shape.seq_len, -1)
