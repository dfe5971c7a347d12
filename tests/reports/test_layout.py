"""Tables of cells, whatever is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reports.columns import Column, Grid, Line
from reports.layout import fit, lines

SOME = ["x", "头", "a name of some length"]
ROWS = st.lists(st.tuples(st.sampled_from(SOME), *[st.sampled_from(["", " ", *SOME])] * 2))


@given(ROWS, st.integers(1, 60))
def test_any_table_is_laid_out_even_with_a_column_of_nothing(rows: list[tuple[str, ...]], width: int) -> None:
    columns = (Column("part", str, left=True), Column("", str, left=True), Column("", str, least=1))
    grid = Grid(columns, tuple(map(Line, rows)))
    told = [text for text, _ in lines(grid, fit([grid], width))]
    assert len(told) >= 1 + len(rows)


def folded(text: str, width: int) -> list[str]:
    columns = (Column("x", str, left=True, least=1),)
    grid = Grid(columns, (Line((text,)),))
    return [told for told, _ in lines(grid, fit([grid], width))][1:]


def test_a_cell_is_folded_between_its_words_and_only_a_long_word_within() -> None:
    assert folded("attention, batch 1, d_model 384", 21) == ["attention, batch 1,", "d_model 384"]
    assert folded("attention, batch 1", 10) == ["attention,", "batch 1"]
    assert folded("per_head_accumulate", 8) == ["per_head", "_accumul", "ate"]


@given(st.text("ab 头", max_size=30), st.integers(2, 40))
def test_folding_loses_nothing_but_spaces_and_keeps_to_the_width(text: str, width: int) -> None:
    told = folded(f"x{text}", width)
    assert "".join(told).replace(" ", "") == f"x{text}".replace(" ", "")
    assert all(cell_len(line) <= width for line in told)
