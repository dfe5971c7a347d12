"""Pages as a reader has them: opened from disk in a real browser, without a network."""

from __future__ import annotations

import csv
import io
import json

import pytest

from reports.html.run_page import run_page
from results.store import read
from tests.reports import runs, sweeps
from tests.reports.html import pages

pytestmark = pytest.mark.browser

MARKS = "svg .mark-symbol path, svg .mark-rect path"
DRAWN = (
    f"[...document.querySelectorAll('.chart')].map(one => [one.id, one.querySelectorAll('{MARKS}').length])"
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SHOWN = "id => [...document.getElementById(id).tBodies[0].rows].filter(row => !row.hidden).map(row => "
CELLS = f"{SHOWN}[...row.cells].map(cell => cell.textContent))"


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


@pytest.fixture(scope="session")
def lone(tmp_path_factory):
    """One replicate: nothing has an interval."""
    trials = [
        trial
        for batch in (1, 8, 32)
        for stage, times in (("qkv", runs.QKV), ("attention", runs.ATTENTION))
        for trial in runs.gpu_trials(times, 1, stage=stage, batch=batch)
    ]
    return written(tmp_path_factory, run_page(runs.run(trials, replicates=1)))


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    return written(tmp_path_factory, run_page(sweeps.sweep(range(16, 257, 8), ("padding", "other"))))


@pytest.fixture(scope="session")
def failed(tmp_path_factory):
    return written(tmp_path_factory, run_page(pages.run_of_long_reasons()))


def written(tmp_path_factory, page):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(params=["recorded", "default", "hostile", "session", "lone", "sweep", "failed"])
def any_page(request):
    return request.getfixturevalue(request.param)


def test_every_chart_draws_the_console_is_empty_and_no_request_leaves(any_page, opened):
    found = opened(any_page)
    drawn = dict(found.page.evaluate(DRAWN))
    assert drawn
    assert [key for key, marks in drawn.items() if not marks] == []
    assert found.console == []
    assert found.requests == [any_page.as_uri()]


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("default", "light"),
        *((name, one) for name in ("recorded", "hostile", "session") for one in ("light", "dark")),
    ],
)
def test_axe_finds_nothing(name, scheme, opened, request):
    axe = pytest.importorskip("axe_playwright_python.base")
    page = opened(request.getfixturevalue(name), color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [(one["id"], one["nodes"][0]["html"][:200], len(one["nodes"])) for one in found["violations"]]
    assert told == []


@pytest.mark.parametrize("width", [320, 768])
def test_no_width_makes_the_page_scroll_sideways(any_page, width, opened):
    assert opened(any_page, width=width).page.evaluate(OVERFLOW) <= 0


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["failed", "default"])
def test_a_reason_is_read_whole_beside_its_variant_without_scrolling_sideways(name, width, opened, request):
    page = opened(request.getfixturevalue(name), width=width).page
    box = page.evaluate("document.querySelector('#missing .scroll').clientWidth")
    rows = page.evaluate(
        "[...document.querySelectorAll('#missing tbody tr')].map(row => [0, 2].map(at => row.cells[at]))"
        ".map(([name, reason]) => [name.offsetWidth, reason.offsetWidth, reason.scrollWidth - reason.clientWidth])"
    )
    assert rows
    for variant, reason, cut in rows:
        assert variant + reason <= box
        assert cut <= 0
    assert width < 1280 or page.evaluate("document.querySelector('#missing .scroll').scrollWidth") <= box


def test_charts_lie_within_the_page_when_the_window_is_made_narrow(recorded, opened):
    page = opened(recorded).page
    page.set_viewport_size({"width": 360, "height": 800})
    page.wait_for_function(
        "[...document.querySelectorAll('.chart svg')].every(one => one.getBoundingClientRect().right <= 360)"
    )
    assert dict(page.evaluate(DRAWN)).keys() == dict(opened(recorded).page.evaluate(DRAWN)).keys()


def test_nothing_that_a_record_says_runs(hostile, opened):
    page = opened(hostile).page
    assert page.title().startswith("Which layout of multi-head attention does the GPU <script>")
    scripts = page.evaluate("[...document.scripts].filter(one => !one.type).length")
    assert scripts == 2
    assert page.evaluate("document.images.length") == 0
    shown = page.evaluate(f"{SHOWN}row.cells[0].textContent)", "all-times")
    assert pages.ALERT in shown
    assert "__proto__" in shown


def test_a_script_that_found_its_way_in_would_be_refused(hostile, opened):
    found = opened(hostile)
    found.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert found.page.evaluate("window.ran") is None
    assert "Content Security Policy" in found.console[0]


def test_a_title_sorts_by_what_the_cells_mean_and_again_the_other_way_by_keyboard(recorded, opened):
    page = opened(recorded).page
    title = page.get_by_role("button", name="time", exact=True)
    title.focus()
    page.keyboard.press("Enter")
    times = page.evaluate(f"{SHOWN}Number(row.querySelectorAll('[data-by]')[1].dataset.by))", "all-times")
    assert len(times) == 45
    assert times == sorted(times)
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=descending]")
    times = page.evaluate(f"{SHOWN}Number(row.querySelectorAll('[data-by]')[1].dataset.by))", "all-times")
    assert times == sorted(times, reverse=True)


def test_a_missing_value_comes_last_whichever_way_it_is_sorted(recorded, opened):
    page = opened(recorded).page
    page.select_option("#all-times-mode", "")
    for _ in range(2):
        page.get_by_role("button", name="peak", exact=True).click()
        column = page.evaluate(
            "[...document.querySelectorAll('#all-times thead th')].findIndex(one => one.textContent === 'peak')"
        )
        shown = [cells[column] for cells in page.evaluate(CELLS, "all-times")]
        assert shown.count("–") == 90
        assert set(shown[-90:]) == {"–"}


def test_filters_leave_what_was_chosen_and_say_how_much(recorded, opened):
    page = opened(recorded).page
    status = page.locator("#times .status")
    assert status.text_content() == "45 of 135 times"
    page.select_option("#all-times-stage", "qkv")
    page.select_option("#all-times-mode", "graph")
    page.select_option("#all-times-shape", "d_model 768 = 12×64")
    page.fill("#all-times-search", "FUSED")
    assert status.text_content() == "2 of 135 times"
    assert [cells[0] for cells in page.evaluate(CELLS, "all-times")] == ["fused_qkv", "fused"]


def test_following_a_variant_makes_the_others_faint(recorded, opened):
    page = opened(recorded).page
    faint = (
        "[...document.querySelectorAll('#stage-0-qkv-speedups .mark-symbol path')]"
        ".filter(one => Number(one.getAttribute('opacity') ?? 1) < 0.5).length"
    )
    assert page.evaluate(faint) == 0
    page.get_by_label("Follow a variant").first.select_option("headmajor")
    page.wait_for_function(f"{faint} === 9")


def test_samples_of_another_shape_are_drawn_when_it_is_chosen(recorded, opened):
    page = opened(recorded).page
    marks = f"document.querySelectorAll('#stage-0-qkv-samples {MARKS.split(',')[0]}').length"
    before = page.evaluate(marks)
    page.select_option("#stage-0-qkv-samples-mode", "eager")
    page.wait_for_function(f"{marks} > 0 && {marks} !== {before}")


def test_a_mark_tells_what_it_is(recorded, opened):
    page = opened(recorded).page
    page.locator("#stage-0-qkv-speedups .mark-symbol path").first.hover()
    page.wait_for_selector(".vg-tooltip.visible")
    assert "fused" in page.locator(".vg-tooltip").text_content()


def test_the_records_come_out_as_they_went_in(recorded, opened):
    page = opened(recorded).page
    texts = {}
    for button in page.locator("[data-download]").all():
        with page.expect_download() as saved:
            button.click()
        texts[saved.value.suggested_filename] = saved.value.path().read_text(encoding="utf-8")
    run = read("nvidia-h200/head_dim")
    assert json.loads(texts["manifest.json"]) == run.manifest.to_json()
    lines = [json.loads(line) for line in texts["trials.jsonl"].splitlines()]
    assert [line for line in lines if "outcome" in line] == [trial.to_json() for trial in run.trials]
    assert [line["observation"] for line in lines if "observation" in line] == [
        one.to_json() for one in run.observations
    ]
    assert [row["variant"] for row in csv.DictReader(io.StringIO(texts["cases.csv"]))] == [
        record.case.variant for record in run.records()
    ]


def test_everything_that_can_be_used_is_reached_by_the_tab_key(recorded, opened):
    page = opened(recorded).page
    wanted = page.evaluate(
        "document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]').length"
    )
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert len(reached) >= wanted


def test_without_scripts_every_row_is_there_and_the_page_says_what_is_missing(recorded, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(recorded.as_uri())
    assert (
        page.locator(".chart").first.text_content()
        == "A script draws a chart here; the tables have its numbers."
    )
    assert page.locator("#all-times tbody tr").count() == 135
    assert page.locator("#all-times tbody tr").last.is_visible()
    context.close()


def test_it_prints_with_every_chart_in_ink_on_paper(recorded, opened):
    page = opened(recorded, color_scheme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).color") == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    label = "document.querySelector('.chart svg .role-axis-label text')"
    assert page.evaluate(f"getComputedStyle({label}).fill") == "rgb(0, 0, 0)"
    assert len(page.pdf()) > 50_000
