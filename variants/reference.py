"""What every variant's output is compared with: the plain formulas in float64, a bounded block at a time.

Nothing here is fast. No seq_len × seq_len matrix and no float64 copy of a whole activation ever exists, so
that verification fits wherever the case itself does. Results are stored as float64 on a CPU and, to spare
the GPU's memory, as float32 on CUDA: still far finer than any dtype that is measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from variants.blocks import blocks, matmul, per_block, stored
from variants.layout import merge_heads, split_heads
from variants.stage import STAGES

if TYPE_CHECKING:
    from variants.inputs import Inputs, Weights
    from variants.shape import Shape


def reference(stage: str, shape: Shape, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """The stage's canonical outputs (see `Variant.canonical`), computed in float64 on the inputs' device.

    Raises:
        ValueError: the stage is unknown.
    """
    with torch.inference_mode():
        match stage:
            case "qkv":
                return qkv(shape, inputs.activations[0], inputs.weights)
            case "split":
                return _split(inputs.activations[0])
            case "attention":
                return (attention(shape, *inputs.activations),)
            case "output":
                return (_output(inputs.activations[0], inputs.weights),)
            case "sublayer":
                return (sublayer(shape, inputs.activations[0], inputs.weights),)
            case "stack":
                return (_stack(shape, inputs.activations[0], inputs.weights),)
            case _:
                raise ValueError(f"stage {stage!r} has no reference: {', '.join(STAGES)} have")


def qkv(shape: Shape, x: torch.Tensor, weights: Weights) -> tuple[torch.Tensor, ...]:
    """Q, K, V, each [batch, n_head, seq_len, head_dim], a view of [batch, seq_len, d_model]."""
    projected = (matmul(x, w) for w in (weights.w_q, weights.w_k, weights.w_v))
    return tuple(split_heads(y, shape.n_head) for y in projected)


def _split(projected: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Q, K, V, each [batch, n_head, seq_len, head_dim], from all three [batch, seq_len, 3, n_head, head_dim]."""
    return tuple(part.transpose(1, 2).to(stored(projected), copy=True) for part in projected.unbind(2))


def attention(shape: Shape, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """O [batch, n_head, seq_len, head_dim]: one head of a few sequences at once, queries in blocks."""
    out = torch.empty(q.shape, dtype=stored(q), device=q.device)
    # Scores, exponentials and probabilities live at once; a long head does not fit and is cut by queries too.
    sequences = min(shape.batch, per_block(3 * shape.seq_len * max(shape.seq_len, shape.head_dim)))
    queries = per_block(3 * sequences * shape.seq_len)
    for head in range(shape.n_head):
        for first, last in blocks(shape.batch, sequences):
            keys, values = k[first:last, head].double(), v[first:last, head].double()
            for start, stop in blocks(shape.seq_len, queries):
                block = q[first:last, head, start:stop].double()
                out[first:last, head, start:stop] = _attend(block, keys, values, start, shape.causal)
    return out


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int, causal: bool) -> torch.Tensor:
    """Queries [sequences, rows, head_dim] from position `start` on, over all keys, or those up to each."""
    if causal:
        seen = start + q.shape[1]
        k, v = k[:, :seen], v[:, :seen]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu_(start + 1)
        scores.masked_fill_(later, -math.inf)
    return scores.softmax(-1) @ v


def _output(heads: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Y [batch, seq_len, d_model] from O [batch, n_head, seq_len, head_dim]."""
    return matmul(merge_heads(heads), weights.w_o)


def sublayer(shape: Shape, x: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Y [batch, seq_len, d_model], a few whole sequences at a time."""
    out = torch.empty(x.shape, dtype=stored(x), device=x.device)
    # X, Q, K, V, O, O again in rows, and Y.
    for start, stop in blocks(shape.batch, per_block(7 * shape.seq_len * shape.d_model)):
        q, k, v = qkv(shape, x[start:stop], weights)
        out[start:stop] = _output(attention(shape, q, k, v), weights)
    return out


def _stack(shape: Shape, x: torch.Tensor, weights: Weights) -> torch.Tensor:
    """X after n_layer sublayers, each added to what it was given."""
    y = x.to(stored(x), copy=True)
    for layer in weights.layers:
        y += sublayer(shape, y, layer)
    return y
