"""The page about changed columns: by the source's mask, by comparison of images, or by the columns in the log record;
and disagreements of masks and images."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, ClassVar

import plotly.graph_objects as go

from cdcwb.analysis import masks as ask
from cdcwb.analysis.change_counts import first_by_column, first_update
from cdcwb.analysis.masks import Drawn, draw
from cdcwb.analysis.order import listed
from cdcwb.analysis.summary_text import Tone
from cdcwb.charts import masks as charts
from cdcwb.filters import NO_TABLE
from cdcwb.report.answer import Answer
from cdcwb.times import TimeAxis
from cdcwb.views.pages.page import Facts, Page, panel, question, tone_for
from cdcwb.words import count, joined, plural, tally

Rows = list[dict[str, Any]]

_TABLES, _PAIRED = 8, 6  # maximum number of tables in charts


class Masks(Page):
    """Changed columns over time, how often and together; masks bit by bit; no-op updates and changes of keys."""

    title: ClassVar[str] = "Change masks"
    notebook: ClassVar[str] = "change_masks"
    images: ClassVar[bool] = True

    changed = question(ask.changed)
    """Which columns updates changed, alone and in pairs."""
    change_sources = question(ask.change_sources)
    """The sources of change information of updates."""
    frequent = question(ask.masks)
    """The number of masks, and the most frequent ones."""

    @cached_property
    def cells(self) -> tuple[list[dict[str, Any]], int, TimeAxis | None]:
        """How often each column was changed over time, the width of a bin in microseconds, and the axis."""
        axis = ask.axis(self.capture)
        return ([], 1, None) if axis is None else (*ask.over_time(self.capture, axis), axis)

    @property
    def most_tables(self) -> int:
        """The most tables of which charts are drawn."""
        return _TABLES if self.bench is None else 1

    @cached_property
    def updates(self) -> list[dict[str, Any]]:
        """The number of updates of each table, and the sources of change information."""
        return ask.overview(self.changed, self.change_sources)

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """Each column of updates: how often it was changed, is NULL, is not captured."""
        return ask.columns(self.capture, self.changed)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The facts of the headline that all panels have."""
        changed, updates = self.changed, self.changed.updates.total()
        numbers = {"updates": updates, "updates_tables": len(changed.updates.keys() - {NO_TABLE})}
        numbers |= {"updates_idle": changed.idle.total(), "updates_not_told": updates - changed.known.total()}
        return numbers | {"columns_changed": len(changed.columns)}

    @cached_property
    def bits(self) -> list[Drawn]:
        """The most frequent masks, bit by bit."""
        return draw(self.frequent[1], listed(self.capture, "table_versions"), listed(self.capture, "detected"))

    def answered_by(self) -> Mapping[str, Any]:
        """See :class:`Page`."""
        return {"mask_disagreements": self.problems_of(ask.DISAGREEMENTS)}

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        updates, unknown = facts["updates"], facts["updates_not_told"]
        if not updates:
            return "No updates, so no change masks and no changed columns"
        of_tables = f"{plural(updates, 'update')} of {plural(facts['updates_tables'], 'table')}"
        if updates == unknown:
            return f"{of_tables}: neither masks nor before images show which columns changed"
        columns, idle = facts["columns_changed"], facts["updates_idle"]
        changed = f"{'changes' if updates == 1 else 'change'} {plural(columns, 'column')}"
        phrases = [f"{of_tables} {changed}", *([plural(idle, "no-op update")] if idle else [])]
        if unknown:
            phrases.append(f"changed columns unknown for {plural(unknown, 'update')}")
        if facts.get("mask_disagreements"):
            phrases.append(f"{plural(facts['mask_disagreements'], 'mask')} in contradiction to the images")
        return "; ".join(phrases)

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        return tone_for(facts["mask_disagreements"], facts["updates_not_told"])

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The number of updates, and the sources of change information."""
        known, numbers = self.updates, self.numbers
        by_source = {how: n for how in ("mask", "images", "log") if (n := sum(row[f"told_by_{how}"] for row in known))}
        updates, idle, unknown = (numbers[name] for name in ("updates", "updates_idle", "updates_not_told"))
        masked = sum(row["with_mask"] for row in known)
        self.begin(answer, numbers | {"updates_told_by": by_source, "updates_with_mask": masked})
        lacking = f"none for {plural(unknown, 'update')}" if unknown else "for every update"
        others = "for the others: their images or the log record" if masked < updates else "all of them"
        share = f"{idle / updates:.0%} of all updates" if updates else ""
        none = "" if updates else "there are no updates"
        answer.cards(
            [
                ("updates", count(updates), f"in {plural(numbers['updates_tables'], 'table')}"),
                ("source of the change information", tally(by_source), none or lacking),
                ("no-op updates", count(idle), none or share),
                ("columns that change", count(numbers["columns_changed"]), f"of {count(len(self.columns))} in updates"),
                ("with a change mask", count(masked), none or others),
            ]
        )
        if updates and not masked:
            answer.note("No update has a mask: changed columns come from the images or from the log record.")
        if any(row["listed"] for row in known):
            answer.note(ask.LISTED)
        if keyless := [row["table"] for row in known if row["listed_without_key"]]:
            answer.note(ask.without_key(keyless))
        heads = "table; updates; told_by_mask: from the mask; told_by_images: from images"
        heads += "; told_by_log: from the log; not_told: unknown; idle: no-op updates"
        heads += "; columns_changed: columns that change"
        answer.table(known, heads, none="There are no updates.")

    @panel(
        "When columns change",
        live=True,
        brush=True,
        hint="Drag to select a time. Click a cell to see the first update of it.",
    )
    def over_time(self, answer: Answer) -> None:
        """A row for every column, most changed at the top; the colour of a cell shows its number of updates."""
        cells = self.cells[0]
        page = self.every_time(answer)
        drawn, width_us, _ = page.cells
        with_cells = page.by_table(drawn)
        if self.numbers["updates"]:
            answer.headline = self.headline_of(self.numbers)
        heads = "began_at: from; column; changed: updates"
        for name, figure in page.figures.items():
            _head(answer, name, {cell["column"] for cell in with_cells[name]})
            answer.chart(figure, with_cells[name], heads, page.first_in(name, width_us))
        changed = sum(cell["changed"] for cell in cells)
        untimed = self.changed.columns.total() - changed
        if cells and untimed:
            changes = plural(untimed, "column change")
            answer.note(f"{changes} in updates without a time: only in the charts of the next sections.")
        _some(answer, with_cells, self.most_tables)
        if cells and (without_cells := [name for name in self.changed.tables if name not in with_cells]):
            why = "no update with a time and known changed columns changes any"
            more = [f"{len(without_cells) - _TABLES} more"] if len(without_cells) > _TABLES else []
            answer.note(f"No chart for {joined(without_cells[:_TABLES] + more)}: {why}.")
        if not cells:
            answer.note(ask.nothing_over_time(self.changed))
        answer.record({"heatmap_updates": changed, "heatmap_tables": list(with_cells)[:_TABLES]})
        answer.record({name: self.numbers[name] for name in ("updates", "updates_idle", "columns_changed")})

    def by_table(self, rows: Rows) -> dict[str, Rows]:
        """Rows by their table, those with most updates first."""
        tables = {name: [row for row in rows if row["table"] == name] for name in self.changed.tables}
        return {name: some for name, some in tables.items() if some}

    @cached_property
    def figures(self) -> dict[str, go.Figure]:
        """How often each column was changed over time, by table."""
        cells, width_us, axis = self.cells
        tables = list(self.by_table(cells).items())[: self.most_tables]
        return {name: charts.changed_over_time(some, width_us, axis) for name, some in tables if axis}

    def first_in(self, table: str, width_us: int | None = None) -> Callable[[Mapping[str, Any]], int | None]:
        """The record of the first update of a table in a cell of a figure; ``width_us``: of a bin of time."""

        def record(point: Mapping[str, Any]) -> int | None:
            names = point["custom"] or []
            times = None if width_us is None else self.times_of(point, width_us)
            columns = {names} if isinstance(names, str) else {*names}
            return self.first_record(lambda headers: first_update(headers, table, columns, times)) if columns else None

        return record

    @panel("How often each column is changed", live=True)
    def changed_columns(self, answer: Answer) -> None:
        """The number of updates that changed each column."""
        rows = self.changed.changed_columns()
        if self.bench is not None:
            headers = self.capture.headers
            first = first_by_column(headers)
            rows = [{**row, "record": int(headers.record[first[row["table"], row["column"]]])} for row in rows]
        heads = "table; column; changed; updates: of updates; share"
        answer.table(rows, heads, none="No update is known to change a column.")
        answer.record({"column_changes": {f"{row['table']}.{row['column']}": row["changed"] for row in rows}})

    @panel("How often each column is set", live=True)
    def values(self, answer: Answer) -> None:
        """How often each column is changed, has a value, is NULL, or is not captured."""
        tables = self.by_table(self.columns)
        often = [name for name, some in tables.items() if any(row["changed"] for row in some)]
        heads = "column; changed; share: share of updates; became_null: became NULL; set: has a value"
        heads += "; null: is NULL; not_captured"
        for name in often[:_TABLES]:
            _head(answer, name, {row["column"] for row in tables[name] if row["changed"]})
            answer.chart(charts.often(tables[name]), tables[name], heads)
        _some(answer, often, _TABLES)
        for fact, name in (("column_changes", "changed"), ("not_captured", "not_captured")):
            answer.record({fact: {f"{row['table']}.{row['column']}": row[name] for row in self.columns if row[name]}})
        lacking = [row for row in self.columns if row["not_captured"] or row["null"]]
        heads = "table; column; set: has a value; null: is NULL; not_captured; became_null: became NULL"
        none = "Every update has a value in every column."
        none = none if self.columns else "No update has an image after the change."
        answer.table(lacking[:100], heads, total=len(lacking), none=none)

    @panel("Which columns change together", live=True, hint="Click a cell to see the first update of both.")
    def together(self, answer: Answer) -> None:
        """Columns that are changed by the same update."""
        pairs = self.changed.together()
        paired = self.by_table(pairs)
        heads = "column; other; together; likeness: share"
        most = min(self.most_tables, _PAIRED)
        for name, some in list(paired.items())[:most]:
            _head(answer, name, {pair[side] for pair in some for side in ("column", "other")}, charts.MOST_PAIRED)
            answer.chart(charts.together(some), some, heads, self.first_in(name))
        _some(answer, paired, most)
        if len(pairs) < len(self.changed.pairs):
            answer.note(f"{count(len(pairs))} of {count(len(self.changed.pairs))} pairs of columns: the most frequent.")
        if not pairs:
            any_update = self.changed.updates.total()
            answer.note("No update changes more than one column." if any_update else "There are no updates.")
        answer.record(
            {"pairs": [[pair[name] for name in ("table", "column", "other", "together")] for pair in pairs[:50]]}
        )

    @panel("Masks, bit by bit", live=True)
    def bit_by_bit(self, answer: Answer) -> None:
        """Each mask, most frequent first: a dot is a set bit."""
        heads = "mask; operation; changes; columns"
        tables = list(dict.fromkeys(mask.table for mask in self.bits))
        for name in tables[:_TABLES]:
            masks = [mask for mask in self.bits if mask.table == name]
            rows = [{"mask": m.mask, "operation": m.operation, "changes": m.changes, "columns": m.said} for m in masks]
            answer.note(f"{name}: {masks[0].order} byte order, first data column is bit {masks[0].offset}.")
            answer.chart(charts.bits(masks), rows, heads)
        if len(tables) > _TABLES:
            answer.note(f"{_TABLES} of {plural(len(tables), 'table')} shown: the first by name.")
        number, frequent = self.frequent
        if number > len(frequent):
            answer.note(
                f"The {len(frequent)} most frequent of {count(number)} masks; changes with others are not counted here."
            )
        if not self.bits:
            answer.note(
                "The source writes no masks; changed columns come from the images or from the log record, as above."
            )
        answer.record({"masks_drawn": len(self.bits)})

    @panel("No-op updates", live=True)
    def idle(self, answer: Answer) -> None:
        """No-op updates."""
        rows = ask.idle_updates(self.changed, self.change_sources)
        shares = [row | {"share": f"{row['share']:.1%}"} for row in rows]
        heads = "table; idle: no-op updates; updates: of updates; share; file: first in; offset: at offset"
        none = "Every update whose changed columns are known changes at least one."
        none = none if self.changed.known else ask.nothing_over_time(self.changed)
        answer.table(shares[:50], heads, total=len(shares), none=none)
        answer.record({"idle_by_table": {row["table"]: row["idle"] for row in rows}})

    @panel("Changes of keys", live=True)
    def keys(self, answer: Answer) -> None:
        """Updates that changed the key of a row."""
        number, moved = ask.key_changes(self.capture)
        heads = "table; old_key; new_key; position; changed_at; transaction_id; file; offset"
        answer.table(moved, heads, total=number, none="No update whose key is known changed it.")
        answer.record({"key_changes": number})

    @panel("Masks against images")
    def disagreements(self, answer: Answer) -> None:
        """Changes whose mask disagrees with their images."""
        none = "No mask disagrees with the images of its change."
        none = none if self.bits else "There are no masks that could disagree."
        number, heads = self.problems_of(ask.DISAGREEMENTS), "severity; code; sentence; table; file; offset; length"
        answer.table(ask.disagreements(self.capture) if number else [], heads, total=number, none=none)
        answer.record(self.answered_by())


def _head(answer: Answer, table: str, columns: set[str], most: int = charts.MOST_COLUMNS) -> None:
    """A note above the chart of a table."""
    some = f", {most} of {plural(len(columns), 'column')}, those that change most" if len(columns) > most else ""
    answer.note(f"{table}{some}:")


def _some(answer: Answer, tables: Collection[str], most: int) -> None:
    """A note that not all tables are drawn."""
    if len(tables) > most:
        answer.note(f"{count(most)} of {plural(len(tables), 'table')} shown: those with the most updates.")
