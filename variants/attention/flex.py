"""attention/flex: PyTorch's flex_attention, compiled for the shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from variants.compiling import compiled
from variants.inputs import blank_activations
from variants.variant import Unsupported, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class Flex(Variant):
    """Near the hand-written kernels if a compiler can write a fused one; blocks that the mask empties are skipped."""

    stage = "attention"
    name = "flex"
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Build the block mask, and compile the kernel for it.

        Raises:
            Unsupported: it cannot be compiled here, or not for gradients.
        """
        from torch.nn.attention.flex_attention import create_block_mask

        seq_len, device, gradients = self.shape.seq_len, weights.w_q.device, weights.w_q.requires_grad
        if gradients and device.type == "cpu":
            raise Unsupported("PyTorch's flex_attention has no backward on a CPU")
        self.mask: Any = None
        if self.shape.causal:
            self.mask = create_block_mask(_is_seen, None, None, seq_len, seq_len, device=str(device))
        blank = blank_activations(self.stage, self.shape, self.arrives, device, gradients=gradients)
        self.attend = compiled(_attend, *blank, self.mask)

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim]."""
        out: torch.Tensor = self.attend(q, k, v, self.mask)
        return out


def _is_seen(batch: object, head: object, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    del batch, head
    return query >= key


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v, block_mask=mask)
