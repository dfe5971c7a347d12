"""Charts of a single line: a bar cut into parts, a curve of eight heights."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHTS = "▁▂▃▄▅▆▇█"
GAP = "·"
"""Where a curve has no value."""

SHADES = "░▒█"
"""What tells the parts of a bar from each other, without colour."""


def stacked(parts: Sequence[float | None], width: int) -> str:
    """`░░░░░░░▒██`: what each part is of the sum, in the order of `SHADES`; what is negative or unknown has no cell.

    Empty where nothing is positive. Cells go to the largest remainders, so no part has more than one too many.
    """
    sizes = [max(part or 0.0, 0.0) for part in parts]
    whole = sum(sizes)
    if not whole:
        return ""
    exact = [width * size / whole for size in sizes]
    cells = [int(one) for one in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: cells[i] - exact[i])
    for i in by_remainder[: width - sum(cells)]:
        cells[i] += 1
    return "".join(shade * count for shade, count in zip(SHADES, cells, strict=False))


def curve(values: Sequence[float | None], highest: float) -> str:
    """`▂▄█·`: each value as a height from zero to `highest`, and a dot where there is none."""
    return "".join(_height(value / highest) if value and value > 0 else GAP for value in values)


def _height(share: float) -> str:
    return HEIGHTS[min(int(share * len(HEIGHTS)), len(HEIGHTS) - 1)]
