"""The base of stacks: a sublayer's variant, once for each layer's weights, with residuals between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from variants.variant import Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Repeated(Variant):
    """A stack of one variant of the sublayer; a subclass names it, and needs what it needs."""

    stage = "stack"
    layer: ClassVar[type[Variant]]

    def prepare(self, weights: Weights) -> None:
        """Each layer prepares its own weights.

        Raises:
            Unsupported: the sublayer cannot compute this shape.
        """
        shape = replace(self.shape, n_layer=1)
        self.layers = [self.layer(shape) for _ in weights.layers]
        for layer, of_layer in zip(self.layers, weights.layers, strict=True):
            layer.prepare(of_layer)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        for layer in self.layers:
            x = x + layer.call(x)
        return x
