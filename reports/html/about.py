"""What stands at the end of a page: the machine, its software, the exact command, and the raw records to take away."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from reports import units
from reports.columns import case_title
from reports.headline import header, legend
from reports.html.markup import element, listed
from reports.text import plain, shorten

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator, Sequence

    from reports.content import Report
    from reports.html.page import Page
    from results.schema import Manifest


def add_machine(page: Page, report: Report) -> None:
    """A section: what it ran on, how, and what the words of the tables mean."""
    page.section(
        "machine",
        "Machine, method and words",
        facts_of(report),
        element("h3", "What the marks and titles mean"),
        listed(legend(report)),
        *_remarks(report),
        asked(report.manifest),
    )


def facts_of(report: Report) -> ET.Element:
    """What it was measured on, how much, how precisely, and how it was verified."""
    facts = [part for label, told in header(report) for part in _fact(label, " · ".join(told))]
    return element("dl", *facts, class_="facts")


def asked(manifest: Manifest, title: str = "Command, settings and environment") -> ET.Element:
    """The exact command, and everything that the run wrote down of where it ran."""
    rows = [("settings", manifest.settings), ("environment", manifest.environment)]
    facts = [part for name, of in rows for path, value in _flat(name, of) for part in _fact(path, value)]
    return element(
        "details",
        element("summary", title),
        element("pre", shlex.join(map(str, manifest.command)), tabindex=0),
        element(
            "dl",
            *_fact("run", manifest.run_id),
            *_fact("begun", manifest.created_utc),
            *facts,
            class_="facts",
        ),
    )


def add_records(page: Page) -> None:
    """A section: a button for every file that the page carries."""
    items = [
        element(
            "li",
            element(
                "button",
                f"Save {plain(one.name)}",
                type="button",
                data_download=place,
                data_name=plain(one.name),
                data_type=one.media_type,
            ),
            element("span", f"{units.size(one.size_bytes)}: {one.what}"),
        )
        for place, one in enumerate(page.downloads)
    ]
    page.section(
        "records",
        "Raw records",
        element(
            "p", "This file carries what it was made of; nothing was fetched to show it, and nothing is sent."
        ),
        element("ul", *items, class_="downloads"),
    )


def _remarks(report: Report) -> Iterator[ET.Element]:
    """What is to be said of all groups, then of each."""
    if report.remarks or report.notes:
        yield element("h3", "Remarks")
        yield listed(
            [*map(shorten, report.notes), *(f"{one.kind}: {one.sentence}" for one in report.remarks)]
        )
    told = [(group, group.remarks) for group in report.groups if group.remarks]
    if told:
        lines = [
            f"{', '.join(case_title(group.case))}: {remark.kind}: {remark.sentence}"
            for group, remarks in told
            for remark in remarks
        ]
        yield element("details", element("summary", f"Remarks on single groups: {len(lines)}"), listed(lines))


def _fact(label: str, value: object) -> Sequence[ET.Element]:
    return element("dt", plain(label)), element("dd", plain(value))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(path, text) of every plain value inside."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _flat(f"{name}.{key}", one)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False, default=str)
