"""The base of the sdpa_padded variants: a head_dim padded by us, before a library sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch.nn.functional import pad, scaled_dot_product_attention

from variants.variant import Unsupported, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class PaddedSdpa(Variant):
    """Q, K and V copied into rows of zeros beyond head_dim; a subclass says how wide a row becomes.

    Zeros change no score and no output but those beyond head_dim, which are cut off: so the output is a view whose
    rows are wider than they show.
    """

    stage = "attention"

    def width(self, head_dim: int) -> int:
        """How many features a head has when padded."""
        raise NotImplementedError

    def prepare(self, weights: Weights) -> None:
        """Nothing to arrange.

        Raises:
            Unsupported: this head_dim needs no padding.
        """
        del weights
        head_dim = self.shape.head_dim
        self.added = self.width(head_dim) - head_dim
        if not self.added:
            raise Unsupported(f"head_dim {head_dim} is as wide as it would be padded: sdpa is the same")

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], a view of wider rows."""
        shape = self.shape
        q, k, v = (pad(x, (0, self.added)) for x in (q, k, v))
        scale = 1 / math.sqrt(shape.head_dim)  # by default it would be of the padded width
        wide = scaled_dot_product_attention(q, k, v, is_causal=shape.causal, scale=scale)
        return wide[..., : shape.head_dim]
