"""A decoder of the GPT kind, as small or as large as asked: what C3 counts and C6 and C7 train.

Pre-norm blocks of causal attention and a two-matrix MLP, learnt positions, a head tied to the token embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import gelu

from variants.layout import merge_heads, split_heads


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts; n_head divides d_model."""

    d_model: int
    n_head: int
    n_layer: int
    mlp_width: int
    vocabulary: int
    context: int


class Attention(nn.Module):
    """The lesson's five steps; weights without biases."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        d_model = sizes.d_model
        self.n_head = sizes.n_head
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Y [batch, seq_len, d_model], and where each head looked, [batch, n_head, queries, keys]."""
        q, k, v = (split_heads(w(x), self.n_head) for w in (self.w_q, self.w_k, self.w_v))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later, -torch.inf)
        looks = scores.softmax(-1)
        return self.w_o(merge_heads(looks @ v)), looks

    def head(self, index: int) -> list[tuple[torch.Tensor, tuple[slice, slice]]]:
        """The slices of the four weights that belong to one head: rows of the first three, columns of W_O.

        `nn.Linear` stores its matrix transposed.
        """
        width = self.w_q.weight.shape[0] // self.n_head
        own = slice(index * width, (index + 1) * width)
        whole = slice(None)
        rows = [(w.weight, (own, whole)) for w in (self.w_q, self.w_k, self.w_v)]
        return [*rows, (self.w_o.weight, (whole, own))]


class Block(nn.Module):
    """Attention, then the MLP, each added to what it is given."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention = Attention(sizes)
        self.before, self.between = nn.LayerNorm(sizes.d_model), nn.LayerNorm(sizes.d_model)
        self.up = nn.Linear(sizes.d_model, sizes.mlp_width, bias=False)
        self.down = nn.Linear(sizes.mlp_width, sizes.d_model, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Attention.forward`."""
        y, looks = self.attention(self.before(x))
        x = x + y
        return x + self.down(gelu(self.up(self.between(x)))), looks


class Transformer(nn.Module):
    """Tokens [batch, seq_len, parts], each embedded as the sum of its parts, to logits [batch, seq_len, vocabulary]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.d_model)
        self.positions = nn.Embedding(sizes.context, sizes.d_model)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.n_layer))
        self.norm = nn.LayerNorm(sizes.d_model)
        # PyTorch's own start, N(0, 1), is for embeddings that are no output matrix: its logits begin far off.
        nn.init.normal_(self.tokens.weight, std=sizes.d_model**-0.5)
        nn.init.normal_(self.positions.weight, std=sizes.d_model**-0.5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The logits, and where the heads of each layer looked."""
        x = self.tokens(tokens).sum(-2) + self.positions.weight[: tokens.shape[1]]
        looks = []
        for block in self.blocks:
            x, looked = block(x)
            looks.append(looked)
        return self.norm(x) @ self.tokens.weight.T, looks

    def attentions(self) -> list[Attention]:
        """The attention of every layer."""
        return [module for module in self.modules() if isinstance(module, Attention)]
