"""Pages of a capture share its selection; zone and theme belong to each page; decimals are compared exactly."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.views.pages import Transactions
from cdcwb.views.widget import page
from tests.debezium import change, connect, wrapped

pytestmark = pytest.mark.spark

DATA = Path(__file__).resolve().parents[2] / "data"


def capture_of(folder: Path, *messages: dict[str, Any]) -> str:
    folder.mkdir()
    (folder / "orders.json").write_text("".join(json.dumps(message) + "\n" for message in messages))
    return str(folder)


def test_opening_a_page_leaves_the_selection_as_it_is() -> None:
    capture = cdcwb.load(str(DATA / "gbase8s"))
    begin = datetime(2025, 3, 23, 8, 1, 39, tzinfo=UTC)
    capture.selection.update(time_from=begin, tables=["shop.orders"], columns=["state"], text="shop")
    chosen = capture.selection.chosen()
    assert set(chosen) == {"time_from", "tables", "columns", "text"}
    drift = capture.view.drift()
    for name in ("history", "masks", "transactions"):
        getattr(capture.view, name)()
    assert capture.selection.chosen() == chosen
    limits = "; ".join(drift.asked.limits)
    assert "shop.orders" in limits, "what the page is limited to"
    assert "not applied to this page" in limits, "and what it does not apply"


def test_a_brush_is_read_in_the_zone_of_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(zone: str, theme: str) -> Any:
        arguments = (str(DATA / "gbase8s"), "auto", "{}", [], "", "", "", zone, theme)
        return page(Transactions.open(*arguments).timeline()).children[0]

    monkeypatch.setenv("CDCWB_VIEWS", "live")
    berlin, utc = opened("Europe/Berlin", "dark"), opened("UTC", "light")
    for widget, hour in ((berlin, 8), (utc, 9), (berlin, 8)):
        brushed = {"do": "brush", "panel": "timeline", "x": ["2025-03-23 09:00:00", "2025-03-23 09:30:00"]}
        widget._handle_custom_msg(brushed, [])
        assert widget.bench.selection.time_from == datetime(2025, 3, 23, hour, tzinfo=UTC)


def test_decimals_of_38_digits_differ_in_the_last(tmp_path: Path) -> None:
    """The scales differ, so that they are compared as numbers."""

    def capture(name: str, digits: int, scale: int) -> cdcwb.Capture:
        number = base64.b64encode(digits.to_bytes(17, "big")).decode()
        kind = connect("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": str(scale)})
        made = change("c", after={"id": 1, "amount": number})
        message = wrapped(made, id=connect("int32", optional=False), amount=kind)
        return cdcwb.load(capture_of(tmp_path / name, message), keys="public.orders:id")

    digits = 1234567890123456789012345678901234567
    source, same, other = (
        capture(*one) for one in (("a", digits, 2), ("b", digits * 10, 3), ("c", digits * 10 + 1, 3))
    )
    pages = [source.view.reconcile(target).side_by_side() for target in (same, other)]
    assert "Compared are committed changes; rows of a full load are not." in pages[0].blocks[1].text
    facts = [page.facts for page in pages]
    assert [(one["reconcile_same"], one["reconcile_different"]) for one in facts] == [(1, 0), (0, 1)]


def test_a_position_selects_no_change_that_has_none(tmp_path: Path) -> None:
    without = change("c", after={"id": 1})
    without["source"] = {name: value for name, value in without["source"].items() if name not in ("lsn", "sequence")}
    path = capture_of(tmp_path / "capture", without, change("c", after={"id": 2}))
    capture = cdcwb.load(path)
    assert [row.position is None for row in capture.changes.collect()] == [True, False]
    capture.selection.update(position_from="0")
    assert sum(sum(one.values()) for one in capture.view.capture.tables().facts["tables"].values()) == 1
    assert capture.selected().changes.count() == 1
