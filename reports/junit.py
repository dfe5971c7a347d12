"""A run, or anything else that passes and fails, as JUnit XML: what CI servers show as test results."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

from results.schema import Outcome
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from results.record import Record
    from results.run import Run

_ENDED = {
    Outcome.OK: None,
    Outcome.INCORRECT: "failure",
    Outcome.CRASHED: "error",
    Outcome.TIMED_OUT: "error",
}
"""How a test of that outcome ends; any other is skipped."""

_NO_XML = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
"""What XML 1.0 cannot hold, not even as an entity (most control characters, lone surrogates), and what a viewer would
obey instead of show: overrides of direction, other line ends."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One line of a CI's test report.

    `ended` is None for a pass, else `failure`, `error` or `skipped`, with a `kind` and the `reason` in words.
    """

    group: str
    name: str
    ended: str | None = None
    kind: str = ""
    reason: str = ""
    time_s: float = 0.0
    output: str = ""


@dataclass(frozen=True, slots=True)
class _Suite:
    name: str
    cases: list[CaseResult] = field(default_factory=list)


def to_junit(run: Run) -> str:
    """A test case per case: ok passes, incorrect fails, what crashed is an error, what was not measured is skipped."""
    took_s: dict[str, float] = defaultdict(float)
    for trial in run.trials:
        took_s[trial.case.key] += trial.elapsed_s or 0.0
    return junit(run.manifest.run_id, [_result(one, took_s[one.case.key]) for one in run.records()])


def junit(name: str, cases: Sequence[CaseResult]) -> str:
    """The cases as one document, a suite per group, in the order in which groups first appear."""
    suites: dict[str, _Suite] = {}
    for case in cases:
        suites.setdefault(case.group, _Suite(case.group)).cases.append(case)
    root = Tree.Element("testsuites", {"name": _xml(name), **_counts(cases)})
    for suite in suites.values():
        element = Tree.SubElement(root, "testsuite", {"name": _xml(suite.name), **_counts(suite.cases)})
        element.set("skipped", str(sum(case.ended == "skipped" for case in suite.cases)))
        for case in suite.cases:
            _append(element, case)
    Tree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Tree.tostring(root, encoding="unicode")}\n'


def _result(record: Record, took_s: float) -> CaseResult:
    times = [
        f"{mode}: {time.value_s:.6g} s from {counted(time.replicates, 'replicate')}"
        for mode, time in record.estimates.items()
    ]
    return CaseResult(
        group=record.case.group,
        name=record.case.variant,
        ended=_ENDED.get(record.outcome, "skipped") if record.outcome else "skipped",
        kind=record.outcome.value if record.outcome else "not_measured",
        reason=record.reason or "",
        time_s=took_s,
        output="\n".join(times),
    )


def _counts(cases: Iterable[CaseResult]) -> dict[str, str]:
    ended = Counter(case.ended for case in cases)
    return {
        "tests": str(ended.total()),
        "failures": str(ended["failure"]),
        "errors": str(ended["error"]),
        "time": f"{sum(case.time_s for case in cases):.3f}",
    }


def _append(suite: Tree.Element, case: CaseResult) -> None:
    named = {"classname": _xml(case.group), "name": _xml(case.name), "time": f"{case.time_s:.3f}"}
    element = Tree.SubElement(suite, "testcase", named)
    if case.ended:
        told = f"{case.kind}: {case.reason}" if case.reason else case.kind
        Tree.SubElement(element, case.ended, type=_xml(case.kind), message=_xml(told))
    if case.output:
        Tree.SubElement(element, "system-out").text = _xml(case.output)


def _xml(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
