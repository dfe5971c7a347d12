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
    model, tokens = Transformer(SIZES), torch.randint(VOCABULARY, (1, 12, 2))
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
        looks = torch.zeros(*tokens.shape[:2], tokens.shape[1]).scatter_(2, wanted.unsqueeze(-1), 1.0)
        return None, [looks.unsqueeze(1)]


def before(tokens):
    return (torch.arange(tokens.shape[1]) - 1).clamp_min(0).expand(tokens.shape[:2])


def test_heads_are_scored_by_where_they_look() -> None:
    held = training.make_data(0).held

    def innermost(_):
        return held.innermost[:, :-1].clamp_min(0)

    previous, matching = training.looks(Staring(before), held)
    assert previous == 1
    assert matching < 0.7, "always looking at the neighbour is no matching"
    previous, matching = training.looks(Staring(innermost), held)
    assert matching == 1
    assert previous < 0.2


def test_a_loss_is_a_letters_and_a_brackets() -> None:
    """A model that knows nothing: ln 8 for each."""
    model = Transformer(replace(SIZES, d_model=training.WIDTH))
    torch.nn.init.zeros_(model.tokens.weight)
    assert training.loss(model, training.make_data(0).tokens[:4]).item() == pytest.approx(2 * math.log(8))


def test_clones_are_clones_and_all_else_is_alike() -> None:
    model, data = Transformer(replace(SIZES, d_model=training.WIDTH)), training.make_data(0)
    batch = data.tokens[:32]
    seen = batch[:, :-1]
    clone, silent = training.with_clone(model), training.without_clone(model)
    assert torch.allclose(clone(seen)[0], silent(seen)[0], atol=1e-5), "the two compute the same"
    assert not torch.allclose(clone(seen)[0], model(seen)[0], atol=1e-2), "without what head 1 did"
    of_clone, of_silent = (gradients_of(of, batch) for of in (clone, silent))
    assert of_clone[0] == pytest.approx(of_clone[1], rel=1e-4), "twins"
    assert of_clone[2:] == pytest.approx(of_silent[2:], rel=1e-4), "what others get knows of no clone"
    assert 0.5 < of_clone[0] / of_silent[0] < 0.99


def gradients_of(model, batch) -> list[float]:
    training.loss(model, batch).backward()
    return training.head_gradients(model).tolist()


def test_a_clones_halves_are_half_where_w_o_is_halved() -> None:
    """W_O's gradients are as large as alone, the others half as large: so the whole lies between."""
    model, data = Transformer(replace(SIZES, d_model=training.WIDTH)), training.make_data(0)
    untouched = [parameter.clone() for parameter in model.parameters()]
    shared, whole = training.with_clone(model), training.without_clone(model)
    for of in (shared, whole):
        training.loss(of, data.tokens[:32]).backward()
    halved, full = (of.attentions()[1].w_v.weight.grad[: training.WIDTH // 4] for of in (shared, whole))
    assert torch.allclose(2 * halved, full, rtol=1e-3, atol=1e-7)
    alike = [of.attentions()[1].w_o.weight.grad[:, : training.WIDTH // 4] for of in (shared, whole)]
    assert torch.allclose(*alike, rtol=1e-3, atol=1e-7)
    between = training.beside_clone(model, data, seed=0, batches=3)
    assert math.log(0.5) < between < 0
    assert all(map(torch.equal, untouched, model.parameters())), "the model itself trains on as it was"


@pytest.mark.parametrize("n_head", [4, 1])
def test_a_seed_repeats_and_training_teaches(n_head: int) -> None:
    one, again = (training.learn(0, n_head, steps=40, clone_batches=2) for _ in range(2))
    assert replace(one, took_s=None) == replace(again, took_s=None)
    assert one.loss < 2 * math.log(8)
    assert (one.beside_clone is None) == (n_head == 1)


def test_every_number_of_heads_is_given_the_same_sequences() -> None:
    one, other = training.make_data(5), training.make_data(5)
    assert torch.equal(one.tokens, other.tokens)
    assert not torch.equal(one.tokens[:256], one.held.tokens)
