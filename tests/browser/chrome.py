"""A headless Chromium that reports what a page asks the network for and what goes wrong in it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from cdcwb.machine import find_browser

__all__ = ["WAIT", "errors", "hovered", "opened", "requests", "settled", "waiting", "without_script"]

WAIT = 300
"""Seconds that a state may take to be reached; the machine may be busy."""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def waiting(chrome: Chrome) -> WebDriverWait[Chrome]:
    """Waits until a condition holds; Selenium's own pause between two looks is half a second."""
    return WebDriverWait(chrome, WAIT, poll_frequency=0.05)


@contextmanager
def opened(width: int = 1240, height: int = 1000) -> Iterator[Chrome]:
    """A browser with a profile of its own, which is removed afterwards."""
    browser, driver = find_browser()
    assert browser is not None, "Chromium is wanted: see `cdcwb doctor`"
    assert driver is not None, "chromedriver is wanted: see `cdcwb doctor`"
    with tempfile.TemporaryDirectory(prefix="cdcwb-browser-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(browser.path)
        for flag in [*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chrome = Chrome(options=options, service=ChromeService(str(driver.path)))
        try:
            chrome.set_page_load_timeout(WAIT)
            chrome.set_script_timeout(WAIT)
            # a window without a screen has the focus in some versions only, and JupyterLab asks for it
            chrome.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
            yield chrome
        finally:
            chrome.quit()


def settled(chrome: Chrome, page: Path, charts: int) -> None:
    """Open a file and wait until its charts are drawn."""
    chrome.get(page.as_uri())
    drawn = "return document.querySelectorAll('figure.chart.drawn, figure.chart.failed').length"
    waiting(chrome).until(lambda c: c.execute_script(drawn) >= charts)


@contextmanager
def without_script(chrome: Chrome, page: Path) -> Iterator[None]:
    """A copy of a file, opened, of which no script may run. (The browser's own switch may reach a page late.)"""
    before, head, after = page.read_text(encoding="utf-8").partition("<head>")
    assert head
    policy = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""
    copy = page.with_name(f"without-script-{page.name}")
    copy.write_text(before + head + policy + after, encoding="utf-8")
    try:
        chrome.get(copy.as_uri())
        yield
    finally:
        errors(chrome)  # the scripts that were refused
        copy.unlink()


def hovered(chrome: Chrome, element: WebElement, label: str) -> str:
    """Point at an element until a label for it appears, and return the label's text; ``label`` is a selector.

    A pointer that arrives while the page is being laid out is not noticed, so it moves until it is.
    """
    text = "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent).join()"

    def seen(chrome: Chrome) -> str:
        chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(chrome).move_to_element_with_offset(element, -1, 0).move_to_element(element).perform()
        return str(chrome.execute_script(text, label))

    return waiting(chrome).until(seen)


def errors(chrome: Chrome) -> list[str]:
    """What the console said since the last call, errors of the page and of its security policy among it."""
    return [entry["message"] for entry in chrome.get_log("browser")]


def requests(chrome: Chrome) -> list[str]:
    """Every address that was asked for since the last call, those that a policy or a missing network stopped included;
    data that came with the page (``data:``, ``blob:``) is no request, nor is what the browser fetches for itself."""
    events: list[dict[str, Any]] = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    sockets = [e["params"]["url"] for e in events if e["method"] == "Network.webSocketCreated"]
    own = ("data", "blob", "about", "chrome", "chrome-untrusted")
    return [url for url in sent + sockets if urlsplit(url).scheme not in own]
