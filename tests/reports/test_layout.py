"""Tables of cells, whatever is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
