"""What handlers make of a trail (``docs/formats/goldengate.md §8``): JSON messages, and transactions in FORMATXML."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import msgspec

from cdcwb_synth.encoder import EncoderContext, delivered
from cdcwb_synth.goldengate.columns import Cell, Described
from cdcwb_synth.goldengate.logdump import Output
from cdcwb_synth.goldengate.trail import Image, Step
from cdcwb_synth.model import Operation
from cdcwb_synth.truth import Location, Transaction, Version, column_rows, differing
from cdcwb_synth.values import EPOCH, Type

_OP_TYPES: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "TRUNCATE": "T"}
_TOKENS: Final = {"LOGCSN": "L", "TRANID": "6", "ORAROWID": "R"}
_LATE: Final = timedelta(seconds=3, microseconds=415_000)  # between an operation and its message
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_CONTROLS: Final = {ord("\n"): "&#10;", ord("\t"): "&#9;"}


class Exports(Output):
    """What a handler makes of a trail, written when a transaction is in it."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        self._is_json = self.options.form == "json"
        self._versions: dict[str, Version] = {}
        self._kinds: dict[str, dict[str, set[str]]] = {}  # table: column: kinds of its values

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail: messages get a new file if the options want that."""
        ending = "log" if self.options.container == "bytes_literal" else "json"
        self.start_for(sequence, *(("messages", ending) if self._is_json else ("transactions", "xml")))

    def close(self) -> None:
        """Completes the files, and the columns of the tables."""
        super().close()
        for version in self._versions.values():
            for column in version.columns:
                is_number = self._kinds[version.label][column["name"]] == {"number"}
                column["type"] = "number" if is_number else "text"

    def transaction(self, steps: Sequence[Step], csn: str, xid: str, at: datetime) -> None:
        """A whole transaction, committed ``at`` some time."""
        transaction: Transaction | None = None
        if self._is_json:
            for (step,) in delivered((step,) for step in steps):
                has_id = any(token.name == "TRANID" for token in step.records[step.head].tokens)
                if has_id and transaction is None:
                    transaction = self.truth.transaction(Transaction(xid))
                self._message(step, transaction if has_id else None)
        else:
            transaction = Transaction(xid, ended_at=at, committed_at=at, completeness="complete")
            self._elements(steps, self.truth.transaction(transaction), csn, at)

    def _tell(
        self, step: Step, locations: list[Location], row: dict[str, Any], transaction: Transaction | None
    ) -> None:
        """Adds a change to the truth, with what all exports have in common."""
        layout, keys = step.layout, [step.layout.names[i] for i in step.layout.keys]
        changed = differing(row["before"], row["after"])
        row |= {"operation": step.operation, "changed_columns": changed, "outcome": step.outcome}
        row |= {"change_source": None if changed is None else "images"}
        table = layout.table
        made = Version(f"{table.full_name}@1", table.schema, table.name, [], "inferred", lineage={}, has_location=False)
        version = self._versions.setdefault(table.full_name, self.truth.version(made, table.full_name))
        kinds = self._kinds.setdefault(table.full_name, {})
        numbers = {column.name for column in layout.columns if _is_number(column)}
        for name, text in [item for one in (row["after"], row["before"]) for item in (one or {}).items()]:
            if name not in kinds:
                version.columns += column_rows([{"name": name, "key_position": 1 if name in keys else None}])
                version.columns[-1]["ordinal"] = len(version.columns)
            found = kinds.setdefault(name, set())
            if text is not None:
                is_number = name in numbers if self._is_json else _NUMBER.match(text)
                found.add("number" if is_number else "text")
        if transaction is not None:
            transaction.covers(row["position"], row["changed_at"])
        self.records += len(locations)
        self.truth.change(row, locations, version, transaction)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def _message(self, step: Step, transaction: Transaction | None) -> None:
        options, layout, head = self.options, step.layout, step.records[step.head]
        at = EPOCH + timedelta(microseconds=head.at)
        tokens = {_TOKENS[token.name]: token.text for token in head.tokens}
        keys = [layout.names[i] for i in layout.keys]
        fields = {
            "table": layout.table.full_name, "op_type": _OP_TYPES[step.operation],
            "op_ts": at.replace(tzinfo=None).isoformat(" ", "microseconds"),
            "current_ts": (at + _LATE).replace(tzinfo=None).isoformat("T", "microseconds"), "pos": head.position,
        }  # fmt: skip
        message: dict[str, Any] = {**fields, "primary_keys": keys, "tokens": tokens}
        (old, before), (new, after) = (self._image(step, half) for half in (0, 1))
        if options.json_form == "row":
            message |= (old if step.operation is Operation.DELETE else new) or {}
            before = before if step.operation is Operation.DELETE else None
        else:
            none: dict[str, Any] | None = {} if options.before == "empty" else None
            images = {"before": old or none, "after": new or none}
            message |= {name: one for name, one in images.items() if one or options.before != "absent"}
        if options.connect:
            columns = [{"type": "string", "optional": True, "field": name} for name in layout.names]
            schema = {"type": "struct", "fields": columns, "optional": False, "name": layout.table.full_name}
            message = {"schema": schema, "payload": message}
        data = msgspec.json.encode(message)
        if options.container == "documents":
            data = msgspec.json.format(data, indent=2)
        elif options.container == "bytes_literal":
            data = b"Received message: " + repr(data).encode()
        location = self.add(data + b"\n")
        ids = {name: tokens[code] for name, code in (("csn", "L"), ("xid", "6")) if code in tokens}
        image = next((one for one in (after, before) if one and set(keys) <= one.keys()), None)
        row: dict[str, Any] = {
            "record_type": fields["op_type"], "position": head.position, "changed_at": at, "before": before,
            "after": after, "key": None if image is None else {name: image[name] for name in keys},
            "headers": fields | {"primary_keys": msgspec.json.encode(keys).decode()} | tokens | ids,
        }  # fmt: skip
        self._tell(step, [location], row, transaction)

    def _image(self, step: Step, half: int) -> tuple[dict[str, Any] | None, Image | None]:
        """The members of one image of a step, and its values as text."""
        row, sent = step.rows[half], step.sent[half]
        if row is None or not sent:
            return None, None
        members: dict[str, Any] = {}
        image: Image = {}
        for at, column in enumerate(step.layout.columns):
            name, is_missing = column.name, at not in sent
            if is_missing and not self.options.is_missing:
                continue
            text = None if is_missing else _exported(column, row[at])
            if not is_missing:
                image[name] = text
            members[name] = msgspec.Raw(text.encode()) if text is not None and _is_number(column) else text
            if self.options.is_missing:
                members[f"{name}_isMissing"] = is_missing
        return members, image

    # --- FORMATXML ----------------------------------------------------------------------------------------------------

    def _elements(self, steps: Sequence[Step], transaction: Transaction, csn: str, at: datetime) -> None:
        stamp, xid = at.replace(tzinfo=None).isoformat(":", "microseconds"), transaction.transaction_id
        halves = [
            (step, half) for step in steps for half in (0, 1)
            if step.operation is not Operation.TRUNCATE and step.rows[half] is not None and step.sent[half]
        ]  # fmt: skip
        count = len(halves)
        locations: list[Location] = []
        before: Image | None = None
        for number, (step, half) in enumerate(halves, 1):
            kind, is_delete = step.operation.lower(), step.operation is Operation.DELETE
            is_before = half == 0 and not is_delete
            opening = f'<transaction timestamp="{stamp}">\n  ' if number == 1 else ""
            closing = "\n</transaction>\n" if number == count else "\n  "
            text, image, keys = self._element(step, half, is_before, csn, xid)
            locations.append(self.add((opening + text + closing).encode()))
            if is_before:
                before = image
                continue
            trans_ind = ("3" if count == 1 else "0") if number == 1 else "2" if number == count else "1"
            row: dict[str, Any] = {
                "record_type": kind, "position": None, "event_no": number, "last_in_transaction": number == count,
                "changed_at": at, "key": {name: image[name] for name in keys} if keys else None,
                "before": image if is_delete else before, "after": None if is_delete else image,
                "headers": {
                    "table": step.layout.table.full_name, "type": kind, "timestamp": stamp, "TK-XID": xid,
                    "TK-CSN": csn, "csn": csn, "xid": xid, "TransInd": trans_ind,
                },
            }  # fmt: skip
            self._tell(step, locations, row, transaction)
            locations, before = [], None

    def _element(self, step: Step, half: int, is_before: bool, csn: str, xid: str) -> tuple[str, Image, list[str]]:
        """The text of an element, its values as text, and the columns of the key that are among them."""
        table, kind, which = step.layout.table.full_name, step.operation.lower(), ' image="before"' if is_before else ""
        lines, image, keys = [f'<dbupdate table={quoteattr(table)} type="{kind}"{which}>', "    <columns>"], Image(), []
        for at in step.sent[half]:
            column = step.layout.columns[at]
            text = image[column.name] = _exported(column, (step.rows[half] or [])[at])
            keys += [column.name] if column.is_key else []
            attributes = (' key="true"' if column.is_key else "") + (' status="null"' if text is None else "")
            shown = "" if text is None else escape(text).translate(_CONTROLS)
            lines.append(f"      <column name={quoteattr(column.name)}{attributes}>{shown}</column>")
        lines += ("    </columns>", "    <tokens>", f'      <token name="TK-XID">{xid}</token>')
        lines += (f'      <token name="TK-CSN">{csn}</token>', "    </tokens>", "  </dbupdate>")
        return "\n".join(lines), image, keys


def _exported(column: Described, cell: Cell) -> str | None:
    """The text of a value in an export: a binary large object is Base64."""
    if column.lob == "blob" and cell.lob is not None:
        return base64.b64encode(cell.lob).decode()
    return cell.text


def _is_number(column: Described) -> bool:
    """Is it a number in JSON? A floating decimal, which may have a hundred digits, is a text."""
    return column.is_number and not (column.source.type is Type.DECIMAL and column.source.places is None)
