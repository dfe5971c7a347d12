"""output/concat_matmul: concatenate the heads, then one matmul with W_O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.layout import merge_heads
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class ConcatMatmul(Variant):
    """Fast if one wide matmul repays the copy that lays the heads side by side first."""

    stage = "output"
    name = "concat_matmul"

    def prepare(self, weights: Weights) -> None:
        """W_O is used as it comes."""
        self.w_o = weights.w_o

    def call(self, heads: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        return merge_heads(heads) @ self.w_o
