"""The document: head, policy, style, sections, and the scripts with the data they read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reports.html import markup
from reports.html.charts.chart import CONFIG, ROWS
from reports.html.embedded import digest, packed_json
from reports.html.figures import drawn, figure
from reports.html.markup import element

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from reports.html.charts.chart import Chart
    from reports.html.embedded import Download

SCRIPTS = ("data.js", "tables.js", "charts.js", "start.js")
"""Ours, in the order they are joined."""


@dataclass
class Page:
    """A page being filled: sections in order, each in the navigation; charts and downloads as sections bring them."""

    title: str
    lead: tuple[str, ...] = ()
    sections: list[ET.Element] = field(default_factory=list)
    charts: list[dict[str, Any]] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)

    def section(self, key: str, title: str, *children: ET.Element | str | None) -> None:
        """Add a section under a heading of its own."""
        heading = element("h2", title, id=f"{key}-title")
        self.links.append((key, title))
        self.sections.append(element("section", heading, *children, id=key, aria_labelledby=f"{key}-title"))

    def figure(self, key: str, chart: Chart | None) -> ET.Element | None:
        """The place of a chart, which is drawn there; nothing of none."""
        if chart is None:
            return None
        self.charts.append(drawn(key, chart))
        return figure(key, chart)

    def html(self) -> str:
        """The whole document."""
        joined = "\n".join(asset(name) for name in SCRIPTS)
        ours = f'(() => {{\n"use strict";\n{joined}}})();'
        scripts = (vega_bundle(), ours)
        body = element(
            "body",
            element("a", "Skip to the answer", href="#answers", class_="skip"),
            element(
                "header",
                element("p", "Headbench", class_="brand"),
                element("h1", self.title),
                *map(_lead, self.lead),
            ),
            self._navigation(),
            element("main", *self.sections, id="main"),
            _data("theme", json.dumps({"config": CONFIG, "rows": ROWS}).replace("<", "\\u003c")),
            _data("charts", packed_json(self.charts)),
            *(_data(f"download-{place}", one.packed) for place, one in enumerate(self.downloads)),
            *(markup.code("script", script) for script in scripts),
        )
        return markup.html(element("html", self._head(scripts), body, lang="en"))

    def _head(self, scripts: tuple[str, ...]) -> ET.Element:
        policy = (
            f"default-src 'none'; script-src {' '.join(map(digest, scripts))}; style-src 'unsafe-inline'; "
        )
        return element(
            "head",
            element("meta", charset="utf-8"),
            element(
                "meta",
                http_equiv="Content-Security-Policy",
                content=policy + "base-uri 'none'; form-action 'none'",
            ),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", self.title),
            markup.code("style", asset("report.css")),
        )

    def _navigation(self) -> ET.Element:
        links = (element("li", element("a", title, href=f"#{key}")) for key, title in self.links)
        return element("nav", element("ul", *links), aria_label="Sections")


def asset(name: str) -> str:
    """A file of `assets/`."""
    return files("reports.html").joinpath("assets", name).read_text(encoding="utf-8")


def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that leaves `vegaEmbed` behind and nothing else."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    closed = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(() => {{{closed}\n}})();"


def _lead(line: str) -> ET.Element:
    return element("p", line, class_="lead")


def _data(key: str, text: str) -> ET.Element:
    """Text for scripts; no browser runs a script of this type."""
    return markup.code("script", text, id=f"data-{key}", type="application/octet-stream")
