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
    """softmax(q · kᵀ / √head_dim + mask) · v for each of several heads: all [heads, seq_len, head_dim].

    Scores and softmax are float32, as in every fused kernel: rounded to bf16, the scores alone put a row's
    output off by 2 to 4 %, more than verification allows.
    """
    scores = _scores(q, k).mul_(1 / math.sqrt(q.shape[-1]))
    if future is not None:
        scores.masked_fill_(future, -math.inf)
    return scores.softmax(-1).to(v.dtype) @ v


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """q · kᵀ [heads, seq_len, seq_len] in float32."""
    if q.is_cuda:
        return torch.bmm(q, k.mT, out_dtype=torch.float32)
    return q.float() @ k.float().mT  # PyTorch has a narrow matmul with a wide output on CUDA only
