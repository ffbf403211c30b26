"""Settings of hypothesis, and a browser for the tests of pages, which are skipped without playwright or Chromium."""

from __future__ import annotations

import gc
import shutil

import pytest
from hypothesis import settings

# No deadline: numba and torch load code in the middle of some example, whichever it is.
settings.register_profile("outvote", deadline=None)
settings.load_profile("outvote")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# No sandbox: it does not work for root in a container, and the pages are our own.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_finish():
    """Leave modules and tests out of garbage collection: to look through them took a seventh of a run."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


# One for each file of tests: as long as it is open, its event loop counts as running in this thread.
@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="tests of pages need playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("tests of pages need Chromium on the PATH")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def open_page(browser):
    """Open files in the browser; in the end nothing may have gone wrong on them, or been asked for by them."""
    contexts, wrong = [], []

    def open_file(path, **options):
        contexts.append(browser.new_context(**options))
        page, address = contexts[-1].new_page(), path.resolve().as_uri()
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url == address else wrong.append(request.url))
        page.goto(address)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert wrong == []
