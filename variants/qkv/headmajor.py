"""qkv/headmajor: one matmul of our own that writes Q, K and V head by head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels import qkv_headmajor
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class Headmajor(Variant):
    """Pays if attention needs its heads contiguous: slower than the library's matmul, faster than that and a transpose.

    The output is one buffer [3, batch, n_head, seq_len, head_dim].
    """

    stage = "qkv"
    name = "headmajor"
    aside = True
    requires = Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16"))
    no_backward = "our kernel is written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Lay W_Q, W_K and W_V side by side, [d_model, 3 · d_model], and compile the kernel.

        Raises:
            Unsupported: head_dim is no multiple of 8.
        """
        if reason := qkv_headmajor.refuses(self.shape.head_dim):
            raise Unsupported(reason)
        self.w_qkv = torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1)
        qkv_headmajor.compile_for_dtype(self.w_qkv.dtype, self.w_qkv.device)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Q, K and V [3, batch, n_head, seq_len, head_dim]."""
        return qkv_headmajor.forward(x, self.w_qkv, self.shape.n_head)

    def canonical(self, output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Q, K and V, each [batch, n_head, seq_len, head_dim]."""
        return output.unbind(0)
