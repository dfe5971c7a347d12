"""split/torch_contiguous: one copy each for Q, K and V, by PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.variant import Variant

if TYPE_CHECKING:
    import torch


class TorchContiguous(Variant):
    """What users write: three launches, and less than a plain copy's bandwidth if strides cost any."""

    stage = "split"
    name = "torch_contiguous"

    def call(self, projected: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim], contiguous."""
        return tuple(part.transpose(1, 2).contiguous() for part in projected.unbind(2))
