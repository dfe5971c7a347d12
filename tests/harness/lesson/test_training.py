"""The small transformer: right attention, heads scored where they look, clones that are clones, seeds that repeat."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from harness.lesson import training
from harness.lesson.sequences import VOCABULARY
from harness.lesson.transformer import Attention, Sizes, Transformer
from variants.layout import merge_heads, split_heads

SIZES = Sizes(d_model=8, n_head=4, n_layer=2, mlp_width=16, vocabulary=VOCABULARY, context=training.LENGTH)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_attention_is_pytorchs() -> None:
    attention, x = Attention(SIZES), torch.randn(3, 7, 8)
    y, looks = attention(x)
    q, k, v = (split_heads(w(x), 4) for w in (attention.w_q, attention.w_k, attention.w_v))
    expected = attention.w_o(merge_heads(scaled_dot_product_attention(q, k, v, is_causal=True)))
    assert torch.allclose(y, expected, atol=1e-6)
    assert torch.allclose(looks.sum(-1), torch.ones(3, 4, 7))
    assert looks.triu(1).abs().max() == 0, "nobody looks ahead"


def test_no_position_sees_what_comes_after_it() -> None:
    model, tokens = Transformer(SIZES), torch.randint(VOCABULARY, (1, 12))
    other = tokens.clone()
    other[:, 6:] = (other[:, 6:] + 1) % VOCABULARY
    assert torch.equal(model(tokens)[0][:, :6], model(other)[0][:, :6])


def test_a_heads_slices_are_all_that_it_is_made_of() -> None:
    attention, x = Attention(SIZES), torch.randn(2, 5, 8)
    before = attention(x)[1]
    with torch.no_grad():
        for weight, own in attention.head(2):
            weight[own] = 0
    after = attention(x)[1]
    assert not torch.equal(before[:, 2], after[:, 2])
    assert torch.equal(before[:, [0, 1, 3]], after[:, [0, 1, 3]])
    assert sum(weight[own].numel() for weight, own in attention.head(2)) == 4 * 8 * 2


class Staring(torch.nn.Module):
    """A model of one head that looks where a function of the tokens says."""

    def __init__(self, where) -> None:
        super().__init__()
        self.where = where

    def forward(self, tokens):
        wanted = self.where(tokens)
        looks = torch.zeros(*tokens.shape, tokens.shape[1]).scatter_(2, wanted.unsqueeze(-1), 1.0)
        return None, [looks.unsqueeze(1)]


def before(tokens):
    return (torch.arange(tokens.shape[1]) - 1).clamp_min(0).expand_as(tokens)


def test_heads_are_scored_by_where_they_look() -> None:
    data = training.make_data(0)
    matches = {
        tuple(t.tolist()): i
        for t, i in zip(data.held_brackets.tokens, data.held_brackets.innermost, strict=True)
    }

    def innermost(tokens):
        wholes = [whole for whole in matches if whole[:-1] in {tuple(t.tolist()) for t in tokens}]
        by_start = {whole[:-1]: matches[whole][:-1] for whole in wholes}
        rows = [by_start.get(tuple(t.tolist()), torch.zeros(len(t), dtype=torch.long)) for t in tokens]
        return torch.stack(rows).clamp_min(0)

    previous, matching = training.looks(Staring(before), data)
    assert previous == 1
    assert matching < 0.7, "always looking at the neighbour is no matching"
    previous, matching = training.looks(Staring(innermost), data)
    assert matching == 1
    assert previous < 0.2


def test_a_clone_gets_its_twins_gradients_and_half_as_much_is_a_log_of_two() -> None:
    model, data = Transformer(replace(SIZES, d_model=training.WIDTH)), training.make_data(0)
    for attention in model.attentions():
        with torch.no_grad():
            for (source, of_0), (target, of_1) in zip(attention.head(0), attention.head(1), strict=True):
                target[of_1] = source[of_0]
    logits, _ = model(data.letters[:8, :-1])
    logits.square().sum().backward()
    norms = training.head_gradients(model)
    assert norms[0].item() == pytest.approx(norms[1].item(), rel=1e-4)
    assert norms[2].item() != pytest.approx(norms[0].item(), rel=1e-2)


def test_cloning_changes_nothing_where_the_heads_are_clones_already() -> None:
    model, data = Transformer(replace(SIZES, d_model=training.WIDTH)), training.make_data(0)
    with torch.no_grad():
        for attention in model.attentions():
            for (source, of_0), (target, of_1) in zip(attention.head(0), attention.head(1), strict=True):
                target[of_1] = source[of_0]
    untouched = [parameter.clone() for parameter in model.parameters()]
    assert training.cloned(model, data, seed=0, steps=3) == 0
    assert all(map(torch.equal, untouched, model.parameters())), "the model itself trains on as it was"


@pytest.mark.parametrize("n_head", [4, 1])
def test_a_seed_repeats_and_training_teaches(n_head: int) -> None:
    one, again = (training.learn(0, n_head, steps=40, clone_steps=2) for _ in range(2))
    assert replace(one, took_s=None) == replace(again, took_s=None)
    assert one.loss < math.log(VOCABULARY)
    assert (one.redundant is None) == (n_head == 1)


def test_every_number_of_heads_is_given_the_same_sequences() -> None:
    one, other = training.make_data(5), training.make_data(5)
    assert torch.equal(one.letters, other.letters)
    assert torch.equal(one.brackets, other.brackets)
    assert not torch.equal(one.letters[:256], one.held_letters)
