"""Attention in plain PyTorch operations, as a textbook writes it: the scores are a matrix in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

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
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        scores: torch.Tensor = _Scores.apply(q, k)  # type: ignore[no-untyped-call]
        return scores
    return _wide(q, k.mT)


class _Scores(torch.autograd.Function):
    """`_wide(q, k.mT)` with the derivative that PyTorch lacks: dS is narrowed first, as in every fused kernel."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """[heads, seq_len, seq_len] in float32."""
        ctx.save_for_backward(q, k)
        return _wide(q, k.mT)

    @staticmethod
    def backward(ctx: Any, *d_scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """dq and dk, both [heads, seq_len, head_dim]."""
        q, k = ctx.saved_tensors
        narrow = d_scores[0].to(q.dtype)
        return narrow @ k, narrow.mT @ q


def _wide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a · b in float32."""
    if a.is_cuda:
        return torch.bmm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()  # PyTorch has a narrow matmul with a wide output on CUDA only
