"""attention/block_per_head: the lesson's own CUDA kernel, one thread block per (batch, head)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels import block_per_head
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class BlockPerHead(Variant):
    """Slow if blocks are the parallelism: batch × n_head of them leave a large GPU idle, and no tensor cores help."""

    stage = "attention"
    name = "block_per_head"
    requires = Requires(device="cuda", capability=(8, 0))
    no_backward = "our kernel is written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Compile the kernel.

        Raises:
            Unsupported: a tile of this head_dim does not fit in shared memory.
        """
        if reason := block_per_head.refuses(self.shape.head_dim, weights.w_q.device):
            raise Unsupported(reason)
        block_per_head.kernel(self.shape.head_dim, weights.w_q.dtype, torch.cuda.current_device())

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], contiguous."""
        return block_per_head.forward(q, k, v, causal=self.shape.causal)
