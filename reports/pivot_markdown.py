"""A pivoted run as GitHub Markdown: the terminal's tables, sentences and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.markdown import bullets, escape, joined, remark_line, table
from reports.markdown_page import LIMIT, Block, Page
from reports.pivot_grids import FINE, legend, sparkline_title, sparklines, title, values_down, variants_down
from reports.pivot_terminal import again
from reports.run_markdown import ELSEWHERE, measured, opening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.pivot import Pivot, PivotTable
    from reports.pivot_cells import Cells


def to_markdown(pivot: Pivot, limit: int = LIMIT) -> str:
    """What ended how, what went wrong, every table with what it means; folded, how it was measured."""
    page = Page(limit, ELSEWHERE)
    opening(pivot.report, page, again(pivot))
    tables = [Block(joined(_table(one, pivot.cells)), rows=len(one.cells)) for one in pivot.tables]
    page.blocks(tables, "tables", "cases")
    page.most([f"- {remark_line(reason)}" for reason in pivot.reasons], 0, "reasons")
    page.say(escape(pivot.left_out or ""))
    measured(pivot.report, page, legend(pivot))
    return page.text


def _table(of: PivotTable, cells: Cells) -> Iterator[str]:
    yield f"#### {escape(' · '.join(title(of, cells)))}"
    if drawn := sparklines(of, cells):
        yield escape(sparkline_title(of, cells))
        yield bullets(f"{escape(variant)} {bars}" for variant, bars in drawn)
    fine = len(of.values) > FINE
    yield table(values_down(of, cells, of.variants) if fine else variants_down(of, cells))
    yield bullets(map(escape, of.sentences))
    yield bullets(map(remark_line, of.reasons))
