"""attention/flash_hopper: a fused kernel of our own with Hopper's asynchronous copies and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels import flash_hopper
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class FlashHopper(Variant):
    """Faster than the libraries if an unpadded head_dim and a softmax without a maximum keep the tensor cores busy.

    The output is stored as [batch, seq_len, n_head, head_dim].
    """

    stage = "attention"
    name = "flash_hopper"
    requires = Requires(device="cuda", capability=(9, 0), dtypes=("bf16", "fp16"))
    no_backward = "our kernel is written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Compile the kernel.

        Raises:
            Unsupported: head_dim is not a multiple of 8 up to 128, or the GPU is newer than Hopper.
        """
        shape, dtype, device = self.shape, weights.w_q.dtype, weights.w_q.device
        if reason := flash_hopper.refuses(shape.head_dim, device):
            raise Unsupported(reason)
        flash_hopper.compile_for_shape(
            shape.batch * shape.n_head, shape.seq_len, shape.head_dim, shape.causal, dtype, device
        )

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], a view of [batch, seq_len, n_head, head_dim]."""
        return flash_hopper.forward(q, k, v, causal=self.shape.causal)
