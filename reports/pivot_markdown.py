"""A pivoted run as GitHub Markdown: the terminal's tables, sentences and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.markdown import bullets, closing, escape, head, page, remark_line, table
from reports.pivot_grids import FINE, legend, sparkline_title, sparklines, title, values_down, variants_down
from reports.pivot_terminal import again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.pivot import Pivot, PivotTable


def to_markdown(pivot: Pivot) -> str:
    """The whole page, in the terminal's order; fine sweeps have their values down."""
    tables = [part for one in pivot.tables for part in _table(one, pivot.peak)]
    reasons = bullets(map(remark_line, pivot.reasons))
    left_out = escape(pivot.left_out or "")
    shown = head(pivot.report, legend(pivot))
    return page([*shown, *tables, reasons, left_out, *closing(pivot.report, again(pivot))])


def _table(of: PivotTable, peak: str) -> Iterator[str]:
    yield f"### {escape(' · '.join(title(of, peak)))}"
    if drawn := sparklines(of, peak):
        yield escape(sparkline_title(of, peak))
        yield bullets(f"{escape(variant)} {bars}" for variant, bars in drawn)
    fine = len(of.values) > FINE
    yield table(values_down(of, peak, of.variants) if fine else variants_down(of, peak))
    yield bullets(map(escape, of.sentences))
    yield bullets(map(remark_line, of.reasons))
