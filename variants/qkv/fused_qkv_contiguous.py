"""qkv/fused_qkv_contiguous: one matmul for Q, K and V together, then each head made contiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING

from variants.qkv.fused_qkv import FusedQkv

if TYPE_CHECKING:
    import torch


class FusedQkvContiguous(FusedQkv):
    """What contiguous heads cost: fused_qkv and one copy of its whole output, which attention would have to repay.

    The output is one buffer [3, batch, n_head, seq_len, head_dim].
    """

    name = "fused_qkv_contiguous"
    aside = True

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Q, K and V in one tensor [3, batch, n_head, seq_len, head_dim]."""
        features = super().call(x)
        heads = features.view(*features.shape[:2], 3, self.shape.n_head, self.shape.head_dim)
        return heads.permute(2, 0, 3, 1, 4).contiguous()

    def canonical(self, output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim]."""
        return output.unbind(0)
