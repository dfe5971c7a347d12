"""A chart's place on the page: its title, its caption, the choices above it; and what the page's script draws of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reports.html.markup import element

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from reports.html.charts.chart import Chart


NOT_DRAWN = "A script draws a chart here; the tables have its numbers."
"""What stands in its place until then, or where scripts are switched off."""

CHOICES = (("shape", "Shape"), ("mode", "Timing mode"))
"""What the reader may choose of a chart, and what it is called."""


def figure(key: str, chart: Chart) -> ET.Element:
    """The figure that the script fills; `key` is unique on the page."""
    choices = None
    if chart.choices:
        named = [(name, label) for name, label in CHOICES if name in chart.choices[0]]
        values = {name: list(dict.fromkeys(one[name] for one in chart.choices)) for name, _ in named}
        selects = (_choice(key, name, label, values[name]) for name, label in named)
        choices = element("div", *selects, class_="filters")
    return element(
        "figure",
        element("h3", chart.title),
        choices,
        element(
            "div", NOT_DRAWN, class_="chart", id=key, role="img", aria_label=f"{chart.title}: {chart.spoken}"
        ),
        element("figcaption", chart.caption),
    )


def drawn(key: str, chart: Chart) -> dict[str, Any]:
    """What the script needs of it."""
    return {
        "key": key,
        "spec": chart.spec,
        "rows": chart.rows,
        "panels": chart.panels,
        "panelPx": chart.panel_px,
        "labelsPx": chart.labels_px,
        "choices": chart.choices,
    }


def follow(key: str, names: list[str]) -> ET.Element:
    """The choice of a variant that all charts of a section then show, the others faint."""
    options = [
        element("option", "all alike", value=""),
        *(element("option", name, value=name) for name in names),
    ]
    return element(
        "div",
        element("label", "Follow a variant", for_=key),
        element("select", *options, id=key, data_follow=True),
        class_="field",
    )


def _choice(key: str, name: str, label: str, values: list[str]) -> ET.Element:
    options = (element("option", value, value=value) for value in values)
    return element(
        "div",
        element("label", label, for_=f"{key}-{name}"),
        element("select", *options, id=f"{key}-{name}", data_chart=key, name=name),
        class_="field",
    )
