"""A run's page: the answer first, then stage by stage what carries it, then all times, the machine and the records."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from reports import content
from reports.answers import answers
from reports.headline import certainty, doubts, failures, header, notices
from reports.html.about import add_machine, add_records
from reports.html.charts.conditions import conditions_chart
from reports.html.charts.speedups import overview_chart
from reports.html.embedded import raw_records
from reports.html.markup import element
from reports.html.page import Page
from reports.html.shapes import common
from reports.html.stages import add_stages, stages_of
from reports.html.tables import table
from reports.html.times import missing_table, times_table
from reports.machine import machine
from reports.series.conditions import conditions
from reports.series.speedups import speedups
from reports.text import plain
from results.words import counted

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from reports.answers import Answer
    from reports.content import Report
    from results.run import Run


def run_page(run: Run) -> str:
    """The document of one run, or of several merged."""
    report = content.from_run(run)
    name, *_ = machine(report.manifest.environment)
    page = Page(f"Which layout of multi-head attention does the {name} like?", _lead(report))
    _add_answers(page, report, run)
    add_stages(page, report, run)
    _add_times(page, report)
    _add_conditions(page, run)
    add_machine(page, report)
    page.downloads += raw_records(run)
    add_records(page)
    return page.html()


def _lead(report: Report) -> tuple[str, ...]:
    """What was asked, and how much of it there is."""
    measured = dict(header(report)).get("measured", [])
    alike = common([group.case for group in report.groups])
    unfinished = sum(report.unfinished.values())
    return (
        " · ".join(
            [
                f"asked by {plain(shlex.join(map(str, report.manifest.command)))}",
                *([alike] if alike else []),
                *measured,
            ]
        ),
        *([f"Unfinished: {counted(unfinished, 'trial')} missing"] if unfinished else []),
    )


def _add_answers(page: Page, report: Report, run: Run) -> None:
    keys = {(plain(stage.name), plain(stage.direction)): stage.key for stage in stages_of(report)}
    cards = [_card(one, keys.get((one.stage, one.direction))) for one in answers(report)]
    doubt = certainty(report)
    warned = [*notices(report), *failures(report), *doubts(report), *([doubt] if doubt else [])]
    page.section(
        "answers",
        "The answer",
        element("div", *(element("p", one) for one in warned), class_="notice") if warned else None,
        element("div", *cards, class_="cards") if cards else element("p", "Nothing has a time."),
        page.figure("overview", overview_chart(speedups(report, run))),
    )


def _card(answer: Answer, key: str | None) -> ET.Element:
    lines = (
        ("By how much", [answer.by] if answer.by else []),
        ("Why", list(answer.why)),
        ("How sure", [answer.sure]),
    )
    facts = [
        part
        for title, told in lines
        if told
        for part in (element("dt", title), element("dd", *(element("p", _sentence(one)) for one in told)))
    ]
    return element(
        "article",
        element("h3", f"{answer.stage} {answer.direction}"),
        element("p", _sentence(answer.which), class_="which"),
        element("dl", *facts),
        element("a", f"Charts of {answer.stage} {answer.direction}", href=f"#{key}") if key else None,
        class_="card",
    )


def _sentence(text: str) -> str:
    """A variant's name keeps its first letter; our own words begin as sentences do."""
    ours = text.startswith(("the ", "called ", "one ", "its ", "nothing "))
    return (text[0].upper() + text[1:] if ours else text) + "."


def _add_times(page: Page, report: Report) -> None:
    times, missing = times_table(report), missing_table(report)
    if times:
        page.section("times", "All times", table("all-times", times))
    absent = table("not-measured", missing) if missing else None
    everything = element("p", _everything(report))
    page.section("missing", "Not measured", absent if absent is not None else everything)


def _everything(report: Report) -> str:
    """What is told where no case is missing; of a GPU's, also how many were not watched beside their timing."""
    told = "Every case of the plan was timed, and every time is plausible."
    on_gpu = [row for row in report.rows if row.time and row.manifest.environment.get("gpu")]
    unwatched = [row for row in on_gpu if row.record.utilisation is None and row.record.dispatch is None]
    if not unwatched:
        return told
    return f"{told} What the GPU did meanwhile was not recorded for {len(unwatched)} of {counted(len(on_gpu), 'case')}."


def _add_conditions(page: Page, run: Run) -> None:
    found = conditions(run)
    figures = [
        page.figure(f"conditions-{place}", conditions_chart(readings, run_id if len(found) > 1 else None))
        for place, (run_id, readings) in enumerate(found.items())
    ]
    if figures:
        page.section("conditions", "Clocks, power, temperature", *figures)
