"""Markdown for a pull request: never longer than a comment may be, what is left out said, every name only text."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import results
from reports import content, pivot, pivot_markdown, run_markdown, verdict_markdown
from reports.markdown_page import LIMIT, Block, Page
from reports.pivot_cells import Use
from reports.text import plain
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders
from tests.results.sessions import NOISY, STEADY, session

if TYPE_CHECKING:
    from results.run import Run

LEAST = 8_000
"""Below this, what must be said at all events may need more."""

names = st.text(st.sampled_from("a|`<>*_[]()@#$~\\&\n!:/ -") | st.characters(), min_size=1, max_size=60) | (
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</details>",
            "<!--",
            "-->",
            "a|b",
            "```",
            "\n\n| x |",
            "](http://x)",
            "@all #1",
        ]
    )
)
limits = st.integers(LEAST, LIMIT)


def html(page: str) -> str:
    """The page as a renderer shows it, which lets HTML through as GitHub does before it sanitises."""
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(page)


def only_ours(page: str) -> None:
    """Nothing acts in the page but what its writers put there."""
    cell = r"t[hd](?: style=\"text-align:\w+\")?"
    allowed = rf"</?(?:h[34]|p|ul|li|strong|em|blockquote|table|thead|tbody|tr|{cell}|details|summary)>"
    assert re.findall(r"<[^>]*>", re.sub(allowed, "", html(page).replace("<!-- -->", ""))) == []
    assert page.count("<details>") == page.count("</details>")
    assert html(page).count("<table>") == len(re.findall(r"^\|( :?--:? \|)+$", page, flags=re.MULTILINE))


def left_out(page: str) -> int:
    """How many cases the page says it leaves out."""
    found = re.search(r"with ([\d,]+) of [\d,]+ cases, left out", unescape(page))
    return int(found[1].replace(",", "")) if found else 0


def cases_shown(page: str) -> int:
    """How many cases its ranked tables hold."""
    tables = [part for part in page.split("\n\n") if part.startswith("| variant |")]
    return sum(len(table.splitlines()) - 2 for table in tables)


def of(variants: list[str], groups: int) -> Run:
    times = {name: 1e-4 * (1 + number) for number, name in enumerate(variants)}
    return runs.run([trial for n in range(groups) for trial in runs.gpu_trials(times, 1, batch=1 + n)])


@settings(max_examples=25, deadline=None)
@given(variants=st.lists(names, min_size=1, max_size=6, unique=True), groups=st.integers(1, 12), limit=limits)
def test_a_runs_page_keeps_every_limit_and_every_name_is_text(
    variants: list[str], groups: int, limit: int
) -> None:
    run = of(variants, groups)
    page = run_markdown.to_markdown(content.from_run(run), limit)
    assert len(page) <= len(page.encode()) <= limit
    assert cases_shown(page) + left_out(page) == len(run.records())
    only_ours(page)


@settings(max_examples=25, deadline=None)
@given(variants=st.lists(names, min_size=1, max_size=6, unique=True), groups=st.integers(1, 12), limit=limits)
def test_a_pivots_page_keeps_every_limit_and_every_name_is_text(
    variants: list[str], groups: int, limit: int
) -> None:
    page = pivot_markdown.to_markdown(pivot.from_run(of(variants, groups), "batch", Use()), limit)
    assert len(page) <= len(page.encode()) <= limit
    only_ours(page)


@settings(max_examples=25, deadline=None)
@given(
    noisy=st.lists(names, max_size=6, unique=True),
    steady=st.lists(names, max_size=6, unique=True),
    limit=limits,
)
def test_a_comparisons_page_keeps_every_limit_and_every_name_is_text(
    noisy: list[str], steady: list[str], limit: int
) -> None:
    cases = {builders.case(name): STEADY for name in steady} | {
        builders.case(name): NOISY * 2 for name in noisy
    }
    page = verdict_markdown.to_markdown(session(cases).comparisons(), limit)
    assert len(page) <= len(page.encode()) <= limit
    only_ours(page)


@given(names)
def test_a_name_reads_as_it_was(name: str) -> None:
    page = run_markdown.to_markdown(content.from_run(of([name], 1)))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html(page), flags=re.DOTALL)
    assert any(
        unescape(cell.replace("<!-- -->", "")).lstrip("▸ ") == plain(name).lstrip("▸ ") for cell in cells
    )


def test_a_run_of_thousands_of_cases_fits_and_says_how_many_are_not_shown() -> None:
    run = of([f"variant_{n}" for n in range(40)], 60)
    page = run_markdown.to_markdown(content.from_run(run))
    assert len(page.encode()) <= LIMIT
    assert left_out(page) > 1000
    assert cases_shown(page) + left_out(page) == 2400
    assert "a page ends at 65,536 characters; the command above shows all of it" in page
    assert page.index("show again: python -m harness report") < page.index("<details>")


def test_a_run_that_fits_leaves_nothing_out() -> None:
    assert "left out" not in run_markdown.to_markdown(content.from_run(results.read("nvidia-h200/default")))


def test_what_failed_is_not_folded() -> None:
    page = run_markdown.to_markdown(content.from_run(runs.every_outcome()))
    shown, _, _ = page.partition("<details>")
    for said in ("**FAILED: 3 cases**", "crashed: is", "Unfinished: ", "run --resume", "note: line 9"):
        assert said in unescape(shown)


def test_faults_without_number_do_not_push_the_page_over_its_limit() -> None:
    trials = [runs.failed(f"broken_{n}", Outcome.CRASHED, f"{n} <|@#" * 60) for n in range(500)]
    page = run_markdown.to_markdown(content.from_run(runs.run(trials, notes=["<" * 400] * 300)))
    assert len(page.encode()) <= LIMIT
    assert "**FAILED: 500 cases**" in page
    assert re.search(r"[\d,]+ of 500 lines left out", page)


def test_a_block_that_does_not_fit_makes_room_for_the_next() -> None:
    page = Page(3_000, "the log has all of it")
    page.blocks([Block("x" * 5_000, rows=7), Block("fits", rows=2)], "groups", "cases")
    assert page.text == (
        "fits\n\n*1 of 2 groups, with 7 of 9 cases, left out: a page ends at 3,000 characters; the log has all of it*\n"
    )


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_table_is_cut_between_two_rows(kept: int) -> None:
    lines = ["| a |", "| - |", *["| " + "é" * 100 + " |"] * 3]
    page = Page(2_000 + sum(len(line.encode()) + 1 for line in lines[: 2 + kept]), "see above")
    page.most(lines, 2, "rows")
    assert page.text.count("é" * 100) == kept
    assert (f"*{3 - kept} of 3 rows left out" in page.text) == (kept < 3)
