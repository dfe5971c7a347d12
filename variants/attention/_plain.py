"""Attention in plain PyTorch operations, as a textbook writes it: the scores are a matrix in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from variants.shape import Shape


def future_mask(shape: Shape, device: torch.device) -> torch.Tensor | None:
    """[seq_len, seq_len], True where a key lies after the query; None if every key may be seen."""
    if not shape.causal:
        return None
    return torch.ones(shape.seq_len, shape.seq_len, dtype=torch.bool, device=device).triu_(1)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, future: torch.Tensor | None) -> torch.Tensor:
    """softmax(q · kᵀ / √head_dim + mask) · v over the last two axes, [..., seq_len, head_dim].

    The scores are kept in the inputs' dtype, and changed in place where that saves memory.
    """
    scores = (q @ k.mT).mul_(1 / math.sqrt(q.shape[-1]))
    if future is not None:
        scores.masked_fill_(future, -math.inf)
    return scores.softmax(-1) @ v
