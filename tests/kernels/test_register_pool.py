"""Warpgroups that ask for more registers than their block has wait for ever: a GPU hangs, and no compiler objects.

A block's pool is what its launch bounds leave a thread, times its threads. A producer warpgroup gives back what it has
above its `setmaxnreg.dec`, and the others wait in `setmaxnreg.inc` until there is enough for them.
"""

from __future__ import annotations

import re

import pytest
import torch

from kernels import flash_hopper, fused
from kernels.compiler import Build

from .ptx import ptx_of

REGISTERS_OF_AN_SM = 65536
WARPGROUP = 128

GREEDY = """
extern "C" __global__ void __launch_bounds__(384, 2) greedy(float* x)
{
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 CONSUMER;");
        x[threadIdx.x] = 1.0f;
    }
}
"""


def builds_of_hopper() -> list[Build]:
    """Of each tile that `tile_for` may choose on an H200, the builds for the smallest and the largest head_dim."""
    chosen: dict[flash_hopper.Tile, list[int]] = {}
    for head_dim in fused.HEAD_DIMS:
        for batch_heads in (1, 12, 24, 48, 96, 384, 3000):
            for seq_len in (1, 64, 128, 256, 1024, 4096, 16384):
                for causal in (True, False):
                    tile = flash_hopper.tile_for(head_dim, batch_heads, seq_len, causal, 132)
                    chosen.setdefault(tile, []).append(head_dim)
    return [
        tile.build(head_dim, torch.bfloat16) for tile, of in chosen.items() for head_dim in {min(of), max(of)}
    ]


def pool_and_asked(ptx: str) -> tuple[int, int]:
    """The registers of a block, and what its warpgroups ask for in all; the first is the producer."""

    def number(pattern: str) -> int:
        (found,) = set(re.findall(pattern, ptx))
        return int(found)

    threads, blocks = number(r"\.maxntid (\d+)"), number(r"\.minnctapersm (\d+)")
    # Registers are handed out in eights.
    each = min(REGISTERS_OF_AN_SM // (threads * blocks), 255) // 8 * 8
    producer, consumer = number(r"setmaxnreg\.dec\S* (\d+)"), number(r"setmaxnreg\.inc\S* (\d+)")
    return each * threads, producer * WARPGROUP + consumer * (threads - WARPGROUP)


@pytest.mark.parametrize("build", builds_of_hopper(), ids=str)
def test_no_warpgroup_waits_for_registers_that_its_block_has_not(build, nvrtc):
    pool, asked = pool_and_asked(ptx_of(build))
    assert asked <= pool


@pytest.mark.parametrize(("consumer", "fits"), [(104, True), (112, False)])
def test_a_request_beyond_the_pool_is_found(tmp_path, nvrtc, consumer, fits):
    # 65,536 registers for 768 threads are 80 each in eights; with 24 for a producer, two consumers may have 108.
    file = tmp_path / "greedy.cu"
    file.write_text(GREEDY.replace("CONSUMER", str(consumer)))
    pool, asked = pool_and_asked(ptx_of(Build(file)))
    assert pool == 80 * 384
    assert (asked <= pool) is fits
