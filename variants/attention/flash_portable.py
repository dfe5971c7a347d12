"""attention/flash_portable: a fused tensor-core kernel of our own for compute capability 8.0 and newer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels import flash_portable
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class FlashPortable(Variant):
    """Faster than FlashAttention-2 if an unpadded head_dim and a softmax that waits for no maximum pay off.

    The output is stored as [batch, seq_len, n_head, head_dim].
    """

    stage = "attention"
    name = "flash_portable"
    requires = Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16"))
    no_backward = "our kernel is written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Compile the kernel.

        Raises:
            Unsupported: head_dim is not a multiple of 8 up to 128.
        """
        shape = self.shape
        if reason := flash_portable.refuses(shape.head_dim):
            raise Unsupported(reason)
        dtype, device = weights.w_q.dtype, weights.w_q.device
        flash_portable.compile_for_shape(
            shape.batch * shape.n_head, shape.seq_len, shape.head_dim, shape.causal, dtype, device
        )

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """O [batch, n_head, seq_len, head_dim], a view of [batch, seq_len, n_head, head_dim]."""
        return flash_portable.forward(q, k, v, causal=self.shape.causal)
