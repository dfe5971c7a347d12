"""Elements of a page. Whatever text they are given stays text: it is escaped, and control codes are made visible."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, TypeAlias

from reports.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

Child: TypeAlias = "ET.Element | str | None"


def element(tag: str, *children: Child, **attributes: str | int | bool | None) -> ET.Element:
    """`<tag …>children</tag>`; an attribute that is None or False is left out, one that is True has no value.

    `class_` and `for_` lose their last character, other underscores are hyphens: `aria_label`.
    """
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            made.set(name.rstrip("_").replace("_", "-"), "" if value is True else shown(str(value)))
    add(made, *children)
    return made


def add(parent: ET.Element, *children: Child) -> None:
    """Append elements and text, in order; None is nothing."""
    for child in children:
        if isinstance(child, str):
            _add_text(parent, shown(child))
        elif child is not None:
            parent.append(child)


def code(kind: str, text: str, **attributes: str) -> ET.Element:
    """A `script` or `style` of ours, whose text is not escaped.

    Raises:
        ValueError: the text would end the element.
    """
    if f"</{kind}" in text.lower() or "<!--" in text:
        raise ValueError(f"a {kind} may hold neither </{kind} nor <!--: it would end there")
    made = ET.Element(kind, attributes)
    made.text = text
    return made


def listed(items: Iterable[str], **attributes: str) -> ET.Element:
    """`<ul>` with an item for each."""
    return element("ul", *(element("li", item) for item in items), **attributes)


def shown(text: str) -> str:
    """The text with what no reader can see, and what HTML may not hold, written as an escape; line breaks stay."""
    return "\n".join(map(visible, text.split("\n")))


def html(root: ET.Element) -> str:
    """The document."""
    return "<!DOCTYPE html>\n" + ET.tostring(root, encoding="unicode", method="html") + "\n"


def _add_text(parent: ET.Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
