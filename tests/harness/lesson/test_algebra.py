"""Experiments by algebra find what is so, and would find if it were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from harness.lesson import algebra
from harness.lesson.algebra import Products
from results.claims.observed import Calls, Parameters

if TYPE_CHECKING:
    import pytest


def test_products_are_counted_whatever_they_are_called() -> None:
    x = torch.ones(2, 3, 4)
    with Products() as products:
        _ = (
            x @ torch.ones(4, 5),
            torch.bmm(x, x.mT),
            torch.nn.functional.linear(x, torch.ones(5, 4)),
            x + x,
            x.softmax(-1),
        )
    assert products.count == 3


def test_a_fused_projection_asks_for_one_product_where_heads_ask_for_twelve() -> None:
    assert algebra.calls() == [Calls(12, {"per_head": 36, "fused": 3, "fused_qkv": 1})]


def test_parameters_are_those_of_the_formulas() -> None:
    (counted,) = algebra.parameters()
    attention, mlp = 12 * 4 * 768**2, 12 * 2 * 768 * 3072
    assert counted == Parameters(768, 12, 3072, 8449, 1024, attention, mlp, (8449 + 1024) * 768)


def test_no_shape_is_changed_and_a_wrong_split_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (tried,) = algebra.round_trips()
    assert (tried.shapes, tried.changed) == (200, 0)
    assert tried.scrambled > 50

    def reshaped(features: torch.Tensor, n_head: int) -> torch.Tensor:
        batch, seq_len, _ = features.shape
        return features.reshape(batch, n_head, seq_len, -1)

    monkeypatch.setattr(algebra, "split_heads", reshaped)
    assert algebra.round_trips()[0].changed > 50


def test_heads_are_isolated_until_w_o_mixes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in algebra.dependence():
        assert found.others_largest == 0
        assert found.own_least > 0
        assert found.mixed_least > 0.01 * found.mixed_median
    honest = torch.nn.functional.scaled_dot_product_attention

    def leaking(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
        return honest(q, k, v + 1e-9 * v.mean(1, keepdim=True), is_causal=is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", leaking)
    assert algebra.dependence()[0].others_largest > 0
