"""What a page of a notebook begins with: the answer to its question, or the health of the capture."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from cdcwb.analysis.summary_text import Health, Tone
from cdcwb.report.facts import MIME
from cdcwb.views.pages.page import Page, Sheet

WHAT, VERDICT = "A made-up capture.", "Issues found: 1 error."
BEGUN = {"drift_findings_by_rule": {"column_added": 1}, "rows_without_version": []}


class Begun(Page):
    """A page that knows one of its facts when it begins, and the other from another panel."""

    title: ClassVar[str] = "Schema drift"
    notebook: ClassVar[str] = "schema_drift"

    def answered_by(self) -> dict[str, Any]:
        at = datetime(2026, 2, 3, 8, 2, 5, tzinfo=UTC)
        return {"drift_details": [["column_added", "shop.orders", "<note>", None, "<note>", "0042", at]]}


class About(Begun):
    shows_health: ClassVar[bool] = True


class Mute(Begun):
    notebook: ClassVar[str] = ""


def outputs(kind: type[Page]) -> list[dict[str, Any]]:
    counted = {"problems": 1, "changes_by_operation": {}, "problems_by_severity": {}}
    summary = dict.fromkeys(("format", "bytes", "rows", "healthy", "changes", "transactions", "ledger"))
    summary |= dict.fromkeys(("open_transactions", "malformed_bytes")) | counted
    asked = SimpleNamespace(limits=["tables shop.orders"], captures={}, shown="")
    health = Health(Tone.BAD, WHAT, VERDICT)
    opened: Any = SimpleNamespace(
        asked=asked, captures={"a": None}, capture=SimpleNamespace(spark=None), summary=summary, health=health
    )
    sheet = Sheet()
    kind(opened).begin(sheet, BEGUN)
    shown: list[dict[str, Any]] = []
    with (
        patch("IPython.display.display", lambda data, **_: shown.append(data)),
        patch("cdcwb.report.show.style_once"),
    ):
        sheet.put()
    return shown


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (Begun, "1 column added: shop.orders.<note>, at 2026-02-03 08:02:05 UTC"),
        (About, f"{WHAT} {VERDICT}"),
        (Mute, "Only a part is shown: tables shop.orders."),
    ],
)
def test_a_page_begins_with_its_answer_and_that_of_the_capture_with_its_health(kind: type[Page], first: str) -> None:
    shown = outputs(kind)
    assert shown[0]["text/plain"] == first
    assert "<note>" not in shown[0]["text/html"]
    assert sum(VERDICT in str(data.get("text/html")) for data in shown) == (kind is About)
    (facts,) = [data[MIME] for data in shown if MIME in data]
    assert (facts["what"], facts["verdict"], facts["tone"]) == (WHAT, VERDICT, "bad")
    assert "drift_details" not in facts, "another panel records it"
