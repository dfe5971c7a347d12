"""split/relayout: one launch of our own for Q, K and V together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels import relayout
from variants.variant import Requires, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Relayout(Variant):
    """As fast as a plain copy, if 16 bytes a load, reads in the order of memory and few index sums are all it takes."""

    stage = "split"
    name = "relayout"
    requires = Requires(device="cuda", capability=(8, 0))
    no_backward = "our kernel is written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Compile the kernel."""
        relayout.compile_for(self.shape.head_dim * weights.w_q.element_size(), weights.w_q.device)

    def call(self, projected: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim], contiguous: slices of one tensor."""
        return relayout.contiguous(*(part.transpose(1, 2) for part in projected.unbind(2)))
