"""Deliberately wrong variants, each wrong in one way: verification must catch every one.

A plugin like any other: `--plugin tests/wrong_variants.py` shows what a run does with them.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from variants.variant import Variant


class Wrong(Variant):
    """Attention that is right, for its subclasses to spoil; without a name it is no variant itself."""

    stage = "attention"

    def call(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal).contiguous()


class SkipsAHead(Wrong):
    """Never computes the last head."""

    name = "wrong_skips_a_head"

    def call(self, q, k, v):
        out = torch.zeros_like(q)
        out[:, :-1] = super().call(q[:, :-1], k[:, :-1], v[:, :-1])
        return out


class PermutesHeads(Wrong):
    """Every head right, in the place of its neighbour."""

    name = "wrong_permutes_heads"

    def call(self, q, k, v):
        return super().call(q, k, v).roll(1, dims=1)


class ReshapesQkv(Variant):
    """Splits the heads by a reshape alone, without the transpose."""

    stage = "qkv"
    name = "wrong_reshape_without_transpose"

    def prepare(self, weights):
        self.weights = (weights.w_q, weights.w_k, weights.w_v)

    def call(self, x):
        s = self.shape
        return tuple((x @ w).reshape(s.batch, s.n_head, s.seq_len, s.head_dim) for w in self.weights)


class ReshapesOutput(Variant):
    """Concatenates the heads by a reshape alone, without the transpose."""

    stage = "output"
    name = "wrong_reshape_without_transpose"

    def prepare(self, weights):
        self.w_o = weights.w_o

    def call(self, heads):
        s = self.shape
        return heads.reshape(s.batch, s.seq_len, s.d_model) @ self.w_o


class ReshapesSplit(Variant):
    """Makes the heads contiguous by a reshape alone, without the transpose: nothing is moved, so it is fast."""

    stage = "split"
    name = "wrong_reshape_without_transpose"

    def call(self, projected):
        s = self.shape
        parts = (part.contiguous() for part in projected.unbind(2))
        return tuple(part.view(s.batch, s.n_head, s.seq_len, s.head_dim) for part in parts)


class SwapsKAndV(Variant):
    """Right copies, handed out in the wrong order."""

    stage = "split"
    name = "wrong_swaps_k_and_v"

    def call(self, projected):
        q, k, v = (part.transpose(1, 2).contiguous() for part in projected.unbind(2))
        return q, v, k


class ReturnsViews(Variant):
    """The right values, where they were: nothing is moved."""

    stage = "split"
    name = "wrong_returns_views"

    def call(self, projected):
        return tuple(part.transpose(1, 2) for part in projected.unbind(2))


class ReturnsWhatItIsGiven(ReturnsViews):
    """Nothing is called at all; the copies are made where no clock runs."""

    name = "wrong_copies_untimed"

    def call(self, projected):
        return projected

    def canonical(self, output):
        return tuple(view.contiguous() for view in super().call(output))


class Stack(Variant):
    """A stack that is right, for its subclasses to spoil; without a name it is no variant itself."""

    stage = "stack"

    def prepare(self, weights):
        self.layers = weights.layers

    def call(self, x):
        for layer in self.layers:
            x = x + self.sublayer(x, layer)
        return x

    def sublayer(self, x, layer):
        s = self.shape
        q, k, v = (
            (x @ w).view(s.batch, s.seq_len, s.n_head, -1).transpose(1, 2)
            for w in (layer.w_q, layer.w_k, layer.w_v)
        )
        heads = scaled_dot_product_attention(q, k, v, is_causal=s.causal)
        return heads.transpose(1, 2).reshape(x.shape) @ layer.w_o


class SkipsALayer(Stack):
    """Leaves the last layer out."""

    name = "wrong_skips_a_layer"

    def prepare(self, weights):
        self.layers = weights.layers[:-1]


class RepeatsALayer(Stack):
    """Uses the first layer's weights in every layer."""

    name = "wrong_repeats_a_layer"

    def prepare(self, weights):
        self.layers = weights.layers[:1] * len(weights.layers)


class ForgetsTheResidual(Stack):
    """Hands each layer's output alone to the next."""

    name = "wrong_forgets_the_residual"

    def call(self, x):
        for layer in self.layers:
            x = self.sublayer(x, layer)
        return x


class TransposesEachHead(Wrong):
    """Swaps seq_len and head_dim inside each head, which keeps the shape if the two are equal."""

    name = "wrong_transposed_head"

    def call(self, q, k, v):
        return super().call(q, k, v).mT.reshape(q.shape)


class ZeroesARow(Wrong):
    """One query's output is zero."""

    name = "wrong_zeroes_a_row"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        out[-1, -1, -1] = 0
        return out


class ZeroesATile(Wrong):
    """The last 128 rows of the last head are zero, as when one thread block did nothing."""

    name = "wrong_zeroes_a_tile"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        out[-1, -1, -128:] = 0
        return out


class GivesNan(Wrong):
    """One element is NaN."""

    name = "wrong_nan"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        out[0, 0, -1, 0] = torch.nan
        return out


class GivesInfinity(Wrong):
    """One element is infinite."""

    name = "wrong_infinity"

    def call(self, q, k, v):
        out = super().call(q, k, v)
        out[0, 0, -1, 0] = -torch.inf
        return out


class ReturnsItsInput(Wrong):
    """Computes nothing and hands Q back."""

    name = "wrong_returns_its_input"

    def call(self, q, k, v):
        return q


class StaleBuffer(Wrong):
    """Right once; then the same output again, whatever the inputs."""

    name = "wrong_stale_buffer"

    def prepare(self, weights):
        self.first = None

    def call(self, q, k, v):
        if self.first is None:
            self.first = super().call(q, k, v)
        return self.first


class WrongLater(Wrong):
    """Right for the first three calls, then twice what it should be."""

    name = "wrong_later"

    def prepare(self, weights):
        self.calls = 0

    def call(self, q, k, v):
        self.calls += 1
        return super().call(q, k, v) * (1 if self.calls <= 3 else 2)


class LeavesARowUnwritten(Wrong):
    """Never writes the last row of its output, which holds whatever the memory held before."""

    name = "wrong_leaves_a_row_unwritten"

    def call(self, q, k, v):
        out = torch.empty_like(q)
        right = super().call(q, k, v)
        out.view(-1, out.shape[-1])[:-1] = right.view(-1, out.shape[-1])[:-1]
        return out


class ChangesItsInput(Wrong):
    """Right, but scales Q in place on the way: the next call sees another input."""

    name = "wrong_changes_its_input"

    def call(self, q, k, v):
        return scaled_dot_product_attention(
            q.mul_(self.shape.head_dim**-0.5), k, v, is_causal=self.shape.causal, scale=1.0
        )


class MaskOffByOne(Wrong):
    """Each query sees the key after its own."""

    name = "wrong_mask_off_by_one"

    def call(self, q, k, v):
        seen = torch.ones(self.shape.seq_len, self.shape.seq_len, dtype=torch.bool, device=q.device).tril(1)
        return scaled_dot_product_attention(q, k, v, attn_mask=seen)


class ForgetsTheMask(Wrong):
    """Attends to all keys, causal or not."""

    name = "wrong_forgets_the_mask"

    def call(self, q, k, v):
        return scaled_dot_product_attention(q, k, v)


class ForgetsTheScale(Wrong):
    """Scores without the division by √head_dim."""

    name = "wrong_forgets_the_scale"

    def call(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.shape.causal, scale=1.0)


class WrongShape(Wrong):
    """Drops the last query."""

    name = "wrong_shape"

    def call(self, q, k, v):
        return super().call(q, k, v)[:, :, :-1]


class WrongDtype(Wrong):
    """Hands out more precision than was asked for."""

    name = "wrong_dtype"

    def call(self, q, k, v):
        return super().call(q, k, v).double()
