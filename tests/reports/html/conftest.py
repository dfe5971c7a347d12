"""A real browser for pages, where this machine has one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@dataclass
class Opened:
    """A page in the browser, and all that it said, asked for and failed at since."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any) -> Iterator[Any]:
    """Opens a file from disk and waits until its charts are drawn."""
    contexts = []

    def open_file(path: Path, *, width: int = 1280, **context: Any) -> Opened:
        contexts.append(chromium.new_context(viewport={"width": width, "height": 900}, **context))
        page = contexts[-1].new_page()
        found = Opened(page)
        page.on("console", lambda message: found.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.console.append(f"error: {error}"))
        page.on("request", lambda request: found.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]", timeout=60_000)
        return found

    yield open_file
    for context in contexts:
        context.close()
