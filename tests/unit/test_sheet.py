"""What a panel says, without a page: its frames, and whether there is anything."""

from __future__ import annotations

from cdcwb.views.pages.page import Sheet


def test_the_frame_of_captured_columns_has_their_names() -> None:
    sheet = Sheet("A table")
    assert sheet.is_empty
    sheet.record({"rows": 0})
    assert sheet.is_empty
    rows = [{"at": None, "c0": "1", "c1": "paid"}]
    sheet.table(rows, {"at": "time", "c0": "order_id", "c1": "state"}, by_heading=True)
    sheet.table(rows, {"c0": "order_id"})
    assert not sheet.is_empty
    assert list(sheet.frame.columns) == ["time", "order_id", "state"]
    assert [list(frame.columns) for frame in sheet.frames] == [["time", "order_id", "state"], ["c0"]]
    assert sheet.frame["state"].tolist() == ["paid"]
