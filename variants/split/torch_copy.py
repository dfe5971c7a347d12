"""split/torch_copy: one copy each for Q, K and V, by PyTorch, into memory that is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.variant import Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class TorchCopy(Variant):
    """Faster than torch_contiguous for a caller that waits for launches, if allocating costs what it saves.

    The same memory every time, as a cache of keys and values has it: a call overwrites what the one before gave.
    """

    stage = "split"
    name = "torch_copy"
    aside = True
    no_backward = "it writes into memory that is there already, of which autograd keeps no history"

    def prepare(self, weights: Weights) -> None:
        """Allocate Q, K and V."""
        shape, like = self.shape, weights.w_q
        size = (3, shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
        self.out = torch.empty(size, dtype=like.dtype, device=like.device).unbind(0)

    def call(self, projected: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim], contiguous."""
        for out, part in zip(self.out, projected.unbind(2), strict=True):
            out.copy_(part.transpose(1, 2))
        return self.out
