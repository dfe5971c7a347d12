"""Variants whose output is right and whose gradients are not, each in one way: verification must catch every one.

A plugin like any other: `--plugin tests/wrong_gradients.py --direction backward` shows what a run does with them.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.layout import split_heads
from variants.variant import Variant


class Scaled(torch.autograd.Function):
    """Leaves a tensor as it is, and its gradient multiplied."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, d_x):
        return d_x * ctx.factor, None


class Attention(Variant):
    """Right, for its subclasses to spoil; without a name it is no variant itself."""

    stage = "attention"

    def call(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal)


class DetachesValues(Attention):
    """Autograd does not see V."""

    name = "wrong_detaches_values"

    def call(self, q, k, v):
        return super().call(q, k, v.detach())


class DetachesItsOutput(Attention):
    """Autograd sees nothing at all."""

    name = "wrong_detaches_its_output"

    def call(self, q, k, v):
        return super().call(q, k, v).detach()


class ScalesQueries(Attention):
    """dQ is 5 % too large."""

    name = "wrong_scales_queries"

    def call(self, q, k, v):
        return super().call(Scaled.apply(q, 1.05), k, v)


class ForgetsTheMaskBackwards(Attention):
    """dK as if every query saw every key."""

    name = "wrong_forgets_the_mask_backwards"

    def call(self, q, k, v):
        out = super().call(q, k.detach(), v)
        every = scaled_dot_product_attention(q.detach(), k, v.detach())
        return out + (every - every.detach())


class LosesARow(Attention):
    """dV of one token is zero."""

    name = "wrong_loses_a_row"

    def call(self, q, k, v):
        factor = torch.ones(v.shape[-2], 1, dtype=v.dtype, device=v.device)
        factor[-1] = 0
        return super().call(q, k, Scaled.apply(v, factor))


class Projections(Variant):
    """Right, for its subclasses to spoil."""

    stage = "qkv"

    def prepare(self, weights):
        self.weights = (weights.w_q, weights.w_k, weights.w_v)

    def call(self, x):
        return tuple(split_heads(x @ w, self.shape.n_head) for w in self.weights)


class DetachesAnOutput(Projections):
    """Autograd does not see Q."""

    name = "wrong_detaches_an_output"

    def call(self, x):
        q, k, v = super().call(x)
        return q.detach(), k, v


class LearnsNothing(Projections):
    """dW_V is zero, as of a gradient that was never computed."""

    name = "wrong_learns_nothing"

    def call(self, x):
        *others, w_v = self.weights
        return tuple(split_heads(x @ w, self.shape.n_head) for w in (*others, Scaled.apply(w_v, 0)))


class DetachesAWeight(Projections):
    """Autograd does not see W_K."""

    name = "wrong_detaches_a_weight"

    def call(self, x):
        w_q, w_k, w_v = self.weights
        return tuple(split_heads(x @ w, self.shape.n_head) for w in (w_q, w_k.detach(), w_v))


class CutsItsWeightsOff(Projections):
    """Parameters of its own, which nothing ties to the weights."""

    name = "wrong_cuts_its_weights_off"

    def prepare(self, weights):
        self.weights = [torch.nn.Parameter(w.clone()) for w in (weights.w_q, weights.w_k, weights.w_v)]


class CopiesAWeight(Projections):
    """A copy of W_Q for every sequence: adding their gradients up is left to others."""

    name = "wrong_copies_a_weight"

    def prepare(self, weights):
        super().prepare(weights)
        self.w_q = weights.w_q.expand(self.shape.batch, -1, -1).contiguous()

    def call(self, x):
        _, w_k, w_v = self.weights
        return tuple(split_heads(y, self.shape.n_head) for y in (x @ self.w_q, x @ w_k, x @ w_v))


class RemembersItsGradient(torch.autograd.Function):
    """Computes dX once, and gives it again whatever comes."""

    @staticmethod
    def forward(ctx, x, kept):
        ctx.kept = kept
        return x.view_as(x)

    @staticmethod
    def backward(ctx, d_x):
        ctx.kept.append(d_x.clone())
        return ctx.kept[0], None


class StaleGradient(Projections):
    """Right once; then the same dX again."""

    name = "wrong_stale_gradient"

    def prepare(self, weights):
        super().prepare(weights)
        self.kept = []

    def call(self, x):
        return super().call(RemembersItsGradient.apply(x, self.kept))
