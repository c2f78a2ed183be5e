"""A workload as Extract writes it into a trail: whole transactions in the order of their commits, and what an analyst
holds of them (``docs/formats/goldengate.md``)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.goldengate import special
from cdcwb_synth.goldengate.bodies import Bodies, Step
from cdcwb_synth.goldengate.columns import Layout
from cdcwb_synth.goldengate.exports import Exports
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.prints import Prints
from cdcwb_synth.goldengate.raw import RawFiles
from cdcwb_synth.goldengate.records import Record
from cdcwb_synth.goldengate.trail import Placed, Trail
from cdcwb_synth.goldengate.truth import Truth, Version
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import EPOCH, microseconds
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.values import Column

__all__ = ["GoldenGateEncoder"]

_ABEND, _RESTART = 150, 151


class GoldenGateEncoder:
    """Writes a workload's history below ``folder``/capture. ``changes``: how many changes the workload has.
    ``truth`` collects what is in the files."""

    def __init__(self, options: GoldenGateOptions, seed: int, changes: int, folder: Path, part: Part = WHOLE) -> None:
        self._options = options
        self._shown = options.shown
        self._is_text = options.form in ("logdump", "raw")
        self.truth = Truth(folder / "truth", "goldengate" if self._is_text else "goldengate-export")
        self._rng = Random(f"{seed} goldengate")
        self._bodies = Bodies(options, seed)
        prints = folder / "capture", self.truth, part
        self._prints: Prints | RawFiles | None = None
        if self._is_text:
            is_raw = options.form == "raw"
            self._prints = RawFiles(options, *prints[:2]) if is_raw else Prints(options, seed, *prints)
        self._exports = None if self._is_text else Exports(options, *prints)
        self._trail = Trail(options, self._prints or self._exports or _never(), self._next_csn, part.first_file)
        self._layouts: dict[tuple[int, int], Layout] = {}
        self._columns: dict[int, tuple[Column, ...]] = {}
        self._inferred: dict[str, Version] = {}
        self._csn = 1_332_800 + part.numbers(1)
        self._statements = 0
        self._audit = part.numbers(400)
        self._cuts = _due(options.trail_files - 1, changes)
        self._restarts = _due(options.restarts, changes)
        self._abends = _due(options.abends, changes)
        self._begun = False
        self._now = options.start_time

    @property
    def records(self) -> int:
        """How many records, messages or transactions are in the files."""
        return self.truth.facts["records"]

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        self._now = at
        if not self._begun:
            self._begun = True
            self._trail.start_file(microseconds(at))
        match item:
            case Schema():
                self._schema(item.version)
            case Committed() if item.changes:
                self._committed(item, done)
            case _:
                pass

    def finish(self) -> None:
        """Complete the files."""
        if not self._begun:
            self._trail.start_file(microseconds(self._now))
        self._close_files()
        facts = dict(sorted(self.truth.facts.items())) | {"files": self.truth.files, "trail_files": self._trail.files}
        path = self.truth.folder / "facts.json"
        path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Close what is open, finished or not. A second call does nothing."""
        self._close_files()
        self.truth.close()

    def _close_files(self) -> None:
        for sink in (self._prints, self._exports):
            if sink is not None:
                sink.close()

    def _next_csn(self) -> str:
        return str(self._csn + 1)

    def _layout(self, version: TableVersion) -> Layout:
        key = (version.table.label, version.number)
        made = self._layouts.get(key)
        if made is None:
            options = self._options
            is_defined = options.is_defined or not self._is_text
            made = Layout(version, options.order, lobs=options.lobs, is_defined=is_defined)
            self._layouts[key] = made
        return made

    # --- schema changes -----------------------------------------------------------------------------------------------

    def _schema(self, version: TableVersion) -> None:
        label = version.table.label
        old = self._columns.get(label)
        self._columns[label] = version.columns
        if old is None or not self._options.ddl or version.columns == old:
            return
        self._csn += 1
        self._statements += 1
        csn, xid = str(self._csn), f"12.{self._statements % 34}.{self._statements}"
        sql = special.statement(version, old)
        record = special.statement_record(version, sql, microseconds(self._now), csn, xid)
        if self._options.tokens != "all":
            record.tokens = record.tokens[:4]
        placed = self._trail.put(record)
        if self._prints is not None:
            limit = self._options.reclen or len(record.body)
            self._tell_statement(record, placed, csn, xid, *special.shown_items(version, sql, csn, limit))

    def _tell_statement(
        self, record: Record, placed: Placed, csn: str, xid: str, items: dict[str, str], whole: set[str]
    ) -> None:
        at, name = _time(record.at), self._named([record], placed.position, xid)
        headers = self._headers(placed) | self._spread(csn, xid)
        schema, table = (items[code] if code in whole else None for code in ("B3", "B4"))
        told = {
            "record_type": record.name,
            "operation": str(Operation.DDL),
            "position": placed.position,
            "commit_position": placed.position,
            "transaction_id": name,
            "last_in_transaction": True,
            "changed_at": at,
            "schema_name": schema,
            "table_name": table,
            "outcome": str(Outcome.COMMITTED),
            "committed_at": at,
            "headers": headers | ({"statement": items["C1"]} if items.get("C1") else {}) | items,
            "source_events": [placed.place.event],
            "offset_unit": str(OffsetUnit.BYTE),
        }
        self.truth.change(placed.place, None, told)
        tables = [] if table is None else [f"{schema}.{table}"]
        self._tell_transaction(
            name, [placed], {str(Operation.DDL): 1}, tables, Outcome.COMMITTED, placed.position, at, at
        )

    # --- transactions -------------------------------------------------------------------------------------------------

    def _committed(self, item: Committed, done: int) -> None:
        self._csn += 1
        xid = f"{item.ordinal % 10 + 1}.{item.ordinal // 10 % 34}.{1000 + item.ordinal // 340}"
        csn = str(self._csn)
        steps = self._steps(item.changes)
        ends = [step for step in steps if step.operation is not Operation.TRUNCATE or self._options.form != "formatxml"]
        if not ends:
            return
        cut = self._at(self._cuts, done, len(steps))
        restart = self._at(self._restarts, done, len(steps))
        if self._abends and self._abends[0] <= done and len(steps) > 1:
            del self._abends[0]
            self._aborted(steps[: self._rng.randrange(1, len(steps))], csn, xid)
            steps = self._steps(item.changes)
        self._written(steps, csn, xid, cut, restart, item)

    def _at(self, due: list[int], done: int, count: int) -> int:
        """Before which step of a transaction something happens that is due; -1: nothing is. Inside, if it can be."""
        if not due or due[0] > done:
            return -1
        del due[0]
        return self._rng.randrange(1, count) if count > 1 and self._rng.random() < 0.8 else 0

    def _steps(self, changes: Sequence[Change]) -> list[Step]:
        steps = [self._bodies.step(change, self._layout(change.version)) for change in changes]
        if self._options.undo:
            return self._with_undone(changes, steps)
        return steps

    def _with_undone(self, changes: Sequence[Change], steps: list[Step]) -> list[Step]:
        """The steps, and behind some of them a change that is taken back at once."""
        made: list[Step] = []
        for change, step in zip(changes, steps, strict=True):
            made.append(step)
            if self._rng.random() >= self._options.undo:
                continue
            for extra, is_undo in self._taken_back(change):
                one = self._bodies.step(extra, step.layout, is_undo)
                one.outcome = Outcome.UNDO if is_undo else Outcome.UNDONE
                made.append(one)
        return made

    def _taken_back(self, change: Change) -> list[tuple[Change, bool]]:
        """A change that fits behind another, and the one that takes it back."""
        version, row, at = change.version, change.after, change.at
        if row is None:
            if change.before is None:
                return []
            there = Change(Operation.INSERT, version, None, change.before, at)
            return [(there, False), (Change(Operation.DELETE, version, change.before, None, at), True)]
        if change.before is not None and change.before != row and self._rng.random() < 0.5:
            same = self._layout(version).key_places
            places = self._layout(version).places
            if all(row[places[i]] == change.before[places[i]] for i in same):
                back = Change(Operation.UPDATE, version, row, change.before, at)
                return [(back, False), (Change(Operation.UPDATE, version, change.before, row, at), True)]
        gone = Change(Operation.DELETE, version, row, None, at)
        return [(gone, False), (Change(Operation.INSERT, version, None, row, at), True)]

    def _prepared(self, steps: Sequence[Step], csn: str, xid: str, ended: bool) -> None:
        """Fills what records know of their transaction."""
        records = [record for step in steps for record in step.records]
        last = len(records) - 1
        for number, record in enumerate(records):
            is_first, is_last = number == 0, number == last and ended
            record.place = 3 if is_first and is_last else 0 if is_first else 2 if is_last else 1
            self._audit += 40 + len(record.body)
            record.audit_rba, record.audit_pos = 12_010 + (self._audit >> 28), self._audit & 0xFFFFFFF
        where = self._options.tokens
        commit, transaction = special.commit_token(csn), special.transaction_token(xid)
        for step in steps:
            row = step.rows[0] if step.rows[1] is None else step.rows[1]
            for record in step.records:
                if row is not None:
                    key = row[step.layout.key_places[0]].text
                    record.tokens.append(special.row_token(step.layout, int(key or 0)))
                bearer = records[0] if where == "first" else records[last] if ended else None
                if where == "all" or record is bearer:
                    record.tokens += (commit, transaction)
                if "usertoken" in self._shown:
                    record.user_tokens = [("TK-XID", xid), ("TK-CSN", csn)]

    def _put(self, steps: Sequence[Step], cut: int, restart: int) -> list[list[Placed]]:
        placed = []
        for number, step in enumerate(steps):
            if number == restart:
                self._trail.put(special.restart(_RESTART, step.records[0].at))
            if number == cut:
                self._trail.start_file(step.records[0].at)
            placed.append([self._trail.put(record) for record in step.records])
        return placed

    def _written(self, steps: list[Step], csn: str, xid: str, cut: int, restart: int, item: Committed) -> None:
        self._prepared(steps, csn, xid, True)
        placed = self._put(steps, cut, restart)
        if self._exports is not None:
            self._exports.transaction(steps, placed, csn, xid, item.at)
            return
        end = placed[-1][-1]
        position = end.position
        ended = _time(end.shown.record.at)
        name = self._named([r for step in steps for r in step.records], placed[0][0].position, xid)
        self._tell(steps, placed, name, csn, xid, position, ended)
        self._summary(steps, placed, name, Outcome.COMMITTED, position, ended, [])

    def _aborted(self, steps: list[Step], csn: str, xid: str) -> None:
        """A piece of a transaction, and the record that says that Extract broke off in it."""
        self._prepared(steps, csn, xid, False)
        placed = self._put(steps, -1, -1)
        end = self._trail.put(special.restart(_ABEND, steps[-1].records[-1].at))
        self._trail.put(special.restart(_RESTART, steps[-1].records[-1].at))
        if self._exports is not None:
            return
        first = placed[0][0].position
        records = [r for step in steps for r in step.records]
        plain = self._named(records, first, xid)
        is_known = not plain.startswith("~")
        name = f"{plain}@{first}" if is_known else plain
        for step in steps:
            step.outcome = Outcome.ROLLED_BACK
        self._tell(steps, placed, name, csn, xid if is_known else None, None, None)
        self._summary(steps, placed, name, Outcome.ROLLED_BACK, end.position, _time(end.shown.record.at), [end])

    # --- truth --------------------------------------------------------------------------------------------------------

    def _named(self, records: Sequence[Record], position: str, xid: str) -> str:
        """What a reader calls a transaction."""
        told = "ggstoken" in self._shown and any(t.name == "TRANID" for r in records for t in r.tokens)
        return xid if told else f"~{position}"

    def _spread(self, csn: str | None, xid: str | None) -> dict[str, str]:
        if "ggstoken" not in self._shown:
            return {}
        return {name: text for name, text in (("csn", csn), ("xid", xid)) if text is not None}

    def _headers(self, placed: Placed) -> dict[str, str]:
        assert self._prints is not None
        path = f"{self._options.trail}{placed.shown.sequence:0{self._trail.digits}d}"
        return self._prints.printer.headers(placed.shown, path)

    def _tell(
        self, steps: Sequence[Step], placed: Sequence[Sequence[Placed]], name: str, csn: str, xid: str | None,
        end: str | None, ended: datetime | None,
    ) -> None:  # fmt: skip
        is_token = "TRANID" in {t.name for s in steps for r in s.records for t in r.tokens}
        spread = self._spread(csn, xid) if is_token else {}
        for step, records in zip(steps, placed, strict=True):
            head = records[step.head]
            record = head.shown.record
            source = str(ChangeSource.IMAGES if step.compared else ChangeSource.LOG)
            headers = self._headers(head) | spread
            if step.fragments > 1:
                headers["fragments"] = str(step.fragments)
            told: dict[str, Any] = {
                "record_type": record.name,
                "operation": str(step.operation),
                "position": head.position,
                "commit_position": end,
                "transaction_id": name,
                "last_in_transaction": record.place in (2, 3),
                "changed_at": _time(record.at),
                "schema_name": step.layout.table.schema,
                "table_name": step.layout.table.name,
                "changed_columns": step.changed,
                "change_source": source if step.changed is not None else None,
                "key": step.key,
                "before": step.before,
                "after": step.after,
                "outcome": str(step.outcome),
                "committed_at": ended,
                "headers": headers,
                "source_events": [one.place.event for one in records],
                "offset_unit": str(OffsetUnit.BYTE),
            }
            self.truth.change(head.place, self._version(step.layout, head), told)

    def _version(self, layout: Layout, head: Placed) -> Version:
        if self._options.is_defined:
            return self.truth.versions[head.version]
        made = self._inferred.get(layout.full_name)
        if made is None:
            schema, table = layout.table.schema, layout.table.name
            made = Version(f"{layout.full_name}@1", schema, table, [], "inferred", None)
            self._inferred[layout.full_name] = self.truth.version(made)
        parts = [p.number for p in head.shown.record.parts if p.kind in ("column", "key")]
        for ordinal in range(len(made.columns) + 1, max(parts, default=-1) + 2):
            blank: dict[str, Any] = dict.fromkeys(_COLUMN)
            made.columns.append(blank | {"ordinal": ordinal, "name": f"c{ordinal - 1}"})
        return made

    def _summary(
        self, steps: Sequence[Step], placed: Sequence[Sequence[Placed]], name: str, outcome: Outcome, end: str,
        ended: datetime, more: list[Placed],
    ) -> None:  # fmt: skip
        counts = Counter(str(step.operation) for step in steps)
        records = [one for group in placed for one in group]
        tables = sorted({step.layout.full_name for step in steps})
        began = _time(records[0].shown.record.at)
        self._tell_transaction(name, records + more, dict(sorted(counts.items())), tables, outcome, end, began, ended)

    def _tell_transaction(
        self, name: str, records: Sequence[Placed], counts: dict[str, int], tables: list[str], outcome: Outcome,
        end: str, began: datetime, ended: datetime,
    ) -> None:  # fmt: skip
        self.truth.transaction(
            {
                "transaction_id": name,
                "begin_position": records[0].position,
                "end_position": end,
                "began_at": began,
                "ended_at": ended,
                "outcome": str(outcome),
                "completeness": str(Completeness.COMPLETE),
                "changes": list(counts.items()),
                "tables": tables,
                "bytes": sum(one.place.length for one in records),
                "user": None,
            }
        )


_COLUMN: Final = ("ordinal", "name", "type", "length", "precision", "scale", "key_position", "nullable")


def _never() -> Any:
    raise AssertionError


def _due(times: int, changes: int) -> list[int]:
    """After how many changes something happens that happens so many times."""
    return [(number + 1) * changes // (times + 1) for number in range(times)]


def _time(at: int) -> datetime:
    return EPOCH + timedelta(microseconds=at)
