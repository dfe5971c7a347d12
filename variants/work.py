"""How much work a stage is: useful FLOPs, parameters, elements. Pure formulas of a shape.

A multiply and an add are two FLOPs. Causal attention counts the T(T+1)/2 pairs a token may look at, not T².
Softmax and scaling are not counted: the figures are the matrix work every correct variant must do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from variants.shape import Shape


def attended_pairs(shape: Shape) -> int:
    """(query, key) pairs one head of one sequence must score."""
    t = shape.seq_len
    return t * (t + 1) // 2 if shape.causal else t * t


def qkv_flops(shape: Shape) -> int:
    """Three [tokens, d_model] × [d_model, d_model] products."""
    return 3 * 2 * shape.tokens * shape.d_model**2


def attention_flops(shape: Shape) -> int:
    """QKᵀ and PV: 2 × head_dim each per pair, head and sequence."""
    return 4 * shape.batch * shape.n_head * attended_pairs(shape) * shape.head_dim


def output_flops(shape: Shape) -> int:
    """One [tokens, d_model] × [d_model, d_model] product."""
    return 2 * shape.tokens * shape.d_model**2


def sublayer_flops(shape: Shape) -> int:
    """All five steps."""
    return qkv_flops(shape) + attention_flops(shape) + output_flops(shape)


def stack_flops(shape: Shape) -> int:
    """All five steps of every layer; the residual additions are no matrix work."""
    return shape.n_layer * sublayer_flops(shape)


def no_flops(shape: Shape) -> int:
    """A relayout moves bytes and computes nothing."""
    del shape
    return 0


def qkv_parameters(shape: Shape) -> int:
    """Elements of W_Q, W_K and W_V."""
    return 3 * shape.d_model**2


def no_parameters(shape: Shape) -> int:
    """Neither attention itself nor a relayout has weights."""
    del shape
    return 0


def output_parameters(shape: Shape) -> int:
    """Elements of W_O."""
    return shape.d_model**2


def sublayer_parameters(shape: Shape) -> int:
    """W_Q, W_K, W_V and W_O: 2,359,296 for a d_model of 768."""
    return 4 * shape.d_model**2


def stack_parameters(shape: Shape) -> int:
    """Four weights a layer: 28,311,552 for twelve layers of a d_model of 768."""
    return shape.n_layer * sublayer_parameters(shape)


def activation_elements(shape: Shape) -> int:
    """Elements of one [batch, seq_len, d_model] activation."""
    return shape.tokens * shape.d_model
