"""Judged claims as tables and sentences: every number with its unit, every verdict with its words."""

from __future__ import annotations

import io
import json
import re

import pytest

from reports.claims import found, from_findings
from reports.claims_export import to_json, to_markdown
from reports.claims_terminal import render
from reports.markdown_page import LIMIT
from reports.terminal import new_console
from results.claims.claim import Answer, Claim, Number, Part, Unit
from results.claims.judging import Finding, judgement_of


def part(answer: Answer, says: str = "it is {} as fast", about: str = "speed", **fields) -> Part:
    number = None if answer is Answer.MISSING else Number(1.234, Unit.TIMES, 1.2, 1.3)
    reason = "nobody measured it" if answer in (Answer.MISSING, Answer.UNDECIDED) else None
    return Part(
        about, fields.pop("at", "batch 1"), says, answer, "above 1.1 ×", fields.pop("number", number), reason
    )


def finding(*parts: Part, claim_id: str = "C2") -> Finding:
    claim = Claim(claim_id, "Wide is *fast*.", "more than 1.1 ×", lambda _: list(parts))
    return Finding(claim, judgement_of(parts), parts, "NVIDIA H200")


HOLDS, FAILS, UNDECIDED, MISSING = (part(answer, about=answer.value) for answer in Answer)
EVERY = [
    finding(HOLDS),
    finding(HOLDS, FAILS, MISSING),
    finding(FAILS, UNDECIDED),
    finding(FAILS),
    finding(MISSING),
    finding(HOLDS, HOLDS, part(Answer.HOLDS, "it is small", "size"), FAILS),
]


def shown(findings: list[Finding], width: int = 100) -> str:
    out = io.StringIO()
    render(from_findings(findings, "a-run"), new_console(out, width))
    return out.getvalue()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(3.3291, Unit.TIMES, 3.28, 3.378), "3.33 × (3.28 × to 3.38 ×)"),
        (Number(0.791, Unit.SHARE, 0.78, 0.8), "79 % (78 % to 80 %)"),
        (Number(2359296, Unit.COUNT), "2,359,296"),
        (Number(0.725, Unit.COUNT), "0.725"),
        (Number(0.0, Unit.COUNT), "0"),
    ],
)
def test_a_number_has_its_unit_and_its_interval(number: Number, text: str) -> None:
    assert found(part(Answer.HOLDS, "{}", at="", number=number), interval=True) == text


def test_a_place_comes_first() -> None:
    assert found(HOLDS, interval=False) == "at batch 1, it is 1.23 × as fast"


def test_the_sentences_of_each_verdict() -> None:
    said = [told.sentences for told in from_findings(EVERY, "").told]
    fast, level = "at batch 1, it is 1.23 × as fast", "nobody measured it"
    assert said[0] == (f"Holds: {fast}.", "Judged by this rule: more than 1.1 ×.")
    assert said[1] == (
        f"Holds: {fast}.",
        f"Does not hold: {fast}; open: at batch 1, it is – as fast: {level}.",
    )
    assert said[2] == (f"Does not hold: {fast}.", f"Open: {fast}: {level}.")
    assert said[3] == (f"Does not hold: {fast}.", "Judged by this rule: more than 1.1 ×.")
    assert said[4][0] == f"Nothing of it is decided: at batch 1, it is – as fast: {level}."
    assert said[5][0] == f"Holds: {fast}; at batch 1, it is small; and 1 statement more."


def test_the_title_counts_verdicts_and_names_machine_and_run() -> None:
    assert from_findings(EVERY[:4], "a-run").title == (
        "4 claims judged on NVIDIA H200, run a-run: 1 supported, 1 partly, 2 refuted"
    )


def test_few_claims_are_shown_with_every_statement_and_many_with_two_sentences() -> None:
    assert "[above 1.1 ×]" in shown(EVERY[:3])
    assert "[above 1.1 ×]" not in shown(EVERY)
    assert "measure it: python -m harness claims C2" in shown(EVERY)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = shown(EVERY, width).splitlines()
    assert max(len(line) for line in lines if "measure it:" not in line) <= width


def test_markdown_ends_where_a_comment_does_and_says_what_is_left_out() -> None:
    page = to_markdown(EVERY * 60, "a-run", ["a note"])
    assert len(page.encode()) <= LIMIT
    assert re.search(
        r"[\d,]+ of 360 claims, with [\d,]+ of 720 statements, left out: .* --json has all of it", page
    )


def test_markdown_escapes_what_acts_and_holds_every_statement() -> None:
    page = to_markdown(EVERY, "a-run", ["a note"])
    assert "Wide is &#42;fast&#42;." in page
    assert page.count("| holds | at batch 1, it is 1.23 × (1.20 × to 1.30 ×) as fast | above 1.1 × |") == 4
    assert "- a note" in page


def test_json_is_strict_and_complete() -> None:
    unbounded = part(Answer.UNDECIDED, number=Number(1.0, Unit.TIMES, 0.0, float("inf")))
    data = json.loads(to_json([finding(unbounded), finding(MISSING)], "a-run"))
    one, other = data["claims"]
    assert (data["run"], data["confidence"]) == ("a-run", 0.99)
    assert (one["judgement"], one["statements"][0]["high"]) == ("not measurable here", None)
    assert other["statements"][0] == {
        "about": "missing", "at": "batch 1", "says": "it is {} as fast", "answer": "missing", "margin": "above 1.1 ×",
        "reason": "nobody measured it", "value": None, "unit": None, "low": None, "high": None,
    }  # fmt: skip
