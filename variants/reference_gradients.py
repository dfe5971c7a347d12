"""What every variant's gradients are compared with: the chain rule in float64, a bounded block at a time.

As for outputs (`reference.py`), no seq_len × seq_len matrix and no float64 copy of a whole activation ever exists. A
stage adds its backward in one place: a function here, named in `_OF_STAGE`, and its names in `Stage.gradients`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from variants.blocks import blocks, matmul, per_block, stored
from variants.inputs import learned
from variants.layout import merge_heads, split_heads
from variants.reference import attention, qkv, sublayer
from variants.stage import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from variants.inputs import Inputs, Weights
    from variants.shape import Shape


@dataclass(frozen=True, slots=True)
class Gradient:
    """The right gradient of one tensor, in its shape.

    `row_scale`, [..., rows], is what a row's error is held against where that is more than the row itself: a row
    of dQ or dK is a sum of small differences of larger terms, dS = P · (dP − D), and an arithmetic that rounds
    those terms is off by a share of them, not of what is left. In a sequence of one token nothing is left. In a
    sublayer a row of dW_O stands for one feature of O, which may be far smaller than the terms it is a sum of.
    """

    name: str
    value: torch.Tensor
    row_scale: torch.Tensor | None = None


WithScale = tuple[torch.Tensor, torch.Tensor | None]
"""A gradient and its `row_scale`, squared."""


def reference_gradients(stage: str, shape: Shape, inputs: Inputs) -> tuple[Gradient, ...]:
    """dX (or dQ, dK, dV; dO) and dW of `inputs.output_gradients`, named and in the order of `Stage.gradients`.

    Raises:
        ValueError: the stage has none.
    """
    if stage not in _OF_STAGE:
        raise ValueError(f"stage {stage!r} has no reference gradients: {', '.join(_OF_STAGE)} have")
    with torch.inference_mode():
        found = _OF_STAGE[stage](shape, inputs)
        return tuple(
            Gradient(name, value, scale if scale is None else scale.sqrt())
            for name, (value, scale) in zip(_names(stage, shape), found, strict=True)
        )


def _names(stage: str, shape: Shape) -> tuple[str, ...]:
    """Those of the stage, the weights' for each layer of a deep one."""
    names = STAGES[stage].gradients
    if not STAGES[stage].deep:
        return names
    return (names[0], *(f"{name} of layer {n + 1}" for n in range(shape.n_layer) for name in names[1:]))


def _qkv_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dX = Σ dY · Wᵀ and dW = Xᵀ · dY, dY each of dQ, dK and dV [batch, n_head, seq_len, head_dim]."""
    del shape
    x, weights = inputs.activations[0], learned("qkv", inputs.weights)
    d_x, d_weights = torch.zeros(x.shape, dtype=stored(x), device=x.device), []
    for d_heads, w in zip(inputs.output_gradients, weights, strict=True):
        d_y = merge_heads(d_heads)
        d_x += matmul(d_y, w.T)
        d_weights.append((_of_weight(x, d_y), None))
    return (d_x, None), *d_weights


def _split_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dQ, dK and dV [batch, n_head, seq_len, head_dim] side by side again, [batch, seq_len, 3, n_head, head_dim]."""
    del shape
    parts = [d.transpose(1, 2).to(stored(d)) for d in inputs.output_gradients]
    return ((torch.stack(parts, dim=2), None),)


def _attention_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dQ, dK and dV [batch, n_head, seq_len, head_dim]."""
    q, k, v = inputs.activations
    return attention_backward(q, k, v, inputs.output_gradients[0], causal=shape.causal)


def attention_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_o: torch.Tensor, *, causal: bool
) -> tuple[WithScale, WithScale, WithScale]:
    """dQ, dK and dV, all [batch, n_head, seq_len, head_dim]: one head of a few sequences at once, queries in blocks."""
    batch, n_head, seq_len, head_dim = q.shape
    d_q, d_k, d_v = (torch.zeros(q.shape, dtype=stored(q), device=q.device) for _ in range(3))
    s_q, s_k = (torch.zeros(q.shape[:-1], dtype=stored(q), device=q.device) for _ in range(2))
    # Scores, P, dP, dS and their squares live at once.
    sequences = min(batch, per_block(6 * seq_len * max(seq_len, head_dim)))
    queries = per_block(6 * sequences * seq_len)
    for head in range(n_head):
        for first, last in blocks(batch, sequences):
            keys, values = k[first:last, head].double(), v[first:last, head].double()
            sums = [torch.zeros_like(keys), torch.zeros_like(keys), torch.zeros_like(keys[..., 0])]
            for start, stop in blocks(seq_len, queries):
                rows = (slice(first, last), head, slice(start, stop))
                found = _attend_backward(q[rows].double(), keys, values, d_o[rows].double(), start, causal)
                d_q[rows], s_q[rows] = found[:2]
                for total, part in zip(sums, found[2:], strict=True):
                    total[:, : part.shape[1]] += part
            for whole, total in zip((d_k, d_v, s_k), sums, strict=True):
                whole[first:last, head] = total
    return (d_q, s_q), (d_k, s_k), (d_v, None)


def _attend_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, d_o: torch.Tensor, start: int, causal: bool
) -> tuple[torch.Tensor, ...]:
    """Of queries from position `start` on, [sequences, rows, head_dim]: dQ and its squared row scale, and what they
    add to dK, to dV and to dK's squared row scale, for the keys that any of them sees."""
    if causal:
        seen = start + q.shape[1]
        k, v = k[:, :seen], v[:, :seen]
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.mT * scale
    if causal:
        later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu_(start + 1)
        scores.masked_fill_(later, -math.inf)
    p = scores.softmax(-1)
    d_p = d_o @ v.mT
    terms = d_o * (p @ v)  # dO · O, whose sum over a row is D
    d_s = p * (d_p - terms.sum(-1, keepdim=True)) * scale
    # What dS would be if nothing cancelled, squared: the terms' rounding errors add up like random numbers.
    s_s = (p * scale).square() * (d_p.square() + terms.square().sum(-1, keepdim=True))
    s_q, s_k = (s_s @ _squared(k)[..., None]).squeeze(-1), (s_s.mT @ _squared(q)[..., None]).squeeze(-1)
    return d_s @ k, s_q, d_s.mT @ q, p.mT @ d_o, s_k


def _output_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dO [batch, n_head, seq_len, head_dim] and dW_O."""
    (heads,), (d_y,), w_o = inputs.activations, inputs.output_gradients, inputs.weights.w_o
    return (split_heads(matmul(d_y, w_o.T), shape.n_head), None), (_of_weight(merge_heads(heads), d_y), None)


def _sublayer_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dX, dW_Q, dW_K, dW_V and dW_O."""
    return _layer_backward(shape, inputs.activations[0], inputs.weights, inputs.output_gradients[0])


def _stack_gradients(shape: Shape, inputs: Inputs) -> tuple[WithScale, ...]:
    """dX, then dW_Q, dW_K, dW_V and dW_O of each layer; what every layer is given is kept."""
    x, given = inputs.activations[0], []
    d_y = inputs.output_gradients[0].to(stored(x), copy=True)
    y = x.to(stored(x), copy=True)
    for weights in inputs.weights.layers:
        given.append(y.clone())
        y += sublayer(shape, y, weights)
    of_layers: list[tuple[WithScale, ...]] = []
    for weights in reversed(inputs.weights.layers):
        (d_x, _), *of_weights = _layer_backward(shape, given.pop(), weights, d_y, rounded=bool(given))
        d_y += d_x
        of_layers.insert(0, tuple(of_weights))
    return (d_y, None), *(found for of_layer in of_layers for found in of_layer)


def _layer_backward(
    shape: Shape, x: torch.Tensor, weights: Weights, d_y: torch.Tensor, *, rounded: bool = False
) -> tuple[WithScale, ...]:
    """dX, dW_Q, dW_K, dW_V and dW_O of a sublayer, a few whole sequences at a time.

    Of an X that layers before it have `rounded` a small feature is as far off as any of its row.
    """
    w_q, w_k, w_v, w_o = weights.w_q, weights.w_k, weights.w_v, weights.w_o
    d_x = torch.zeros(x.shape, dtype=stored(x), device=x.device)
    d_w = [torch.zeros(w.shape, dtype=torch.float64, device=w.device) for w in (w_q, w_k, w_v, w_o)]
    scales = [torch.zeros(w.shape[0], dtype=torch.float64, device=w.device) for w in (w_q, w_k, w_v, w_o)]
    # X and its squares, Q, K, V and O, the gradients of the last four, O again in rows and its squares.
    for start, stop in blocks(shape.batch, per_block(12 * shape.seq_len * shape.d_model)):
        part, d_part = x[start:stop], d_y[start:stop]
        q, k, v = qkv(shape, part, weights)
        o = merge_heads(attention(shape, q, k, v))
        d_w[3] += _of_weight(o, d_part)
        scales[3] += _squares(o, rounded=True).T @ _squared(d_part.double()).flatten()
        d_o = split_heads(matmul(d_part, w_o.T), shape.n_head)
        squares = _squares(part, rounded=rounded)
        for at, (w, (d_heads, scale)) in enumerate(
            zip((w_q, w_k, w_v), attention_backward(q, k, v, d_o, causal=shape.causal), strict=True)
        ):
            d_rows = merge_heads(d_heads)
            d_x[start:stop] += matmul(d_rows, w.T)
            d_w[at] += _of_weight(part, d_rows)
            terms = _squared(d_rows.double()) if scale is None else scale.double().sum(1)
            scales[at] += squares.T @ terms.flatten()
    return (d_x, None), *zip(d_w, scales, strict=True)


def _squares(x: torch.Tensor, *, rounded: bool) -> torch.Tensor:
    """x² [tokens, features]; of what is `rounded`, no less than the mean of its row."""
    squares = x.double().square().flatten(0, -2)
    return torch.maximum(squares, squares.mean(-1, keepdim=True)) if rounded else squares


def _of_weight(x: torch.Tensor, d_y: torch.Tensor) -> torch.Tensor:
    """dW = xᵀ · dy in float64, both [batch, seq_len, features], rows in blocks."""
    rows, d_rows = x.flatten(0, -2), d_y.flatten(0, -2)
    total = torch.zeros(rows.shape[1], d_rows.shape[1], dtype=torch.float64, device=x.device)
    for start, stop in blocks(rows.shape[0], per_block(rows.shape[1] + d_rows.shape[1])):
        total += rows[start:stop].double().T @ d_rows[start:stop].double()
    return total


def _squared(rows: torch.Tensor) -> torch.Tensor:
    """‖row‖², the last axis gone."""
    return rows.square().sum(-1)


_OF_STAGE: dict[str, Callable[[Shape, Inputs], tuple[WithScale, ...]]] = {
    "qkv": _qkv_gradients,
    "split": _split_gradients,
    "attention": _attention_gradients,
    "output": _output_gradients,
    "sublayer": _sublayer_gradients,
    "stack": _stack_gradients,
}
