"""Grids of text fitted into a width: packed closer, folded, and at last left out, least needed first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, chop_cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.columns import Grid, Line

NAME_WIDTH = 24
"""A foldable column is folded down to this before another column is left out, and no further."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are shown and how wide each is, alike for every grid it was made for."""

    kept: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int
    dropped: tuple[str, ...] = ()


def fit(grids: Sequence[Grid[Any]], width: int) -> Layout:
    """The roomiest layout of these grids, all with the same columns, in `width` terminal cells."""
    if not grids:
        return Layout((), (), 1)
    columns = grids[0].columns
    kept = tuple(range(len(columns)))
    dropped: list[str] = []
    while True:
        needed = max(kept, key=lambda i: columns[i].expendable)
        last = columns[needed].expendable == 0
        for gap, fold_on in ((2, False), (1, False), (1, True)) if last else ((2, False), (1, False)):
            widths = _widths(grids, kept, width - gap * (len(kept) - 1), fold_on=fold_on)
            if sum(widths) + gap * (len(kept) - 1) <= width or fold_on:
                return Layout(kept, tuple(widths), gap, tuple(dropped))
        kept = tuple(i for i in kept if i != needed)
        dropped.append(columns[needed].title)


def lines(grid: Grid[Any], layout: Layout) -> Iterator[tuple[str, str]]:
    """(text, emphasis) of the title line and of every row; a folded cell goes on below itself."""
    titles = [grid.columns[i].title for i in layout.kept]
    yield from ((text, "title") for text in _aligned(grid, titles, layout))
    for line in grid.lines:
        yield from ((text, line.emphasis) for text in _row(grid, line, layout))


def _row(grid: Grid[Any], line: Line, layout: Layout) -> Iterator[str]:
    cells = [line.cells[i] for i in layout.kept]
    if line.instead is None:
        yield from _aligned(grid, cells, layout)
        return
    first, *more = _aligned(grid, [cells[0], *("" for _ in cells[1:])], layout)
    yield first + " " * (layout.widths[0] + layout.gap - cell_len(first)) + line.instead
    yield from more


def _aligned(grid: Grid[Any], cells: Sequence[str], layout: Layout) -> Iterator[str]:
    """The cells side by side, over as many lines as the most folded of them needs."""
    folded = [_folded(cell, width) for cell, width in zip(cells, layout.widths, strict=True)]
    lefts = [grid.columns[i].left for i in layout.kept]
    for pieces in zip_longest(*folded, fillvalue=""):
        padded = map(_pad, pieces, layout.widths, lefts)
        yield (" " * layout.gap).join(padded).rstrip()


def _folded(text: str, width: int) -> list[str]:
    """Lines of this width at most, broken at a space in the latter half of each, else within the word."""
    pieces: list[str] = []
    while cell_len(text) > width:
        fits = max(1, len(chop_cells(text, width)[0]))
        at_space = text.rfind(" ", 1, fits + 1)
        end = at_space if 2 * at_space >= fits else fits
        pieces.append(text[:end])
        text = text[end:].lstrip(" ")
    return [*pieces, text]


def _pad(text: str, width: int, left: bool) -> str:
    blank = " " * (width - cell_len(text))
    return text + blank if left else blank + text


def _widths(grids: Sequence[Grid[Any]], kept: Sequence[int], room: int, *, fold_on: bool) -> list[int]:
    """The natural widths, the widest foldable columns narrowed as far as the room asks and they allow."""
    widths = [_natural(grids, i) for i in kept]
    least = [grids[0].columns[i].least for i in kept]
    floors = [
        width if low is None else low if fold_on else min(width, NAME_WIDTH)
        for width, low in zip(widths, least, strict=True)
    ]
    while sum(widths) > room:
        narrowable = [place for place, floor in enumerate(floors) if widths[place] > floor]
        if not narrowable:
            break
        widths[max(narrowable, key=widths.__getitem__)] -= 1
    return widths


def _natural(grids: Sequence[Grid[Any]], column: int) -> int:
    cells = [grid.columns[column].title for grid in grids]
    cells += [
        line.cells[column] for grid in grids for line in grid.lines if line.instead is None or column == 0
    ]
    return max(1, *map(cell_len, cells))  # nothing folds into no width
