"""A workload as Extract writes it into a trail: whole transactions in the order of their commits, and what an analyst
has of them (``docs/formats/goldengate.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cdcwb_synth.encoder import Encoder, EncoderContext
from cdcwb_synth.goldengate import trail
from cdcwb_synth.goldengate.columns import Layout
from cdcwb_synth.goldengate.exports import Exports
from cdcwb_synth.goldengate.logdump import Output, Prints, record_headers
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.trail import Record, Step, Trail
from cdcwb_synth.model import Operation, Outcome
from cdcwb_synth.truth import Transaction, Version, column_rows
from cdcwb_synth.values import Column, microseconds
from cdcwb_synth.workload import Change, Committed, Schema


class GoldenGateEncoder(Encoder[Layout]):
    """Writes a workload's history. ``records``: records, messages or elements in the files."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        options: GoldenGateOptions = self.options
        if not options.is_text:
            self.truth.format = "goldengate-export"
        self._output: Output = Prints(capture) if options.is_text else Exports(capture)
        self._trail = Trail(options, self._output, lambda: str(self._csn + 1))
        self._columns: dict[int, tuple[Column, ...]] = {}  # by the label of the table
        self._csn = 1_332_800
        self._statements = 0
        self._audit = 0
        changes = capture.changes
        self._cuts, self._restarts, self._abends = (
            [(number + 1) * changes // (times + 1) for number in range(times)]
            for times in (options.trail_files - 1, options.restarts, options.abends)
        )  # after how many changes each happens
        self._trail.start_file(microseconds(options.start_time))

    def finish(self) -> None:
        """Completes the files."""
        self._output.close()
        self.records = self._output.records

    def table(self, item: Schema, done: int) -> Layout:
        """A table version, and its statement, where the columns of a table change."""
        version, options = item.version, self.options
        old = self._columns.get(version.table.label)
        self._columns[version.table.label] = version.columns
        if old is not None and version.columns != old:
            self._statement(item, old)
        is_defined = options.is_defined or not options.is_text
        return Layout(version, options.order, lobs=options.lobs, is_defined=is_defined)

    def _statement(self, item: Schema, old: tuple[Column, ...]) -> None:
        self._csn += 1
        self._statements += 1
        csn, xid, at = str(self._csn), f"12.{self._statements % 34}.{self._statements}", microseconds(item.at)
        record, items = trail.statement_record(item.version, old, at, csn, xid)
        if self.options.tokens != "all":
            record.tokens = record.tokens[:4]
        self._trail.put(record)
        if not self.options.is_text:
            return
        transaction = self._transaction([record], csn, xid, "committed", record)
        headers = self._headers(record) | self._ids([record], csn, xid) | {"statement": items["C1"]} | items
        facts: dict[str, Any] = {
            "record_type": record.name, "operation": Operation.DDL, "position": record.position,
            "last_in_transaction": True, "changed_at": at, "schema_name": item.version.table.schema,
            "table_name": item.version.table.name, "headers": headers,
        }  # fmt: skip
        self.truth.change(facts, [record.location], None, transaction)

    # --- transactions -------------------------------------------------------------------------------------------------

    def commit(self, item: Committed, done: int) -> None:
        """Writes the changes of a transaction."""
        if not item.changes:
            return
        self._csn += 1
        xid, csn = f"{item.ordinal % 10 + 1}.{item.ordinal // 10 % 34}.{1000 + item.ordinal // 340}", str(self._csn)
        steps = self._steps(item.changes)
        if self.options.form == "formatxml" and all(step.operation is Operation.TRUNCATE for step in steps):
            return
        cut, begin = (self._due_at(due, done, len(steps)) for due in (self._cuts, self._restarts))
        if self._abends and self._abends[0] <= done and len(steps) > 1:
            del self._abends[0]
            self._written(steps[: self.rng.randrange(1, len(steps))], csn, xid, is_aborted=True)
            steps = self._steps(item.changes)
        self._written(steps, csn, xid, cut, begin)
        if isinstance(self._output, Exports):
            self._output.transaction(steps, csn, xid, item.at)

    def _due_at(self, due: list[int], done: int, count: int) -> int:
        """Before which step of a transaction something happens that is due; -1: nothing is. Inside, if it can be."""
        if not due or due[0] > done:
            return -1
        del due[0]
        return self.rng.randrange(1, count) if count > 1 and self.rng.random() < 0.8 else 0

    def _steps(self, changes: Sequence[Change]) -> list[Step]:
        """The steps, and after some of them a change that is taken back at once."""
        made: list[Step] = []
        for change in changes:
            layout = self.tables[change.version]
            made.append(trail.change_step(change, layout, self.options))
            row = change.after or change.before
            if row is None or not self.options.undo or self.rng.random() >= self.options.undo:
                continue
            images = [(row, None), (None, row)] if change.after else [(None, row), (row, None)]
            outcomes: tuple[Outcome, ...] = ("undone", "undo")
            for (before, after), outcome in zip(images, outcomes, strict=True):
                operation = Operation.DELETE if after is None else Operation.INSERT
                extra = replace(change, operation=operation, before=before, after=after, is_late=False)
                made.append(trail.change_step(extra, layout, self.options, outcome == "undo"))
                made[-1].outcome = outcome
        return made

    def _written(
        self, steps: list[Step], csn: str, xid: str, cut: int = -1, begin: int = -1, *, is_aborted: bool = False
    ) -> None:
        """Puts a transaction into the trail; before step ``cut`` a new file begins, before ``begin`` Extract does.
        ``is_aborted``: it breaks off after the last step."""
        self._prepare(steps, csn, xid, not is_aborted)
        for number, step in enumerate(steps):
            if number == begin:
                self._trail.put(trail.restart(trail.RESTART, step.records[0].at))
            if number == cut:
                self._trail.start_file(step.records[0].at)
            for record in step.records:
                self._trail.put(record)
        records = [record for step in steps for record in step.records]
        end = records[-1]
        if is_aborted:
            end = trail.restart(trail.ABEND, records[-1].at)
            self._trail.put(end)
            self._trail.put(trail.restart(trail.RESTART, records[-1].at))
        if self.options.is_text:
            outcome: Outcome = "rolled_back" if is_aborted else "committed"
            self._tell(steps, self._transaction(records, csn, xid, outcome, end), csn, xid)

    def _prepare(self, steps: Sequence[Step], csn: str, xid: str, is_ended: bool) -> None:
        """Fills what records know of their transaction."""
        records = [(step, record) for step in steps for record in step.records]
        last, where = len(records) - 1, self.options.tokens
        for number, (step, record) in enumerate(records):
            is_first, is_last = number == 0, number == last and is_ended
            record.trans_ind = 3 if is_first and is_last else 0 if is_first else 2 if is_last else 1
            self._audit += 40 + len(record.body)
            record.audit_rba, record.audit_pos = 12_010 + (self._audit >> 28), self._audit & 0xFFFFFFF
            row = step.rows[0] if step.rows[1] is None else step.rows[1]
            if row is not None:
                record.tokens.append(trail.row_token(step.layout, int(row[step.layout.keys[0]].text or 0)))
            if where == "all" or (is_first if where == "first" else is_last):
                record.tokens += trail.token("LOGCSN", csn), trail.token("TRANID", xid)
            if "usertoken" in self.options.shown:
                record.user_tokens = [("TK-XID", xid), ("TK-CSN", csn)]

    # --- truth --------------------------------------------------------------------------------------------------------

    def _headers(self, record: Record) -> dict[str, str]:
        path = self._trail.path(record.sequence)
        return record_headers(record, self.options, self._output.time(record.at), path)

    def _is_named(self, records: Sequence[Record]) -> bool:
        """Does a token give the transaction's id?"""
        return "ggstoken" in self.options.shown and any(t.name == "TRANID" for r in records for t in r.tokens)

    def _ids(self, records: Sequence[Record], csn: str, xid: str) -> dict[str, str]:
        """What headers say of the transaction of these records."""
        return {"csn": csn, "xid": xid} if self._is_named(records) else {}

    def _transaction(self, records: Sequence[Record], csn: str, xid: str, outcome: Outcome, end: Record) -> Transaction:
        """The transaction of these records, as a reader names it: by its id, or by the position of its first record."""
        first, is_committed = records[0].position, outcome == "committed"
        known = xid if is_committed else f"{xid}@{first}"
        name = known if self._is_named(records) else f"~{first}"
        one = Transaction(
            name, first, end.position, end.position if is_committed else None, records[0].at, end.at,
            end.at if is_committed else None, outcome, "complete", bytes=0 if is_committed else end.location.length,
        )  # fmt: skip
        return self.truth.transaction(one)

    def _tell(self, steps: Sequence[Step], transaction: Transaction, csn: str, xid: str) -> None:
        ids = self._ids([record for step in steps for record in step.records], csn, xid)
        for step in steps:
            head = step.records[step.head]
            headers = self._headers(head) | ids
            if len(step.records) - step.head > 1:
                headers["fragments"] = str(len(step.records) - step.head)
            source = "images" if step.compared else "log"
            row = {
                "record_type": head.name, "operation": step.operation, "position": head.position,
                "last_in_transaction": head.trans_ind in (2, 3), "changed_at": head.at, "changed_columns": step.changed,
                "change_source": source if step.changed is not None else None, "key": step.key, "before": step.before,
                "after": step.after, "headers": headers,
            }  # fmt: skip
            if transaction.outcome == "committed":
                row["outcome"] = step.outcome
            locations, version = [record.location for record in step.records], self._version(step.layout, head)
            version.begins(step.records[0].position)
            self.truth.change(row, locations, version, transaction, head=step.head)

    def _version(self, layout: Layout, head: Record) -> Version:
        """The version in force at a record; without definitions its columns are those that records have shown."""
        if isinstance(self._output, Prints) and self.options.is_defined:
            return self._output.versions[head.version]
        name = f"{layout.table.full_name}@1"
        made = Version(name, layout.table.schema, layout.table.name, [], "inferred", lineage={}, has_location=False)
        made = self.truth.version(made, name)
        count = 1 + max((part.number for part in head.parts if part.kind in ("column", "key")), default=-1)
        if count > len(made.columns):
            made.columns = column_rows(f"c{index}" for index in range(count))
        return made
