"""split/torch_permute: one copy for Q, K and V together, by PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.variant import Variant

if TYPE_CHECKING:
    import torch


class TorchPermute(Variant):
    """Faster than torch_contiguous by two launches, which counts where the copies are short."""

    stage = "split"
    name = "torch_permute"
    aside = True

    def call(self, projected: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim], contiguous: slices of one tensor."""
        return projected.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
