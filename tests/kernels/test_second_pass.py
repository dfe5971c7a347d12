"""Rows whose sum of exponentials leaves the range of its numbers, beside rows whose sum does not: all are right."""

from __future__ import annotations

import math

import pytest
import torch

from kernels import flash_hopper, flash_portable
from kernels.dealing import deal
from tests.kernels.test_attention import assert_right, check_flash, inputs, mixed, reference, usable

DTYPES = (torch.bfloat16, torch.float16)
SHIFTED = (8, 12, 1000, 72)
"""A shape of which flash_hopper deals rounds otherwise than to and fro."""
both_kernels = pytest.mark.parametrize(
    "kernel", [flash_portable, flash_hopper], ids=lambda kernel: kernel.ACTOR
)


def share_of_far_rows(scores):
    """Of 193 rows a head, the share whose sum flash_hopper does not trust in bf16: it is not within 2^±60."""
    q, k, v = inputs((2, 3, 193, 64), torch.bfloat16, "bhtd", scores)
    return (reference(q, k, v, True)[1].abs() > 60 * math.log(2)).double().mean().item()


def test_mixed_heads_have_far_rows_in_all_in_some_and_in_none():
    factor = mixed((2, 3, 200))[..., 0]
    assert (factor > 1).sum(-1).tolist() == [[0, 200, 3], [0, 200, 3]]


def test_rounds_are_shifted_in_a_shape_that_is_watched_on_a_gpu():
    tile = flash_hopper.tile_for(72, 96, 1000, True, 132)
    shifts = deal(96, 1000, 72, True, tile.rows, tile.keys, 132).shifts
    assert len(set(shifts)) > 2


@pytest.mark.gpu
def test_rows_leave_the_range_in_these_cases_and_not_in_others():
    assert share_of_far_rows("random") == 0
    assert 0.1 < share_of_far_rows("mixed") < 0.4
    assert share_of_far_rows("climbing") > 0.5
    assert share_of_far_rows("low") == 1


@pytest.mark.gpu
@both_kernels
@pytest.mark.parametrize("seq_len", [1, 65, 129, 193, 1000, 1025, 4097])
@pytest.mark.parametrize("head_dim", [32, 64, 72, 96, 128])
def test_far_rows_and_their_neighbours_are_right(kernel, head_dim, seq_len):
    forward = usable(kernel)
    for dtype in DTYPES:
        for causal in (True, False):
            for scores in ("mixed", "climbing", "low"):
                check_flash(forward, (2, 3, seq_len, head_dim), dtype, causal, "packed", scores)


@pytest.mark.gpu
@both_kernels
@pytest.mark.parametrize(
    "shape", [(60, 50, 65, 64), (2, 1500, 321, 32), (1, 3000, 193, 72), SHIFTED], ids=str
)
def test_far_rows_are_right_when_blocks_have_many_tiles(kernel, shape):
    forward = usable(kernel)
    for dtype in DTYPES:
        for causal in (True, False):
            check_flash(forward, shape, dtype, causal, "bthd", "mixed")


@pytest.mark.gpu
@both_kernels
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_far_rows_change_no_bit_of_other_heads(kernel, dtype):
    forward = usable(kernel)
    q, k, v = inputs((25, 12, 321, 64), dtype)
    for causal in (True, False):
        before = forward(q, k, v, causal=causal)
        after = forward(q * mixed((25, 12, 321)).to(q), k, v, causal=causal)
        near = (mixed((25, 12, 321)) == 1).all(-1).all(-1).to(q.device)
        assert torch.equal(after[near], before[near])
        assert not torch.equal(after[~near], before[~near])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [32, 64, 72, 128])
def test_hoppers_second_pass_changes_no_bit_of_rows_beside_far_ones(head_dim, dtype):
    forward = usable(flash_hopper)
    for seq_len in (65, 193, 1025):
        shape = (6, 12, seq_len)
        q, k, v = inputs((*shape, head_dim), dtype)
        factor = mixed(shape)[..., 0].cuda()
        for causal in (True, False):
            lse, lse_before = torch.empty(2, *shape, device="cuda")
            before = forward(q, k, v, causal=causal, lse=lse_before)
            after = forward(q * factor[..., None].to(q), k, v, causal=causal, lse=lse)
            near = factor == 1
            assert torch.equal(after[near], before[near])
            assert torch.equal(lse[near], lse_before[near])


@pytest.mark.gpu
@both_kernels
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim", [32, 64, 72, 128])
def test_nan_in_a_query_is_nan_in_its_row_and_nowhere_else(kernel, head_dim, dtype):
    forward = usable(kernel)
    for seq_len in (1, 65, 193, 1025):
        for causal in (True, False):
            q, k, v = inputs((3, 50, seq_len, head_dim), dtype, "packed")
            right, right_lse = reference(q, k, v, causal)
            poisoned = torch.zeros(q.shape[:3], dtype=torch.bool, device="cuda")
            poisoned[1, 3, seq_len // 2] = poisoned[2, 49, 0] = poisoned[2, 49, -1] = True
            q[1, 3, seq_len // 2, 5] = q[2, 49, 0] = q[2, 49, -1] = math.nan
            lse = torch.empty(q.shape[:3], device="cuda")
            out = forward(q, k, v, causal=causal, lse=lse)
            what = f"{seq_len} {head_dim} {dtype} causal={causal}"
            assert torch.equal(out.isnan().all(-1), poisoned), what
            assert torch.equal(lse.isnan(), poisoned), what
            assert_right(out.where(~poisoned[..., None], right.to(dtype)), right, dtype, what)
            assert (lse - right_lse)[~poisoned].abs().max().item() <= 1e-3, what
