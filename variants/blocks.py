"""Float64 arithmetic in blocks of bounded size: what the references of outputs and of gradients share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK_BYTES = 256 * 2**20
_FLOAT64_BYTES = 8


def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x [batch, seq_len, d_model] · w [d_model, features], rows in blocks."""
    rows = x.flatten(0, -2)
    out = torch.empty(rows.shape[0], w.shape[1], dtype=stored(x), device=x.device)
    wide = w.double()
    for start, stop in blocks(rows.shape[0], per_block(sum(w.shape))):
        out[start:stop] = rows[start:stop].double() @ wide
    return out.view(*x.shape[:-1], -1)


def stored(x: torch.Tensor) -> torch.dtype:
    """The dtype that results beside `x` are kept in: float64, or on CUDA float32 to spare memory."""
    return torch.float32 if x.is_cuda else torch.float64


def per_block(elements: int) -> int:
    """How many items of so many float64 elements one block holds, at least one."""
    return max(1, _BLOCK_BYTES // (_FLOAT64_BYTES * elements))


def blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of each block of `size` items, the last one shorter."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
