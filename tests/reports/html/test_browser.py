"""Pages as a reader has them: opened from disk in a real browser, without a network."""

from __future__ import annotations

import pytest

from reports.html.run_page import run_page
from results.store import read
from tests.reports.html import pages

pytestmark = pytest.mark.browser

MARKS = "svg .mark-symbol path, svg .mark-rect path"
DRAWN = (
    f"[...document.querySelectorAll('.chart')].map(one => [one.id, one.querySelectorAll('{MARKS}').length])"
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    return written(tmp_path_factory, run_page(read("nvidia-h200/head_dim")))


@pytest.fixture(scope="session")
def default(tmp_path_factory):
    return written(tmp_path_factory, run_page(read("nvidia-h200/default")))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    return written(tmp_path_factory, run_page(pages.hostile_run()))


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    return written(tmp_path_factory, pages.session_page())


def written(tmp_path_factory, page):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(params=["recorded", "default", "hostile", "session"])
def any_page(request):
    return request.getfixturevalue(request.param)


def test_every_chart_draws_the_console_is_empty_and_no_request_leaves(any_page, opened):
    found = opened(any_page)
    drawn = dict(found.page.evaluate(DRAWN))
    assert drawn
    assert [key for key, marks in drawn.items() if not marks] == []
    assert found.console == []
    assert found.requests == [any_page.as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(any_page, scheme, opened):
    axe = pytest.importorskip("axe_playwright_python.base")
    page = opened(any_page, color_scheme=scheme).page
    for details in page.query_selector_all("details"):
        details.evaluate("one => one.open = true")
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [(one["id"], one["nodes"][0]["html"][:200], len(one["nodes"])) for one in found["violations"]]
    assert told == []


@pytest.mark.parametrize("width", [320, 390, 768])
def test_no_width_makes_the_page_scroll_sideways(any_page, width, opened):
    assert opened(any_page, width=width).page.evaluate(OVERFLOW) <= 0
