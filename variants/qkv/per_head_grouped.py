"""qkv/per_head_grouped: all heads of Q, K and V in one grouped GEMM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import grouped_mm

from variants.qkv.per_head_batched import PerHeadBatched
from variants.variant import Requires, Unsupported

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights

_ALIGNED = 8
"""bf16 elements in the 16 bytes that each row must be a multiple of."""


class PerHeadGrouped(PerHeadBatched):
    """Faster than per_head_batched if one kernel that deals out all heads' tiles fills the GPU better than a batch.

    PyTorch's grouped GEMM, made for mixtures of experts; on a GPU other than Hopper and its datacentre successor it
    is a loop of matmuls, which is per_head_batched or per_head under another name.
    """

    name = "per_head_grouped"
    requires = Requires(device="cuda", capability=(9, 0), dtypes=("bf16",))

    def prepare(self, weights: Weights) -> None:
        """Stack the heads of W_Q, W_K and W_V: [3 · n_head, d_model, head_dim].

        Raises:
            Unsupported: a row is no multiple of 16 bytes.
        """
        if self.shape.head_dim % _ALIGNED:  # d_model is a multiple of it
            raise Unsupported(
                f"a grouped GEMM takes rows of a multiple of 16 bytes: head_dim {self.shape.head_dim} would have to be "
                f"a multiple of {_ALIGNED}"
            )
        super().prepare(weights)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Q, K and V [3 · n_head, batch · seq_len, head_dim]."""
        return grouped_mm(x.flatten(0, 1).expand(len(self.w), -1, -1), self.w)
