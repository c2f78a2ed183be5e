"""What one record says of itself, as a row of ``events`` does: the reference for the vectorised reader
(docs/formats/gbase8s.md §2, §6).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from cdcwb.formats.gbase8s.layout import COMMON_FIELDS, StreamSettings, record_name
from cdcwb.formats.gbase8s.schema import TableSchema, schema_text, table_schema, text_codec
from cdcwb.model import Kind, Problem
from tests.reference.gbase8s.anatomy import Anatomy, Problems, cut, lay_out
from tests.reference.gbase8s.values import decode

__all__ = ["DEFAULTS", "event", "position_text", "schema_of", "time_of"]

DEFAULTS: Final = StreamSettings()

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = -62135596800  # 0001-01-01T00:00:00Z
_LATEST: Final = 253402300799  # 9999-12-31T23:59:59Z
_BEFORE: Final = (41, 42)  # DELETE and UPDBEF: their row is the one before the change


def position_text(sequence: int) -> str:
    """A sequence number as 16 upper-case hexadecimal digits, so that text order is log order (§6.1)."""
    return f"{sequence:016X}"


def time_of(seconds: int) -> datetime | None:
    """Unix seconds as a UTC time, or None outside the years 1 to 9999 (§6.8)."""
    return _EPOCH + timedelta(seconds=seconds) if _EARLIEST <= seconds <= _LATEST else None


def schema_of(record: bytes, version: int = 1, settings: StreamSettings = DEFAULTS) -> TableSchema | None:
    """The table schema that a TABSCHEM record brings (§5), or None where the record is none or too short for one."""
    return _schema_of(record, cut(record, None, settings), version, settings)


def _schema_of(record: bytes, anatomy: Anatomy, version: int, settings: StreamSettings) -> TableSchema | None:
    if anatomy.type is None or anatomy.type.kind is not Kind.SCHEMA:
        return None
    header = anatomy.header
    text = schema_text(record[anatomy.header_end : anatomy.payload_end], settings.charset)
    counts = header["fixed_length_bytes"], header["fixed_columns"], header["variable_columns"]
    return table_schema(header["user_data"], version, text, counts, "record")


def event(record: bytes, schema: TableSchema | None = None, settings: StreamSettings = DEFAULTS) -> dict[str, object]:
    """What the record's own bytes say: the columns of ``events`` that need no other record.

    ``schema`` is the one in force for a row record (None: not known, the row stays bytes). The keys are
    ``record_type``, ``kind``, ``operation``, ``position``, ``transaction_number`` and ``label`` (signed integers),
    ``changed_at`` (a UTC datetime), ``commit_position``, ``before``, ``after``, ``headers`` and ``problems`` (a list of
    ``code`` and ``detail``); None where the record says nothing. A row that cannot be decoded is an empty map, its
    bytes are the header ``undecoded``; header bytes that no field explains are ``extra_header``. Never raises.
    """
    anatomy = cut(record, schema, settings)
    kind, header, problems = anatomy.type, anatomy.header, list(anatomy.problems)
    sequence = header.get("sequence_number")
    position = None if sequence is None else position_text(sequence)
    headers = _header_texts(record, anatomy)
    seconds = header.get("start_time", header.get("commit_time"))
    changed_at = None if seconds is None else time_of(seconds)
    if seconds is not None and changed_at is None:
        problems.append((Problem.TIME_RANGE, f"expected a time of the years 1 to 9999, found {seconds} Unix seconds"))
    image: dict[str, str | None] | None = None
    if kind is not None and kind.is_row:
        image, undecoded = _row_image(record, anatomy, schema, settings, problems)
        if undecoded:
            headers["undecoded"] = undecoded.hex()
    elif kind is not None and kind.kind is Kind.SCHEMA:
        problems += _schema_problems(record, anatomy, settings)
    return {
        "record_type": record_name(header["record_number"]) if "record_number" in header else None,
        "kind": str(Kind.CONTROL if kind is None else kind.kind),
        "operation": None if kind is None or kind.operation is None else str(kind.operation),
        "position": position,
        "transaction_number": header.get("transaction_id"),
        "label": header.get("user_data"),
        "changed_at": changed_at,
        "commit_position": position if kind is not None and kind.kind is Kind.COMMIT else None,
        "before": image if kind is not None and kind.number in _BEFORE else None,
        "after": image if kind is not None and kind.number not in _BEFORE else None,
        "headers": headers,
        "problems": [{"code": str(code), "detail": detail} for code, detail in problems] or None,
    }


def _header_texts(record: bytes, anatomy: Anatomy) -> dict[str, str]:
    """Every header field by its own name, in wire order (§2): decimal numbers, the sequence number as the position."""
    names = [field.name for field in (*COMMON_FIELDS, *(anatomy.type.fields if anatomy.type else ()))]
    values = {name: anatomy.header[name] for name in names if name in anatomy.header}
    texts = {name: position_text(value) if name == "sequence_number" else str(value) for name, value in values.items()}
    if anatomy.words:
        texts["variable_sizes"] = " ".join(map(str, anatomy.words))
    if anatomy.words_end < anatomy.header_end:
        texts["extra_header"] = record[anatomy.words_end : anatomy.header_end].hex()
    return texts


def _row_image(
    record: bytes, anatomy: Anatomy, schema: TableSchema | None, settings: StreamSettings, problems: Problems
) -> tuple[dict[str, str | None], bytes]:
    """The columns of a row, and the bytes of it that are in none; problems are added to the list."""
    payload = record[anatomy.header_end : anatomy.payload_end]
    if schema is None:
        problems.append(
            (Problem.NO_SCHEMA, f"no table schema of label {anatomy.header['user_data']} precedes this row")
        )
        return {}, payload
    row = lay_out(schema, payload, anatomy.words, settings)
    problems += row.problems
    image: dict[str, str | None] = {}
    for slot in row.slots:
        value = decode(slot.column, payload[slot.start : slot.stop], settings)
        image[slot.column.name] = value.text
        if value.problem is not None:
            problems.append((value.problem, f"column {slot.column.ordinal} {slot.column.name}: {value.detail}"))
    return image, payload[row.end :]


def _schema_problems(record: bytes, anatomy: Anatomy, settings: StreamSettings) -> Problems:
    problems: Problems = []
    if text_codec(record[anatomy.header_end : anatomy.payload_end], settings.charset) is None:
        tried = " or ".join(dict.fromkeys(("utf-8", settings.charset)))
        problems.append((Problem.CHARSET, f"expected a schema text in {tried}, found other bytes"))
    schema = _schema_of(record, anatomy, 1, settings)
    return problems if schema is None else problems + list(schema.problems)
