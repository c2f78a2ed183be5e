"""The history of a row of a table: its changes, the old and new value of each column, the row after each change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from cdcwb import charts
from cdcwb.analysis import replay_page as ask
from cdcwb.analysis.row_life import key_text
from cdcwb.report import show
from cdcwb.views.pages.page import Page, panel
from cdcwb.views.pages.sheet import Sheet
from cdcwb.words import count, plural

if TYPE_CHECKING:
    from cdcwb.analysis.replay_page import Life
    from cdcwb.report.opening import Page as Opened

__all__ = ["History", "put_changes", "put_which"]


def put_which(sheet: Sheet, table: str, life: Life) -> None:
    """Which row it is, and how many changes it has."""
    which = ", the row with the most changes" if life.chosen else ""
    sheet.note(f"{table}, {key_text(life.key)}{which}: {plural(life.changes, 'change')}.")


def put_changes(sheet: Sheet, life: Life) -> None:
    """The changes of a row as a table and as a chart."""
    shown = sheet.lead([{**change, **_place(change)} for change in life.shown])
    rows = ask.life_rows(shown)
    headings = {"at": "time", "operation": "operation", "outcome": "outcome", "sentence": "changed values"}
    headings |= {"transaction_id": "transaction", "user": "user", "change_mask": "mask", "version_code": "version"}
    headings |= {"position": "position", "places": "file, offset"}
    sheet.table(rows, headings, total=life.changes, none="The capture has no change of this row.")
    if any(row["at"] for row in rows):
        simple = {"at": "time", "operation": "operation", "sentence": "changed values"}
        sheet.chart(charts.row_life(shown), show.table_html(rows[:50], simple))


def _place(change: Mapping[str, Any]) -> dict[str, Any]:
    """The first record of a change, as rows name it."""
    return {name: change["places"][0][name] for name in ("file", "offset")} if change["places"] else {}


class History(Page):
    """The changes of one row, also under the keys that it had before and after.

    ``table``: empty: the one with the most changes that have a key. ``key``: columns of the row and their values, as a
    mapping, as a JSON object or as ``id=42``; empty: the row with the most changes.
    """

    title: ClassVar[str] = "Row history"
    notebook: ClassVar[str] = "history"
    images: ClassVar[bool] = True

    def __init__(self, opened: Opened, table: str = "", key: str | Mapping[str, str | None] = "") -> None:
        super().__init__(opened)
        text = key if isinstance(key, str) else json.dumps(dict(key))
        self.wanted = ask.ask(self.capture, {}, table, "", "", text, "{}")

    @cached_property
    def life(self) -> Life | None:
        """The row and its changes; None where rows have no key."""
        return ask.row_life(self.wanted) if self.wanted.table else None

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.wanted.table.table if self.wanted.table else ""

    @panel("Summary")
    def overview(self, sheet: Sheet) -> None:
        """Which row it is; why none, where rows have no key."""
        life = self.life
        self.begin(sheet, {"history_table": self.table or None, **ask.life_facts(life), **ask.ends_facts(life)})
        for sentence in self.wanted.notes:
            sheet.note(sentence)
        if life is not None:
            put_which(sheet, self.table, life)
        elif not self.wanted.notes:
            sheet.note("There are no changes, so no row has a history.")

    @panel("Changes")
    def changes(self, sheet: Sheet) -> None:
        """Every change in the order of the log; those that were rolled back or undone too."""
        if self.life is not None:
            put_changes(sheet, self.life)

    @panel("Old and new values")
    def values(self, sheet: Sheet) -> None:
        """The old and the new value of each column that a change shows."""
        if self.life is None or not self.life.changes:
            return
        headings = {"at": "time", "operation": "operation", "outcome": "outcome", "column": "column", "old": "old"}
        headings |= {"new": "new", "transaction_id": "transaction", "position": "position"}
        rows = ask.value_rows(self.life.shown)
        sheet.table(rows, headings | {"file": "file", "offset": "offset"}, folder=self.asked.shown)
        self._limit(sheet)

    @panel("Row after each change")
    def states(self, sheet: Sheet) -> None:
        """The values of the row after each change that was not taken back; a dash is a value that no change shows."""
        if self.life is None or not self.life.changes:
            return
        rows, columns = ask.state_rows(self.life.shown)
        headings = {"at": "time", "operation": "operation", **columns, "position": "position"}
        sheet.table(rows, headings, none="Every change of the row was rolled back or undone.", by_heading=True)
        self._limit(sheet)

    def _limit(self, sheet: Sheet) -> None:
        assert self.life is not None
        if self.life.changes > len(self.life.shown):
            sheet.note(f"Of the first {count(len(self.life.shown))} of {count(self.life.changes)} changes.")
