"""qkv/per_head_streams: one small matmul for each head of Q, of K and of V, each head on a CUDA stream of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from variants.qkv.per_head import Heads, PerHead
from variants.streams import Fork
from variants.variant import Requires

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class PerHeadStreams(PerHead):
    """Faster than per_head if narrow matmuls fill the GPU side by side; a Python caller launches as many all the same.

    Where the host launches more slowly than matmuls run, nothing overlaps but in a graph.
    """

    name = "per_head_streams"
    requires = Requires(device="cuda")
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Split each weight by head, and make a stream a head."""
        super().prepare(weights)
        self.fork = Fork(self.shape.n_head)

    def call(self, x: torch.Tensor) -> tuple[Heads, Heads, Heads]:
        """Three lists of n_head tensors [batch, seq_len, head_dim]."""
        weights = zip(self.w_q, self.w_k, self.w_v, strict=True)
        heads = self.fork.run(partial(_project, x, own) for own in weights)
        q, k, v = (list(of) for of in zip(*heads, strict=True))
        return q, k, v


def _project(x: torch.Tensor, weights: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [x @ w for w in weights]
