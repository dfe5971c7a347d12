"""qkv/compiled: fused, as torch.compile makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.compiling import compiled
from variants.inputs import blank_activations
from variants.qkv.fused import Fused, Projections

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Compiled(Fused):
    """As fast as fused_qkv if the compiler sees that three matmuls share X; else fused, and checks before each call."""

    name = "compiled"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Compile the three matmuls.

        Raises:
            Unsupported: they cannot be compiled here.
        """
        super().prepare(weights)
        w = weights.w_q
        (x,) = blank_activations(self.stage, self.shape, self.arrives, w.device, gradients=w.requires_grad)
        self.project = compiled(_project, x, weights.w_q, weights.w_k, weights.w_v)

    def call(self, x: torch.Tensor) -> Projections:
        """Q, K, V, each [batch, seq_len, d_model]."""
        weights = self.weights
        q, k, v = self.project(x, weights.w_q, weights.w_k, weights.w_v)
        return q, k, v


def _project(x: torch.Tensor, w_q: torch.Tensor, w_k: torch.Tensor, w_v: torch.Tensor) -> Projections:
    return x @ w_q, x @ w_k, x @ w_v
