"""JSON messages of one batch, parsed one by one and put together by their form (docs/formats/qlik-kafka.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from cdcwb.formats.bitmask import parse
from cdcwb.formats.json_values import as_text, parse_json
from cdcwb.formats.qlik_kafka.documents import Document, read_document
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions, table_of
from cdcwb.formats.qlik_kafka.names import NOBODY, TableName, places_in
from cdcwb.formats.qlik_kafka.rows import Image, Rows
from cdcwb.formats.qlik_kafka.versions import Version, from_names
from cdcwb.model import Problem

__all__ = ["MASKS", "Images", "Parsed", "Place", "parse_messages", "read_mask"]


class Place(Protocol):
    """What the container says of the messages of a batch. ``known``: of what it says something at all."""

    known: frozenset[str]

    def __call__(self, number: int) -> tuple[Mapping[str, str | None], bytes | None]:
        """The facts and the key of one message."""
        ...


Images = bool | frozenset[str]
"""Which columns of row images are wanted: all, none, or these (JSON rows are always whole)."""

MASKS: Final = ("changeMask", "columnMask")


@dataclass(slots=True)
class Parsed:
    """What came out of a batch: data messages, metadata messages (message, document), and messages that cannot be
    understood (message, why). Numbers of messages are those of the batch."""

    rows: list[Rows] = field(default_factory=list)
    metadata: list[tuple[int, Document]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    version: Version | None
    table: TableName | None
    schema_id: str | None
    index: list[int] = field(default_factory=list)
    outer: list[Any] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)


def parse_messages(
    values: Iterable[tuple[int, bytes]], settings: Settings, versions: Versions, place: Place, images: Images
) -> Parsed:
    """Parses the JSON values of a batch, each with its number in it. Without ``images`` the rows have none."""
    parsed = Parsed()
    groups: dict[Any, _Group] = {}
    asked: dict[Any, tuple[str, ...]] = {}  # which places may name the table of messages with these keys
    for number, value in values:
        try:
            one = read_document(parse_json(value))
        except ValueError as reason:
            parsed.bad.append((number, str(reason)))
            continue
        if one.record_type == "MD":
            parsed.metadata.append((number, one))
            continue
        record_type, outer, body, headers, data, before, _ = one
        schema_id = outer.get("messageSchemaId")
        if schema_id is not None:
            schema_id = (schema_id if isinstance(schema_id, str) else as_text(schema_id)) or None
        version = versions.by_schema_id.get(schema_id) if schema_id is not None else None
        keys = (
            tuple(outer),
            tuple(headers),
            None if data is None else tuple(data),
            None if before is None else tuple(before),
        )
        table = external = None
        if version is None:
            places = asked.get(keys)
            if places is None:
                places = asked[keys] = places_in(body, headers, data or before or (), place.known, settings.places)
            if places:
                facts, key = place(number)
                table = table_of(settings, body, headers, data or before, facts, key, places)
            external = headers.get("externalSchemaId")
            external = external if isinstance(external, str) else None
        shape = (record_type, schema_id, external, table, keys)
        group = groups.get(shape)
        if group is None:
            unresolved = schema_id if version is None else None
            if version is None:
                there = keys[2] or keys[3] or ()
                version = versions.of_names(table or NOBODY, external, there)
                if version is None:  # the plan has only the first of those that name an id without metadata
                    version = from_names("", (table or NOBODY).label, there, external)
            group = groups[shape] = _Group(version, table, unresolved)
        group.index.append(number)
        group.outer.extend(outer.values())
        group.headers.extend(headers.values())
        if images:
            if data is not None:
                group.data.extend(data.values())
            if before is not None:
                group.before.extend(before.values())
    for shape, group in groups.items():
        _add(parsed, shape, group, images)
    return parsed


def _add(parsed: Parsed, shape: tuple[Any, ...], group: _Group, images: Images) -> None:
    record_type, *_, (outer_names, header_names, data_names, before_names) = shape
    table = group.table
    count = len(group.index)
    headers = _columns(group.outer, len(outer_names), count) + _columns(group.headers, len(header_names), count)
    names = (*outer_names, *header_names)
    problems: list[tuple[int, Problem, str]] = []
    own = dict(zip(header_names, headers[len(outer_names) :], strict=True))
    masks = [read_mask(name, own[name], problems) if name in own else None for name in MASKS]
    version = group.version
    if group.schema_id is not None:
        sentence = f"the metadata message of schema {group.schema_id} is not in the capture"
        sentence += "; ordinals are the order of the keys"
        problems.extend((row, Problem.NO_SCHEMA, sentence) for row in range(count))
    rows = Rows(
        np.array(group.index, dtype=np.int64),
        record_type,
        version,
        _schema_name(version, table),
        _table_name(version, table),
        names,
        headers,
        (masks[0], masks[1]),
        "big",
        _image(data_names, group.data, count) if images else None,
        _image(before_names, group.before, count) if images else None,
        None if record_type in ("DT", "DataRecord") else len(outer_names),
        len(outer_names),
        problems,
    )
    parsed.rows.append(rows)


def _schema_name(version: Version | None, table: TableName | None) -> str | None:
    return table.schema if table is not None else version.schema_name if version is not None else None


def _table_name(version: Version | None, table: TableName | None) -> str | None:
    return table.table if table is not None else version.table_name if version is not None else None


def read_mask(name: str, texts: pa.StringArray, problems: list[tuple[int, Problem, str]]) -> pa.BinaryArray:
    """The bytes of masks that are text; adds a problem (row, code, sentence) for each text that is none."""
    masks, wrong = parse(texts)
    for row in np.flatnonzero(wrong).tolist():
        problems.append((row, Problem.MASK, f"{name}: expected hexadecimal digits, found {texts[row].as_py()!r:.60}"))
    return masks


def _columns(flat: Sequence[Any], width: int, count: int) -> list[pa.StringArray]:
    return [_texts(flat[at::width]) for at in range(width)] if count else []


def _texts(values: Sequence[Any]) -> pa.StringArray:
    """Parsed values of one column as text. Columns of one type are converted by Arrow, mixed ones value by value."""
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowTypeError, pa.ArrowInvalid, UnicodeEncodeError):
        pass
    try:
        typed = pa.array(values)
        if pa.types.is_integer(typed.type) or pa.types.is_boolean(typed.type):
            return typed.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        pass
    return pa.array([_safe(as_text(value)) for value in values], pa.string())


def _safe(text: str | None) -> str | None:
    """A text that can be written as UTF-8: half a surrogate pair, which JSON may spell, becomes a question mark."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _image(names: tuple[str, ...] | None, flat: Sequence[Any], count: int) -> Image | None:
    return None if names is None else Image(names, count, columns=_columns(flat, len(names), count))
