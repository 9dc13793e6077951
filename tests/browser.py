"""A Chromium for tests, started once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

UNUSED = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "PaintHolding",
          "SpareRendererForSitePerProcess", "OptimizationHints")  # fmt: skip
"""Parts that nobody sees: the popups of the address bar alone are two pages for each window."""
CHROMIUM = ("--no-sandbox", "--disable-gpu", "--in-process-gpu",
            f"--disable-features={','.join(UNUSED)}")  # fmt: skip
"""How Chromium is started: it forks the process of a page, for half of what starting one takes."""
Work = Callable[[Any], Any]


@pytest.fixture(scope="session")
def in_chromium() -> Iterator[Callable[[Work], Any]]:
    """Does work with a browser on a thread of its own: Playwright's event loop is in nobody's way.

    What a test asks of pages and contexts must be asked within the work.
    """
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with ThreadPoolExecutor(1) as thread:
        playwright = thread.submit(lambda: api.sync_playwright().start()).result()
        launch = playwright.chromium.launch
        browser = thread.submit(launch, executable_path=path, args=CHROMIUM).result()
        try:
            yield lambda work: thread.submit(work, browser).result()
        finally:
            thread.submit(browser.close).result()
            thread.submit(playwright.stop).result()
