"""Heads are a stride: split and merge are inverses, and neither is a plain reshape."""

from __future__ import annotations

import pytest
import torch

from variants.layout import columns_per_head, merge_heads, rows_per_head, split_heads


def test_feature_f_of_head_h_is_column_h_times_head_dim_plus_f():
    x = torch.arange(2 * 3 * 8).view(2, 3, 8)
    heads = split_heads(x, n_head=2)
    assert heads.shape == (2, 2, 3, 4)
    assert heads[1, 1, 2, 3] == x[1, 2, 1 * 4 + 3]


def test_merging_undoes_splitting_without_a_copy():
    x = torch.randn(2, 5, 12)
    merged = merge_heads(split_heads(x, n_head=3))
    assert torch.equal(merged, x)
    assert merged.data_ptr() == x.data_ptr()


def test_contiguous_heads_are_merged_by_a_copy():
    heads = torch.randn(2, 3, 5, 4)
    merged = merge_heads(heads)
    assert torch.equal(split_heads(merged, 3), heads)
    assert merged.data_ptr() != heads.data_ptr()


@pytest.mark.parametrize(("seq_len", "head_dim"), [(5, 4), (4, 4)])
def test_reshaping_without_the_transpose_is_not_splitting(seq_len, head_dim):
    x = torch.randn(1, seq_len, 3 * head_dim)
    assert not torch.equal(split_heads(x, 3), x.reshape(1, 3, seq_len, head_dim))


def test_weights_split_by_columns_give_the_heads_of_the_fused_product():
    x, w = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(12, 12, dtype=torch.float64)
    per_head = torch.stack([x @ columns for columns in columns_per_head(w, 3)], dim=1)
    torch.testing.assert_close(per_head, split_heads(x @ w, 3))


def test_weights_split_by_rows_add_up_to_the_fused_product():
    heads, w = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.randn(12, 12, dtype=torch.float64)
    added = sum(heads[:, h] @ rows for h, rows in enumerate(rows_per_head(w, 3)))
    torch.testing.assert_close(added, merge_heads(heads) @ w)


@pytest.mark.parametrize("split", [columns_per_head, rows_per_head])
def test_the_parts_of_a_weight_are_contiguous(split):
    assert all(part.is_contiguous() for part in split(torch.randn(12, 12), 3))
