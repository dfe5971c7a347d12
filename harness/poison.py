"""NaN in freed memory before a call is checked, so that what the call never writes is found out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from variants.shape import Shape


def poison(shape: Shape, device: torch.device, *, gradients: bool = False) -> None:
    """Leave NaN in the memory that a call is about to get, so that an element it never writes shows.

    Blocks of the sizes that outputs have (one head, one activation, Q, K and V together) are filled and
    freed; allocators hand freed blocks of such sizes out again. Stale results of an earlier call, right by
    accident, are what this overwrites. Best effort: where memory runs out, what was filled must do. With
    `gradients`, blocks of the sizes that those of weights have are among them.
    """
    activation = shape.tokens * shape.d_model * shape.element_bytes
    head = activation // shape.n_head
    sizes = [activation] * 4 + [3 * activation] + [head] * (3 * shape.n_head)
    if gradients:
        weight = shape.d_model**2 * shape.element_bytes
        sizes += [weight] * 4 + [3 * weight] + [weight // shape.n_head] * (4 * shape.n_head)
    # A heap holds many free blocks of a small size; and a stale one, too small for the first round because
    # allocators pad what they align, merges with its freed neighbours and is filled in the second.
    copies = 8 if activation < 2**17 else 1
    for _ in range(2):
        _fill_with_nan(sizes * copies, device)


def _fill_with_nan(sizes: list[int], device: torch.device) -> None:
    """Hold blocks of all sizes, in bytes, at once, so that each is another one; then free them."""
    blocks: list[torch.Tensor] = []
    with suppress(RuntimeError, MemoryError):  # a CPU's refusal is a plain RuntimeError
        for size in sizes:
            # All bits set is NaN in every floating-point format.
            blocks.append(torch.full((size,), 0xFF, dtype=torch.uint8, device=device))
