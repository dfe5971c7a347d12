"""What flash_hopper asks of shared memory: never more than a Hopper SM has, or nothing would launch."""

from __future__ import annotations

import math
import re

import pytest
import torch

from kernels import flash_hopper, fused
from kernels.compiler import FOLDER

KIB = 1024
OF_A_BLOCK, OF_AN_SM, RESERVED = 227 * KIB, 228 * KIB, 1 * KIB
"""What compute capability 9.0 lets a block ask for, what an SM has, and what the driver takes for each block on it."""
THREADS_OF_AN_SM = 2048
BATCH_HEADS = (1, 3, 12, 48, 132, 264, 384, 3000)
SEQ_LENS = (1, 64, 65, 128, 129, 192, 193, 1024, 2048, 2049, 16384)


def tiles_chosen(head_dim):
    """Every tile that `tile_for` gives a head_dim, for any number of heads, length and mask; a dtype changes none."""
    return {
        flash_hopper.tile_for(head_dim, batch_heads, seq_len, causal, sm_count)
        for batch_heads in BATCH_HEADS
        for seq_len in SEQ_LENS
        for causal in (True, False)
        for sm_count in (114, 132)
    }


@pytest.mark.parametrize("head_dim", fused.HEAD_DIMS)
def test_no_tile_asks_for_more_than_a_block_may_have_or_its_blocks_find_on_an_sm(head_dim):
    tiles = tiles_chosen(head_dim)
    assert tiles
    for tile in tiles:
        asked = tile.shared_bytes(head_dim)
        assert asked <= OF_A_BLOCK, tile
        assert tile.blocks * (asked + RESERVED) <= OF_AN_SM, tile
        assert tile.blocks * tile.threads <= THREADS_OF_AN_SM, tile


def test_shared_memory_holds_stages_barriers_notes_and_what_aligning_costs():
    row = 2 * 64  # bytes of a box's row
    queries, keys, values = 2 * 128 * row, 2 * 128 * row, 3 * 128 * row
    barriers = 8 * (2 * 2 * 2 + 2 * 2 + 2 * 3 + 1)
    beside = 2 * 32 + barriers + 1024 + 4 + 1024
    tile = flash_hopper.Tile(warpgroups=2, keys=128, copies=2)
    assert tile.shared_bytes(64) == queries + keys + values + beside
    # At 72 Q and K have a box and 16 columns, V has two boxes.
    assert 4 * (tile.shared_bytes(72) - beside) == 5 * (queries + keys) + 8 * values
    narrow = flash_hopper.Tile(warpgroups=1, keys=64, copies=1)
    queries_and_keys, values = 4 * 64 * row // 4, 2 * 64 * row
    assert (
        narrow.shared_bytes(8) == queries_and_keys + values + 2 * 32 + 8 * (4 + 4 + 4 + 1) + 1024 + 4 + 1024
    )


@pytest.mark.parametrize("head_dim", fused.HEAD_DIMS)
def test_rows_have_room_for_all_columns_that_products_read_and_for_few_others(head_dim):
    whole, tail = flash_hopper.row_columns(head_dim)
    assert whole % 64 == 0
    assert tail in (0, 16, 32)  # a row of as many bytes as a swizzle permutes
    assert whole + tail >= math.ceil(head_dim / 16) * 16
    assert tail == 0 or whole < head_dim
    assert whole + tail - head_dim < (16 if tail else 32)


def test_the_kernel_has_as_many_stages_and_notes_as_it_is_given_room_for():
    source = (FOLDER / "flash_hopper.cu").read_text()
    stages = dict(re.findall(r"#define (\w+_STAGES|NOTES) +(.*?) *(?://.*)?\n", source))
    assert stages["Q_STAGES"] == str(flash_hopper._QUERY_STAGES)
    assert stages["K_STAGES"] == str(flash_hopper._KEY_STAGES)
    assert "V_STAGES" not in stages  # the build says how many, see below
    assert 4 * int(stages["NOTES"]) == flash_hopper._NOTE_BYTES
    assert 32 * int(stages["NOTES"]) == flash_hopper._MOST_ROUNDS


@pytest.mark.parametrize("head_dim", fused.HEAD_DIMS)
def test_a_build_has_as_many_stages_of_v_as_p_needs_and_beyond_a_box_three_if_there_is_room(head_dim):
    for tile in tiles_chosen(head_dim):
        stages = tile.value_stages(head_dim)
        assert f"V_STAGES={stages}" in tile.build(head_dim, torch.bfloat16).defines
        assert stages > tile.copies
        if stages < 3 and head_dim > 64:
            one_more = 2 * tile.keys * math.ceil(head_dim / 64) * 64 + 16
            assert tile.blocks * (tile.shared_bytes(head_dim) + one_more + RESERVED) > OF_AN_SM


def test_three_consumers_have_a_third_stage_of_v_at_72_and_two_at_64():
    three = flash_hopper.Tile(warpgroups=3, copies=1)
    assert [three.value_stages(head_dim) for head_dim in (64, 72)] == [2, 3]
