"""What handlers make of a trail (``docs/formats/goldengate.md §8``): JSON messages, and transactions in FORMATXML."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from cdcwb_synth.goldengate.bodies import Image, Step
from cdcwb_synth.goldengate.columns import Cell, Described, Layout
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Shown
from cdcwb_synth.goldengate.text_files import TextFiles
from cdcwb_synth.goldengate.trail import Placed
from cdcwb_synth.goldengate.truth import Place, Truth, Version
from cdcwb_synth.instants import EPOCH
from cdcwb_synth.model import ChangeSource, Completeness, OffsetUnit, Operation, Outcome
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.values import Type

__all__ = ["Exports"]

_OP_TYPES: Final = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "TRUNCATE": "T"}
_TOKENS: Final = {"LOGCSN": "L", "TRANID": "6", "ORAROWID": "R"}
_LATE: Final = timedelta(seconds=3, microseconds=415_000)  # between an operation and its message
_COLUMN: Final = ("ordinal", "name", "type", "length", "precision", "scale", "key_position", "nullable")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_CONTROLS: Final = {ord("\n"): "&#10;", ord("\t"): "&#9;"}


class Exports:
    """Hears of a trail and, when a transaction is in it, writes what a handler makes of it."""

    def __init__(self, options: GoldenGateOptions, folder: Path, truth: Truth, part: Part = WHOLE) -> None:
        self._suffix = part.suffix
        self._options, self._truth = options, truth
        self._files = TextFiles(folder, truth, options.compression)
        self._is_json = options.form == "json"
        self._versions: dict[str, Version] = {}
        self._seen: dict[str, dict[str, set[str]]] = {}  # table: column: kinds of its values
        self._keys: dict[str, set[str]] = {}

    def new_file(self, sequence: int, path: str, header: bytes, at: int) -> None:
        """A new file of the trail: messages get a new file if the options say so."""
        name, ending = ("messages", "json") if self._is_json else ("transactions", "xml")
        if self._options.container == "bytes_literal" and self._is_json:
            ending = "log"
        if self._options.capture_files == "trail":
            self._files.start(f"{name}-{sequence:09d}.{ending}")
        elif self._files.number < 0:
            self._files.start(f"{name}{self._suffix}.{ending}")

    def record(self, shown: Shown) -> Place:
        """A record of the trail, which nobody sees."""
        return Place(-1, -1, 0)

    def defined(self, layout: Layout, key: str, text: str, place: Place) -> None:
        """A definition, which nobody sees."""

    def close(self) -> None:
        """Complete the files, and tell the truth what is known of the tables."""
        self._files.close()
        self._describe()

    def transaction(
        self, steps: Sequence[Step], placed: Sequence[Sequence[Placed]], csn: str, xid: str, at: datetime
    ) -> None:
        """A whole transaction, committed ``at`` some time."""
        if self._is_json:
            told = [self._message(step, one[step.head]) for step, one in zip(steps, placed, strict=True)]
        else:
            told = self._elements([s for s in steps if s.operation is not Operation.TRUNCATE], csn, xid, at)
        named = [row for row in told if row["transaction_id"] is not None]
        if named:
            self._summary(named, xid)

    def _summary(self, told: Sequence[dict[str, Any]], xid: str) -> None:
        counts = Counter(row["operation"] for row in told)
        positions = [row["position"] for row in told]
        whole = not self._is_json
        self._truth.transaction(
            {
                "transaction_id": xid,
                "begin_position": positions[0],
                "end_position": positions[-1],
                "began_at": told[0]["changed_at"],
                "ended_at": told[-1]["changed_at"] if whole else None,
                "outcome": str(Outcome.COMMITTED),
                "completeness": str(Completeness.COMPLETE if whole else Completeness.UNKNOWN),
                "changes": sorted(counts.items()),
                "tables": sorted({f"{row['schema_name']}.{row['table_name']}" for row in told}),
                "bytes": sum(event["length"] for row in told for event in row["source_events"]),
                "user": None,
            }
        )

    def _tell(self, step: Step, place: Place, row: dict[str, Any]) -> dict[str, Any]:
        """Add a change to the truth, with what all exports have in common."""
        changed = None
        if row["before"] is not None and row["after"] is not None:
            changed = [n for n, text in row["after"].items() if row["before"].get(n) != text]
        table = step.layout.table
        row |= {
            "operation": str(step.operation),
            "schema_name": table.schema,
            "table_name": table.name,
            "changed_columns": changed,
            "change_source": None if changed is None else str(ChangeSource.IMAGES),
            "outcome": str(step.outcome),
            "offset_unit": str(OffsetUnit.BYTE),
        }
        version = self._versions.get(step.layout.full_name)
        if version is None:
            version = Version(f"{step.layout.full_name}@1", table.schema, table.name, [], "inferred", None)
            self._versions[step.layout.full_name] = self._truth.version(version)
        self._see(step.layout, row)
        self._truth.change(place, version, dict(row))
        return row

    def _see(self, layout: Layout, row: dict[str, Any]) -> None:
        """Note what the columns of a change look like: a text, or a number."""
        kinds = self._seen.setdefault(layout.full_name, {})
        numbers = {column.name for column in layout.columns if _is_number(column)}
        for image in (row["after"], row["before"]):
            for name, text in (image or {}).items():
                seen = kinds.setdefault(name, set())
                if text is not None:
                    is_number = name in numbers if self._is_json else _NUMBER.match(text)
                    seen.add("number" if is_number else "text")
        self._keys[layout.full_name] = {layout.columns[at].name for at in layout.key_places}

    def _describe(self) -> None:
        """Put what is known of columns into the versions."""
        blank: dict[str, Any] = dict.fromkeys(_COLUMN)
        for table, version in self._versions.items():
            keys = self._keys[table]
            version.columns = [
                blank
                | {
                    "ordinal": ordinal,
                    "name": name,
                    "type": "number" if seen == {"number"} else "text",
                    "key_position": 1 if name in keys else None,
                }
                for ordinal, (name, seen) in enumerate(self._seen[table].items(), 1)
            ]

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def _message(self, step: Step, head: Placed) -> dict[str, Any]:
        options, layout = self._options, step.layout
        record = head.shown.record
        at = EPOCH + timedelta(microseconds=record.at)
        tokens = {_TOKENS[token.name]: token.text for token in record.tokens}
        keys = [layout.names[i] for i in layout.key_places]
        fields = {
            "table": layout.full_name,
            "op_type": _OP_TYPES[step.operation],
            "op_ts": at.replace(tzinfo=None).isoformat(" ", "microseconds"),
            "current_ts": (at + _LATE).replace(tzinfo=None).isoformat("T", "microseconds"),
            "pos": head.position,
        }
        parts = [f"{encode_basestring(name)}:{encode_basestring(value)}" for name, value in fields.items()]
        parts.append('"primary_keys":' + json.dumps(keys, separators=(",", ":")))
        parts.append('"tokens":' + json.dumps(tokens, separators=(",", ":")))
        before, after = (self._image(step, half) for half in (0, 1))
        if options.json_form == "row":
            shown = before[0] if step.operation is Operation.DELETE else after[0]
            if step.operation is not Operation.DELETE:
                before = ({}, None)
            parts += shown.values()
        else:
            parts += self._shown("before", before[0]) + self._shown("after", after[0])
        text = "{" + ",".join(parts) + "}"
        if options.connect:
            text = f'{{"schema":{self._schema(layout)},"payload":{text}}}'
        place = self._files.add(self._contained(text))
        self._truth.facts["records"] += 1
        self._truth.facts[fields["op_type"]] += 1
        ids = {name: tokens[code] for name, code in (("csn", "L"), ("xid", "6")) if code in tokens}
        image = next((one for one in (after[1], before[1]) if one and set(keys) <= one.keys()), None)
        row: dict[str, Any] = {
            "record_type": fields["op_type"],
            "position": head.position,
            "transaction_id": tokens.get("6"),
            "changed_at": at,
            "key": None if image is None else {name: image[name] for name in keys},
            "before": before[1],
            "after": after[1],
            "headers": fields | {"primary_keys": json.dumps(keys, separators=(",", ":"))} | tokens | ids,
            "source_events": [place.event],
        }
        return self._tell(step, place, row)

    def _image(self, step: Step, half: int) -> tuple[dict[str, str], Image | None]:
        """The members of one image of a step, by column, and what they say."""
        row, places = step.rows[half], step.sent[half]
        if row is None or not places:
            return {}, None
        columns, chosen = step.layout.columns, set(places)
        members: dict[str, str] = {}
        image: Image = {}
        for at, column in enumerate(columns):
            name, missing = column.name, at not in chosen
            if missing and not self._options.is_missing:
                continue
            text = None if missing else _exported(column, row[at])
            if not missing:
                image[name] = text
            members[name] = f"{encode_basestring(name)}:{_json_value(column, text)}"
            if self._options.is_missing:
                members[name] += f",{encode_basestring(name + '_isMissing')}:{'true' if missing else 'false'}"
        return members, image

    def _shown(self, name: str, members: dict[str, str]) -> list[str]:
        if members:
            return [f'"{name}":{{' + ",".join(members.values()) + "}"]
        how = self._options.before
        return [] if how == "absent" else [f'"{name}":' + ("null" if how == "null" else "{}")]

    def _schema(self, layout: Layout) -> str:
        fields = [{"type": "string", "optional": True, "field": name} for name in layout.names]
        made = {"type": "struct", "fields": fields, "optional": False, "name": layout.full_name}
        return json.dumps(made, separators=(",", ":"))

    def _contained(self, text: str) -> bytes:
        match self._options.container:
            case "bytes_literal":
                return b"Received message: " + repr(text.encode()).encode() + b"\n"
            case "documents":
                return _spread(text).encode() + b"\n"
            case _:
                return text.encode() + b"\n"

    # --- FORMATXML ----------------------------------------------------------------------------------------------------

    def _elements(self, steps: Sequence[Step], csn: str, xid: str, at: datetime) -> list[dict[str, Any]]:
        stamp = at.replace(tzinfo=None).isoformat(":", "microseconds")
        elements: list[tuple[int, bool, str, Image, list[str]]] = []
        for number, step in enumerate(steps):
            for half in (0, 1):
                row, places = step.rows[half], step.sent[half]
                if row is not None and places:
                    is_before = half == 0 and step.operation is Operation.UPDATE
                    elements.append((number, is_before, *self._element(step, half, is_before, csn, xid)))
        count = len(elements)
        told: list[dict[str, Any]] = []
        first: tuple[Place, Image] | None = None
        for number, (which, is_before, text, image, keys) in enumerate(elements, 1):
            step = steps[which]
            opening = f'<transaction timestamp="{stamp}">\n  ' if number == 1 else ""
            closing = "\n</transaction>\n" if number == count else "\n  "
            place = self._files.add((opening + text + closing).encode())
            self._truth.facts["records"] += 1
            self._truth.facts[step.operation.lower()] += 1
            if is_before:
                first = (place, image)
                continue
            trans_ind = ("3" if count == 1 else "0") if number == 1 else "2" if number == count else "1"
            kind = step.operation.lower()
            is_delete = step.operation is Operation.DELETE
            change: dict[str, Any] = {
                "record_type": kind,
                "position": None,
                "transaction_id": xid,
                "event_no": number,
                "last_in_transaction": number == count,
                "changed_at": at,
                "committed_at": at,
                "key": {name: image[name] for name in keys} if keys else None,
                "before": image if is_delete else None if first is None else first[1],
                "after": None if is_delete else image,
                "headers": {
                    "table": step.layout.full_name, "type": kind, "timestamp": stamp, "TK-XID": xid, "TK-CSN": csn,
                    "csn": csn, "xid": xid, "TransInd": trans_ind,
                },
                "source_events": [one.event for one in (*([] if first is None else [first[0]]), place)],
            }  # fmt: skip
            told.append(self._tell(step, place, change))
            first = None
        return told

    def _element(self, step: Step, half: int, is_before: bool, csn: str, xid: str) -> tuple[str, Image, list[str]]:
        layout, row = step.layout, step.rows[half]
        assert row is not None
        lines = [
            f'<dbupdate table={quoteattr(layout.full_name)} type="{step.operation.lower()}"'
            + (' image="before">' if is_before else ">"),
            "    <columns>",
        ]
        image: Image = {}
        keys = []
        for at in step.sent[half]:
            column = layout.columns[at]
            text = image[column.name] = _exported(column, row[at])
            marks = ' key="true"' if column.is_key else ""
            if column.is_key:
                keys.append(column.name)
            marks += ' status="null"' if text is None else ""
            shown = "" if text is None else escape(text).translate(_CONTROLS)
            lines.append(f"      <column name={quoteattr(column.name)}{marks}>{shown}</column>")
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


def _json_value(column: Described, text: str | None) -> str:
    if text is None:
        return "null"
    return text if _is_number(column) else encode_basestring(text)


def _spread(text: str) -> str:
    """A document on several lines, its numbers as they are."""
    found = json.loads(text, parse_float=_Digits, parse_int=_Digits)
    return _spread_value(found, "")


class _Digits(str):
    __slots__ = ()


def _spread_value(value: Any, indent: str) -> str:
    if isinstance(value, dict) and value:
        inner = ",\n".join(
            f"{indent}  {encode_basestring(k)}: {_spread_value(v, indent + '  ')}" for k, v in value.items()
        )
        return f"{{\n{inner}\n{indent}}}"
    if isinstance(value, list):
        return "[" + ", ".join(_spread_value(one, indent) for one in value) + "]"
    return str(value) if isinstance(value, _Digits) else json.dumps(value, ensure_ascii=False)
