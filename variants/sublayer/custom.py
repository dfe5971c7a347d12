"""sublayer/custom: one fused projection, our own attention on strided views of it, the output matmul: no relayout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels import flash_hopper, flash_portable
from variants.layout import merge_heads, split_heads
from variants.variant import Requires, Unsupported, Variant

if TYPE_CHECKING:
    from variants.inputs import Weights


class Custom(Variant):
    """Faster than fused_sdpa by what our attention is faster, if nothing is moved between the three kernels.

    The attention is flash_hopper where the GPU is a Hopper, else flash_portable.
    """

    stage = "sublayer"
    name = "custom"
    requires = Requires(device="cuda", capability=(8, 0), dtypes=("bf16", "fp16"))
    no_backward = "our attention kernels are written for the forward alone"

    def prepare(self, weights: Weights) -> None:
        """Lay W_Q, W_K and W_V side by side, [d_model, 3 · d_model], and compile the attention.

        Raises:
            Unsupported: the attention does not take this head_dim.
        """
        shape = self.shape
        if reason := flash_portable.refuses(shape.head_dim):
            raise Unsupported(reason)
        device = weights.w_q.device
        on_hopper = flash_hopper.refuses(shape.head_dim, device) is None
        self.attention = flash_hopper if on_hopper else flash_portable
        self.w_qkv = torch.cat((weights.w_q, weights.w_k, weights.w_v), dim=1)
        self.w_o = weights.w_o
        self.attention.compile_for_shape(
            shape.batch * shape.n_head,
            shape.seq_len,
            shape.head_dim,
            shape.causal,
            self.w_qkv.dtype,
            device,
        )

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """y [batch, seq_len, d_model]: Q, K and V are views of the projection, O is stored as W_O reads it."""
        q, k, v = (split_heads(y, self.shape.n_head) for y in (x @ self.w_qkv).chunk(3, dim=-1))
        o = self.attention.forward(q, k, v, causal=self.shape.causal)
        return merge_heads(o) @ self.w_o
