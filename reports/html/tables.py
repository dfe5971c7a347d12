"""Tables that a reader can sort and filter, from the one table model: a cell's text, and beside it what sorts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from reports.html.markup import element
from reports.text import plain

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Callable, Sequence

    from reports.columns import Column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sorted(Generic[T]):
    """A column and what it is sorted by: a number, None where a cell has none, or without `by` its text."""

    column: Column[T]
    by: Callable[[T], float | None] | None = None
    explained: str | None = None


@dataclass(frozen=True, slots=True)
class Filter(Generic[T]):
    """A choice over a table: `label`, and each row's value of it. `initial` is what is chosen at first, all if None."""

    name: str
    label: str
    value: Callable[[T], str]
    initial: str | None = None


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """Rows under sortable columns, with filters above; `search` is what the free text is looked for in."""

    caption: str
    noun: str
    columns: Sequence[Sorted[T]]
    rows: Sequence[T]
    filters: Sequence[Filter[T]] = ()
    search: Callable[[T], str] | None = None
    emphasis: Callable[[T], str] = field(default=lambda _: "")


def table(key: str, of: Table[T]) -> ET.Element:
    """The table in a box of its own width, its filters before it; `key` is unique on the page."""
    chosen = [one for one in of.filters if len({one.value(row) for row in of.rows}) > 1]
    controls = [_choice(key, one, of.rows) for one in chosen]
    if of.search and len(of.rows) > 1:
        controls.append(
            _field(f"{key}-search", "Variant contains", element("input", type="search", name="search"))
        )
    form = element("form", *controls, class_="filters", data_table=key) if controls else None
    status = element("p", f"{len(of.rows):,} of {len(of.rows):,} {of.noun}", class_="status", role="status")
    made = element(
        "table",
        element("caption", of.caption),
        element("thead", element("tr", *(_title(one) for one in of.columns))),
        element("tbody", *(_row(row, of, chosen) for row in of.rows)),
        id=key,
        data_noun=of.noun,
    )
    box = element("div", made, class_="scroll", role="group", tabindex=0, aria_label=of.caption)
    return element("div", form, status if form is not None else None, box, class_="table")


def _title(one: Sorted[T]) -> ET.Element:
    button = element("button", one.column.title.strip(), type="button", title=one.explained)
    return element("th", button, scope="col", class_=None if one.column.left else "number")


def _row(row: T, of: Table[T], filters: Sequence[Filter[T]]) -> ET.Element:
    cells = []
    for place, one in enumerate(of.columns):
        by = one.by(row) if one.by else None
        kind = _kind(one.column)
        tag, scope = ("th", "row") if place == 0 else ("td", None)
        sorts = None if by is None else f"{by:.9g}"
        cells.append(element(tag, one.column.cell(row).strip(), class_=kind, scope=scope, data_by=sorts))
    made = element("tr", *cells, class_=of.emphasis(row) or None)
    for choice in filters:
        made.set(f"data-{choice.name}", plain(choice.value(row)))
    if of.search:
        made.set("data-search", plain(of.search(row)).lower())
    return made


def _kind(column: Column[T]) -> str | None:
    """Numbers stand to the right; a column that may be folded holds sentences, which wrap."""
    if not column.left:
        return "number"
    return None if column.least is None else "prose"


def _choice(key: str, one: Filter[T], rows: Sequence[T]) -> ET.Element:
    values = list(dict.fromkeys(plain(one.value(row)) for row in rows))
    options = [element("option", "all", value="")]
    options += [element("option", value, value=value, selected=value == one.initial) for value in values]
    return _field(f"{key}-{one.name}", one.label, element("select", *options, name=one.name))


def _field(key: str, label: str, control: ET.Element) -> ET.Element:
    control.set("id", key)
    return element("div", element("label", label, for_=key), control, class_="field")
