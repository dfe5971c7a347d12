"""The relayouts that variants share: splitting features into heads, and weights into one matrix per head."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def split_heads(features: torch.Tensor, n_head: int) -> torch.Tensor:
    """[batch, seq_len, d_model] seen as [batch, n_head, seq_len, head_dim]: a view, the heads a stride.

    Reshaping alone, without the transpose, would hand each head a slice of the sequence instead.
    """
    batch, seq_len, _ = features.shape
    return features.view(batch, seq_len, n_head, -1).transpose(1, 2)


def merge_heads(heads: torch.Tensor) -> torch.Tensor:
    """[batch, n_head, seq_len, head_dim] as [batch, seq_len, d_model]: a view if strides allow, or a copy."""
    return heads.transpose(1, 2).flatten(2)


def columns_per_head(weight: torch.Tensor, n_head: int) -> list[torch.Tensor]:
    """W_Q, W_K or W_V [d_model, d_model] as n_head contiguous matrices [d_model, head_dim]."""
    return [columns.contiguous() for columns in weight.chunk(n_head, dim=1)]


def rows_per_head(weight: torch.Tensor, n_head: int) -> list[torch.Tensor]:
    """W_O [d_model, d_model] as n_head contiguous matrices [head_dim, d_model]."""
    return [rows.contiguous() for rows in weight.chunk(n_head, dim=0)]
