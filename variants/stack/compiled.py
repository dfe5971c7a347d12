"""stack/compiled: fused_sdpa's layer with its residual, as torch.compile makes it, once for all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.compiling import compiled
from variants.inputs import blank_activations
from variants.sublayer.compiled import sublayer
from variants.sublayer.fused_sdpa import FusedSdpa
from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Compiled(Variant):
    """Faster than fused_sdpa by n_layer additions, if the compiler makes the residual part of the last matmul.

    Compiled is the layer and not the stack, as PyTorch advises where blocks repeat: the code is the same for all of
    them, and compiling takes a model's time only once.
    """

    stage = "stack"
    name = "compiled"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Arrange every layer's weights and compile one layer.

        Raises:
            Unsupported: it cannot be compiled here.
        """
        self.weights = []
        for of_layer in weights.layers:
            layer = FusedSdpa(self.shape)
            layer.prepare(of_layer)
            self.weights.append((layer.w_qkv, layer.w_o))
        w = weights.w_q
        (x,) = blank_activations(self.stage, self.shape, self.arrives, w.device, gradients=w.requires_grad)
        self.compute = compiled(_layer, x, *self.weights[0], self.shape.n_head, self.shape.causal)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        n_head, causal = self.shape.n_head, self.shape.causal
        for w_qkv, w_o in self.weights:
            x = self.compute(x, w_qkv, w_o, n_head, causal)
        return x


def _layer(
    x: torch.Tensor, w_qkv: torch.Tensor, w_o: torch.Tensor, n_head: int, causal: bool
) -> torch.Tensor:
    return x + sublayer(x, w_qkv, w_o, n_head, causal)
