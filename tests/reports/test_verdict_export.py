"""Verdicts for a pull request, a CI server and other programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from reports.verdict_export import WRITERS, to_csv, to_json, to_junit
from reports.verdict_markdown import LIMIT, to_markdown
from results.comparison import Comparisons
from tests.reports.test_export import CONTROLS, HOSTILE
from tests.reports.test_junit import schema
from tests.reports.test_verdicts import ANSWER, everything
from tests.results import builders
from tests.results.sessions import NOISY, STEADY, session


def rows_of(html: str) -> int:
    return html.count("<tr>")


def rendered(page: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(page)


def test_the_page_begins_with_the_answer_and_hides_the_whole_table() -> None:
    page = to_markdown(everything())
    title, answer, *_ = page.split("\n\n")
    assert title == "### main → working tree"
    assert answer == f"**{ANSWER}**"
    before, _, hidden = page.partition("<details>")
    assert "<summary>all of 8 comparisons</summary>" in hidden
    assert "</details>" in hidden
    assert rows_of(rendered(before)) == 1 + 6  # the title row, and all that is not the same
    assert rows_of(rendered(hidden)) == 1 + 8


def test_a_page_of_a_quiet_change_shows_no_table_but_the_hidden_one() -> None:
    before, _, _ = to_markdown(session({builders.case("fused"): STEADY}).comparisons()).partition("<details>")
    assert "<table>" not in rendered(before)


def test_a_page_never_exceeds_what_a_comment_can_hold_and_says_what_is_left_out() -> None:
    cases = {builders.case(f"variant_{n}", batch=1 + n % 7): NOISY * 2 for n in range(700)}
    page = to_markdown(session(cases).comparisons())
    assert len(page) <= len(page.encode()) <= LIMIT
    assert "of 1,400 changed comparisons left out: a page ends at 65,536 characters" in unescape(page)
    assert "1,400 of 1,400 comparisons left out" in page
    assert page.count("<details>") == page.count("</details>") == 1
    assert "pairs of fresh processes" in page


@pytest.mark.parametrize("limit", [3_000, 5_000, 8_000, 20_000])
def test_a_page_ends_at_any_limit(limit: int) -> None:
    of = replace(everything(), notes=tuple(f"note {n} " + "<" * 300 for n in range(100)))
    page = to_markdown(of, limit)
    assert len(page.encode()) <= limit
    assert "REGRESSION" in page
    assert "left out" in page


def test_whatever_a_record_says_it_does_not_act_in_the_page() -> None:
    odd = builders.case(HOSTILE)
    of = session({odd: NOISY * 2}).comparisons()
    page = rendered(to_markdown(replace(of, base=HOSTILE, notes=(HOSTILE,), only_base=(odd,))))
    assert "<script" not in page
    assert "<a " not in page
    assert rows_of(page) == 6


def test_csv_shows_control_characters_as_escapes() -> None:
    of = everything()
    of = replace(of, rows=(replace(of.rows[0], reason=CONTROLS, needed=12), *of.rows[1:]))
    written = to_csv(of)
    assert all(character.isprintable() or character == "\n" for character in written)
    rows = list(csv.DictReader(io.StringIO(written)))
    assert rows[0]["reason"].startswith(r"\x1b[31mred")
    assert rows[0]["needed"] == "12"
    assert len(rows) == len(of.rows)


def test_csv_has_a_row_per_comparison() -> None:
    of = everything()
    rows = list(csv.DictReader(io.StringIO(to_csv(of))))
    assert len(rows) == len(of.rows)
    slower = [row for row in rows if row["verdict"] == "slower"]
    assert float(slower[0]["ratio"]) == pytest.approx(1.03, abs=1e-3)
    assert slower[0]["confirmed"] == "True"
    (broken, _) = (row for row in rows if row["variant"] == "broken")
    assert (broken["ratio"], broken["needed"]) == ("", "")


def test_json_holds_everything() -> None:
    of = everything()
    data = json.loads(to_json(of))
    assert (data["base"], data["head"], data["unit"]) == ("main", "working tree", "pairs")
    assert [row["verdict"] for row in data["rows"]] == [row.verdict for row in of.rows]
    assert [case["variant"] for case in data["only_base"]] == ["gone"]
    assert [case["variant"] for case in data["failed"]] == ["broken"]
    assert data["comparable"] is True
    assert json.loads(to_json(Comparisons((), "pairs", "base", "head")))["comparable"] is False


def test_junit_fails_what_is_slower_skips_what_is_open_and_blames_what_broke() -> None:
    document = ElementTree.fromstring(to_junit(everything()))
    ended = {
        case.get("name"): next((child.tag for child in case if child.tag != "system-out"), "passed")
        for case in document.iter("testcase")
    }
    assert ended == {
        "regressed [isolated]": "failure",
        "regressed [graph]": "failure",
        "improved [isolated]": "passed",
        "improved [graph]": "passed",
        "noisy [isolated]": "skipped",
        "noisy [graph]": "skipped",
        "steady [isolated]": "passed",
        "steady [graph]": "passed",
        "broken [isolated]": "error",
        "broken [graph]": "error",
        "gone": "skipped",
        "new": "skipped",
    }
    assert document.get("failures") == "2"
    (failure, _) = document.iter("failure")
    assert failure.get("message") == "slower: +3.00 % (+2.91 % … +3.09 %), 0.0001 s → 0.000103 s"


def test_junit_is_valid_against_the_schema_whatever_a_record_says() -> None:
    odd = replace(everything(), base=HOSTILE + "\x00", only_base=(builders.case(HOSTILE + "\x1b"),))
    schema().validate(to_junit(odd))


def test_junit_of_what_is_not_guarded_fails_nothing() -> None:
    of = everything()
    free = replace(of, rows=tuple(replace(row, guarded=False) for row in of.rows))
    document = ElementTree.fromstring(to_junit(free))
    assert (document.get("failures"), document.get("errors")) == ("0", "0")


@pytest.mark.parametrize("name", WRITERS)
def test_an_empty_comparison_can_be_written(name: str) -> None:
    assert WRITERS[name](Comparisons((), "pairs", "base", "head"))
