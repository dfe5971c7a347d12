"""What a chart is to a page, and what all of them share: signs, colours, axes that are read alike in light and dark."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import altair as alt

from reports.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TAKEN = (
    *(
        "__proto__",
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
        "constructor",
    ),
    *("hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
)
"""What every object of JavaScript has a property of."""

ROWS = "rows"
"""The name under which every specification looks for its data: the page brings it, so that it can be exchanged."""

MOST_PANELS = 24
"""More shapes than this are looked at one by one."""

INK = "currentColor"
"""The page's own text colour, whatever the theme and on paper."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#7f7f7f", "#3f9fd8")
"""After Okabe and Ito: told apart by every kind of colour vision, three times as bright or dark as black and white."""

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])

_TITLES = {
    "labelColor": INK,
    "titleColor": INK,
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
}
_LINES = {"domainColor": INK, "tickColor": INK, "gridColor": INK, "domainOpacity": 0.4, "tickOpacity": 0.4}
CONFIG: dict[str, Any] = {
    "aria": False,  # the figure says what it shows; its table has the numbers
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {**_TITLES, **_LINES, "gridOpacity": 0.14, "labelLimit": 220},
    "legend": {**_TITLES, "orient": "bottom", "labelLimit": 240, "symbolSize": 90, "symbolOpacity": 1},
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelFontWeight": "bold"},
    "text": {"color": INK, "fontSize": 12},
}
"""The look of every chart."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure.

    `title` says what is drawn, `caption` how to read it, `spoken` what somebody hears who does not see it.
    `panels` counts its panels, `panel_px` is the least width of one, `labels_px` what stands left of the first:
    the page lays out as many side by side as it has room for. With `choices` the reader picks one, by its `shape` and
    where it has one its `mode`; it brings its own `rows`, or `strips` of samples that the page makes rows of.
    """

    title: str
    caption: str
    spoken: str
    spec: dict[str, Any]
    rows: list[dict[str, Any]]
    panels: int = 1
    panel_px: int = 240
    labels_px: int = 60
    choices: list[dict[str, Any]] = field(default_factory=list)


def named(name: str) -> str:
    """A name as charts have it: Vega keeps groups in objects, where `constructor` and the like are taken."""
    shown = plain(name)
    return f"{shown}\u00a0" if shown in TAKEN else shown


def label_px(names: Iterable[str]) -> int:
    """About what the longest of these names takes beside an axis, which cuts it at 220."""
    return min(220, 7 * max(map(len, names), default=0)) + 18


def decades(values: Iterable[float | None]) -> list[float]:
    """Ticks of a logarithmic axis over these values: powers of ten, and the fewer of them the more between."""
    known = [one for one in values if one is not None and one > 0]
    if not known:
        return []
    spanned = max(known) / min(known)
    steps = range(1, 10) if spanned < 12 else (1, 2, 5) if spanned < 500 else (1,)
    powers = range(math.floor(math.log10(min(known))), math.ceil(math.log10(max(known))) + 1)
    return [step * 10.0**power for power in powers for step in steps]


def one_by_one(rows: Sequence[dict[str, Any]], panels: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of each panel as a choice, where there are more panels than anybody looks through; else none."""
    if len(panels) <= MOST_PANELS:
        return []
    return [{"shape": panel, "rows": [row for row in rows if row["panel"] == panel]} for panel in panels]


def rows_chart() -> alt.Chart:
    """A chart of the page's rows."""
    return alt.Chart(alt.NamedData(name=ROWS))


def rule_at(x: float, opacity: float = 0.5) -> alt.Chart:
    """An upright line through this value."""
    place = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=INK, opacity=opacity)
    rule: alt.Chart = place.encode(x=alt.datum(x))
    return rule


def spec_of(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The specification without Altair's own look and without the address of its schema."""
    spec: dict[str, Any] = chart.to_dict(validate=True)
    return {name: value for name, value in spec.items() if name not in ("config", "$schema")}


def highlight() -> alt.Parameter:
    """The variant that the reader follows; all of them at first."""
    return alt.param(name="highlight", value="")


def followed(opacity: float = 1.0) -> Any:
    """Opacity of a mark of a variant: faint where another one is followed."""
    return alt.condition(
        "highlight == '' || datum.variant == highlight", alt.value(opacity), alt.value(0.1 * opacity)
    )


def colour_of(names: Sequence[str], name: str = "variant", title: str | None = None) -> alt.Color:
    """A colour for each name, alike wherever the names are."""
    chosen = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    return alt.Color(f"{name}:N", scale=alt.Scale(domain=list(names), range=chosen), title=title)


def shape_of(names: Sequence[str], name: str = "variant", title: str | None = None) -> alt.Shape:
    """A sign for each name, so that none is told by its colour alone."""
    chosen = [SHAPES[place % len(SHAPES)] for place in range(len(names))]
    return alt.Shape(f"{name}:N", scale=alt.Scale(domain=list(names), range=chosen), title=title)


def dash_of(names: Sequence[str], name: str = "variant") -> alt.StrokeDash:
    """A dash for each name."""
    chosen = [DASHES[place % len(DASHES)] for place in range(len(names))]
    return alt.StrokeDash(f"{name}:N", scale=alt.Scale(domain=list(names), range=chosen), title=None)


def told(**fields: str) -> list[alt.Tooltip]:
    """What is told of a mark that is pointed at: `title=field`, underscores of a title as blanks."""
    return [alt.Tooltip(f"{name}:N", title=title.replace("_", " ")) for title, name in fields.items()]
