"""Makes the pictures in ``docs/images/``: ``python -m scripts.screenshots [REPORT.html]``.

Without an argument the report on ``data/gbase8s`` is made first.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Final

from cdcwb.report import run_report
from tests.browser.chrome import opened, settled

ROOT: Final = Path(__file__).resolve().parent.parent
LARGEST: Final = 300_000
"""No picture is larger, in bytes: the README is read on slow lines too."""

_MARGIN: Final = 8


def take(report: Path, to: Path) -> int:
    """A picture of the top of a report, down to the end of its timeline; returns its size in bytes."""
    with opened(1180, 1000) as chrome:
        settled(chrome, report, charts=2)
        # The buttons show while the pointer is over the chart, which in a headless browser is always.
        chrome.execute_script("document.querySelectorAll('.modebar-container').forEach(bar => bar.remove())")
        bottom = chrome.execute_script("return document.querySelector('#chart-1').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": 1180, "height": bottom + _MARGIN, "scale": 1}
        shot = chrome.execute_cdp_cmd(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
        )
    picture = base64.b64decode(shot["data"])
    if len(picture) > LARGEST:
        raise SystemExit(f"{to.name} would have {len(picture):,} bytes; {LARGEST:,} are allowed")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(picture)
    return len(picture)


def main() -> None:
    """Make every picture."""
    target = ROOT / "docs" / "images" / "transactions.png"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(folder) / "report.html"
        if len(sys.argv) == 1:
            labels = ROOT / "data" / "gbase8s.labels.json"
            run_report("transactions", "data/gbase8s", report, options={"labels": str(labels)})
        size = take(report, target)
    sys.stdout.write(f"{target}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
