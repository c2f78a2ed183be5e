"""The page of a capture for people without JupyterLab: served to this machine, with a token, until Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from selenium.webdriver import Chrome

from tests.browser.chrome import WAIT, opened, waiting
from tests.saved_capture import write_saved

_SENT = "Network.requestWillBeSent"
COMMAND = (  # what runs in the background of a shell ignores Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from cdcwb.cli import main; sys.exit(main())"
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    capture = write_saved(tmp_path / "capture", changes=2000, transactions=300)
    given = [sys.executable, "-c", COMMAND, "open", str(capture), "--browser", "--to", str(tmp_path / "pages")]
    environment = os.environ | {"BROWSER": "true", "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(given, env=environment, start_new_session=True, **pipes) as server:
        try:
            assert server.stderr is not None
            lines = []
            for line in server.stderr:
                lines.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\w+", line):
                    yield server, found[0]
                    return
            raise AssertionError("".join(lines))
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)


def asked_elsewhere(chrome: Chrome) -> set[str]:
    """The other machines that the page reached: what its policy stopped was never sent."""
    events = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = {e["params"]["requestId"]: e["params"]["request"]["url"] for e in events if e["method"] == _SENT}
    stopped = {e["params"]["requestId"] for e in events if e["params"].get("blockedReason") == "csp"}
    hosts = {
        urlsplit(url).hostname for request, url in sent.items() if request not in stopped and url.startswith("http")
    }
    return {str(host) for host in hosts} - {"127.0.0.1"}


def test_the_page_is_drawn_in_a_browser_alone_and_ends_with_ctrl_c(
    served: tuple[subprocess.Popen[str], str],
) -> None:
    server, address = served
    refused = httpx.get(address.partition("?")[0], follow_redirects=True, timeout=WAIT)
    assert "cdcwb-live" not in refused.text
    assert "pages" not in refused.text.partition("<body")[0]
    with opened(1280, 1400) as chrome:
        chrome.get(address)
        wait = waiting(chrome)
        drawn = "return document.querySelectorAll('[data-panel=timeline] .plot .main-svg').length"
        wait.until(lambda c: c.execute_script(drawn))
        assert "of 300 transactions committed" in chrome.find_element("css selector", ".cdcwb-cards").text
        assert chrome.find_elements("css selector", "pre.jp-InputArea-editor, .jp-CodeMirrorEditor") == []
        assert asked_elsewhere(chrome) == set()
    os.killpg(server.pid, signal.SIGINT)
    assert server.wait(WAIT) == 0
