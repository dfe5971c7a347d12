"""A picture: its chart, the rows that it was drawn from, its finding in a sentence; and how it becomes an SVG.

The SVG carries its rows, so that whether it is current can be told whatever version of the renderer made it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import altair as alt
import vl_convert

from reports.text import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BLUE, VERMILION, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#7f7f7f"
PINK, GOLD, SKY = "#cc79a7", "#b8860b", "#3290c8"
"""Told apart by the colour-blind, and at least 3 : 1 against both grounds."""

INK, FAINT, LINE, GROUND = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
DARK = {INK: "#e6edf3", FAINT: "#9198a1", LINE: "#3d444d", GROUND: "#0d1117"}
"""What each colour of the page itself becomes where a reader prefers dark."""

FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
"""The first is the renderer's own: a text is as wide wherever it is drawn."""

SUBTITLE_CHARACTERS = 84

Row = dict[str, "str | int | float | None"]


@dataclass(frozen=True, slots=True)
class Picture:
    """`name` is part of its file's, `finding` says in numbers what is to be seen, for who cannot see it."""

    name: str
    finding: str
    rows: tuple[Row, ...]
    chart: alt.TopLevelMixin


def renderer() -> str:
    """What draws: its output may differ from one version to the next."""
    return f"altair {version('altair')}, vl-convert {version('vl-convert-python')}"


def to_svg(picture: Picture, run_id: str) -> str:
    """The picture as a file, its rows and its finding within; the same bytes for the same rows and renderer."""
    drawn = vl_convert.vegalite_to_svg(_styled(picture.chart).to_dict())
    kept = {"run": run_id, "renderer": renderer(), "rows": picture.rows}
    swapped = "".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}' for light, dark in DARK.items()
    )
    inside = (
        f"<title>{escape(picture.finding)}</title>\n"
        f"<metadata>{escape(json.dumps(kept, ensure_ascii=False))}</metadata>\n"
        f"<style>@media (prefers-color-scheme: dark){{{swapped}}}</style>\n"
    )
    start = drawn.index(">") + 1
    return f'{drawn[: start - 1]} role="img">\n{inside}{drawn[start:]}\n'


def kept_rows(svg: str) -> tuple[Mapping[str, Any], list[Row]]:
    """What an SVG says of itself (`run`, `renderer`), and the rows that it was drawn from.

    Raises:
        ValueError: it is none of ours.
    """
    found = re.search(r"<metadata>(.*?)</metadata>", svg, flags=re.DOTALL)
    if not found:
        raise ValueError("the SVG has no rows within: it is no picture of a run")
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    kept = json.loads(text)
    return kept, kept["rows"]


def titled(chart: alt.FacetChart, text: str, below: Sequence[str]) -> alt.FacetChart:
    """The chart with a title, and parts below it, in lines short enough, that say what and where."""
    titled_chart: alt.FacetChart = chart.properties(
        title=alt.TitleParams(text, subtitle=pack(below, SUBTITLE_CHARACTERS))
    )
    return titled_chart


def _styled(chart: Any) -> Any:
    return (
        chart.configure(
            font=FONT, background=GROUND, padding={"left": 24, "right": 16, "top": 12, "bottom": 12}
        )
        .configure_view(stroke=None)
        .configure_title(
            anchor="start",
            frame="bounds",
            fontSize=16,
            color=INK,
            subtitleColor=FAINT,
            subtitleFontSize=12,
            offset=14,
        )
        .configure_axis(
            labelColor=INK, titleColor=FAINT, labelFontSize=12, titleFontSize=12, titleFontWeight="normal"
        )
        .configure_header(labelColor=INK, labelFontSize=13, labelFontWeight="bold", titleColor=FAINT)
        .configure_legend(labelColor=INK, labelFontSize=12, titleColor=FAINT, orient="top", symbolSize=90)
        .configure_text(color=INK, fontSize=12)
        .configure_facet(spacing=16)
    )
