"""C1, C3, C4 and C5 without a clock: products counted, a model built and counted, shapes split, derivatives taken."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.lesson.transformer import Sizes, Transformer
from results.claims.lesson import D_MODEL, N_HEAD, N_LAYER
from results.claims.observed import Calls, Dependence, Parameters, RoundTrips
from variants.inputs import make_inputs
from variants.layout import merge_heads, split_heads
from variants.registry import discover
from variants.shape import Shape

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
"""What PyTorch's matrix products come down to, each a call of the BLAS library."""

QKV = ("per_head", "fused", "fused_qkv")
MLP_WIDTH, VOCABULARY, CONTEXT = 4 * D_MODEL, 8449, 1024
"""Assumed, for the lesson does not give them; the context is its model's."""

SHAPES = 200
SEEDS = 3
SMALL = Shape(batch=1, seq_len=6, d_model=24, n_head=4, causal=True)


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the matrix products that run in its block."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let it run, and count it if it is one."""
        del types
        self.count += function.overloadpacket.__name__ in PRODUCTS
        return function(*args, **(kwargs or {}))


def calls() -> list[Calls]:
    """Products of each qkv variant, at the lesson's width and heads and few tokens."""
    shape = Shape(batch=1, seq_len=8, d_model=D_MODEL, n_head=N_HEAD)
    inputs = make_inputs("qkv", shape, 0, torch.device("cpu"))
    registry, counts = discover(), {}
    for name in QKV:
        variant = registry.variants["qkv", name](shape)
        variant.prepare(inputs.weights)
        with Products() as products:  # type: ignore[no-untyped-call]
            variant.call(*inputs.activations)
        counts[name] = products.count
    return [Calls(N_HEAD, counts)]


def parameters() -> list[Parameters]:
    """ANDREA-120M built without storage, its parameters counted where they are."""
    sizes = Sizes(D_MODEL, N_HEAD, N_LAYER, MLP_WIDTH, VOCABULARY, CONTEXT)
    with torch.device("meta"):
        model = Transformer(sizes)
    counts = dict.fromkeys(("attention", "mlp", "embeddings"), 0)
    for name, parameter in model.named_parameters():
        part = _part_of(name)
        if part:
            counts[part] += parameter.numel()
    return [Parameters(D_MODEL, N_LAYER, MLP_WIDTH, VOCABULARY, CONTEXT, **counts)]


def _part_of(name: str) -> str | None:
    """Whose parameter it is by its name; norms are nobody's, some 38,000 in all."""
    if ".attention." in name:
        return "attention"
    if ".up." in name or ".down." in name:
        return "mlp"
    return "embeddings" if name.startswith(("tokens.", "positions.")) else None


def round_trips(seed: int = 0) -> list[RoundTrips]:
    """Random shapes, sizes of one among them; every value of a tensor is another, so that none can hide."""
    draw = random.Random(seed)
    changed = scrambled = 0
    for _ in range(SHAPES):
        batch, seq_len, n_head, head_dim = (draw.choice((1, 2, draw.randint(1, 40))) for _ in range(4))
        features = torch.arange(batch * seq_len * n_head * head_dim).view(batch, seq_len, -1)
        heads = split_heads(features, n_head)
        stored = heads.contiguous()
        back = torch.equal(merge_heads(heads), features) and torch.equal(merge_heads(stored), features)
        again = torch.equal(split_heads(merge_heads(stored), n_head), stored)
        changed += not (back and again)
        scrambled += not torch.equal(features.reshape(batch, n_head, seq_len, head_dim), heads)
    return [RoundTrips(seed, SHAPES, changed, scrambled)]


def dependence() -> list[Dependence]:
    """For each seed, derivatives of all features by the heads' Q, K and V, in float64."""
    return [_dependence(seed) for seed in range(SEEDS)]


def _dependence(seed: int) -> Dependence:
    shape, generator = SMALL, torch.Generator().manual_seed(seed)
    sizes = (3, shape.batch, shape.n_head, shape.seq_len, shape.head_dim)
    qkv = torch.randn(sizes, generator=generator, dtype=torch.float64, requires_grad=True)
    w_o = torch.randn(shape.d_model, shape.d_model, generator=generator, dtype=torch.float64)
    heads = torch.nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=shape.causal)
    apart = _by_head(merge_heads(heads), qkv, generator)
    mixed = _by_head(merge_heads(heads) @ w_o, qkv, generator)
    own = torch.eye(shape.n_head, dtype=torch.bool).repeat_interleave(shape.head_dim, dim=0)
    return Dependence(
        seed=seed,
        n_head=shape.n_head,
        head_dim=shape.head_dim,
        own_least=apart[own].min().item(),
        others_largest=apart[~own].max().item(),
        mixed_least=mixed.min().item(),
        mixed_median=mixed.median().item(),
    )


def _by_head(features: torch.Tensor, qkv: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """[d_model, n_head]: the norm of each feature's derivative by each head's Q, K and V.

    A feature is summed over its tokens with random weights, so that no two of them cancel.
    """
    weights = torch.randn(features.shape[:2], generator=generator, dtype=features.dtype)
    rows = []
    for feature in range(features.shape[-1]):
        (gradient,) = torch.autograd.grad((features[..., feature] * weights).sum(), qkv, retain_graph=True)
        rows.append(gradient.transpose(0, 2).flatten(1).norm(dim=1))
    return torch.stack(rows)
