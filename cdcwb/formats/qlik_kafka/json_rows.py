"""JSON messages of one batch, parsed one by one and put together by their form (docs/formats/qlik-kafka.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.formats.bitmask import parse
from cdcwb.formats.json_values import CutOff, as_text
from cdcwb.formats.qlik_kafka.documents import Document, read_message
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions, table_of
from cdcwb.formats.qlik_kafka.names import NOBODY, TableName, places_in
from cdcwb.formats.qlik_kafka.rows import Image, Rows
from cdcwb.formats.qlik_kafka.versions import Version, from_names
from cdcwb.model import Problem

__all__ = [
    "MASKS",
    "Belongs",
    "Images",
    "Keys",
    "Parsed",
    "Place",
    "belonging",
    "keys_of",
    "parse_messages",
    "read_mask",
    "rows_of",
    "schema_id_of",
]


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
    """What came out of a batch: data messages, metadata messages (message, document), messages that cannot be
    understood (message, why), and what is said of messages that are read all the same (message, sentence). Numbers of
    messages are those of the batch.

    ``cut``: the messages that are cut off. The complete fields of those that are Qlik's are in ``cut_rows`` and
    ``cut_metadata``.
    """

    rows: list[Rows] = field(default_factory=list)
    metadata: list[tuple[int, Document]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    cut_rows: list[Rows] = field(default_factory=list)
    cut_metadata: list[tuple[int, Document]] = field(default_factory=list)

    def add(self, other: Parsed) -> None:
        """Takes in what came out of other messages of the batch."""
        for name in ("rows", "metadata", "bad", "notes", "cut", "cut_rows", "cut_metadata"):
            getattr(self, name).extend(getattr(other, name))


@dataclass(slots=True)
class _Group:
    belongs: Belongs
    index: list[int] = field(default_factory=list)
    outer: list[Any] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)


class Belongs(NamedTuple):
    """Where messages belong: version and table, as far as they are known, and the schema id whose metadata is not."""

    version: Version | None
    table: TableName | None
    unresolved: str | None


Keys = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...] | None, tuple[str, ...] | None]
"""The keys of a message: around the data message, in its headers, its data and its before image."""


def parse_messages(
    values: Iterable[tuple[int, bytes]], settings: Settings, versions: Versions, place: Place, images: Images
) -> Parsed:
    """Parses the JSON values of a batch, each with its number in it. Without ``images`` the rows have none."""
    parsed = Parsed()
    groups: dict[Any, _Group] = {}
    asked: dict[Any, tuple[str, ...]] = {}  # which places may name the table of messages with these keys
    remarks: list[str] = []
    for number, value in values:
        try:
            one, complete = read_message(value, remarks)
        except CutOff:
            parsed.cut.append(number)
            continue
        except ValueError as reason:
            parsed.bad.append((number, str(reason)))
            remarks.clear()
            continue
        if remarks:
            parsed.notes.extend((number, remark) for remark in remarks)
            remarks.clear()
        if not complete:
            parsed.cut.append(number)
        if one.record_type == "MD":
            (parsed.metadata if complete else parsed.cut_metadata).append((number, one))
            continue
        record_type, outer, body, headers, data, before, _ = one
        keys = keys_of(one)
        schema_id = schema_id_of(one)
        version = versions.by_schema_id.get(schema_id) if schema_id is not None else None
        table = external = None
        if version is None:
            places = asked.get(keys)
            if places is None:
                places = asked[keys] = places_in(body, headers, data or before or (), place.known, settings.places)
            if places:
                facts, key = place(number)
                table = table_of(settings, body, headers, data or before, facts, key, places)
            external = _external(one)
        shape = (record_type, schema_id, external, table, keys, complete)
        group = groups.get(shape)
        if group is None:
            belongs = belonging(one, keys, table, versions) if complete else Belongs(version, table, None)
            group = groups[shape] = _Group(belongs)
        group.index.append(number)
        group.outer.extend(outer.values())
        group.headers.extend(headers.values())
        if images:
            if data is not None:
                group.data.extend(data.values())
            if before is not None:
                group.before.extend(before.values())
    for (record_type, _, _, _, keys, complete), group in groups.items():
        outer_names, header_names, data_names, before_names = keys
        count = len(group.index)
        columns = _columns(group.outer, len(outer_names), count) + _columns(group.headers, len(header_names), count)
        data_image = _image(data_names, group.data, count) if images else None
        before_image = _image(before_names, group.before, count) if images else None
        index = np.array(group.index, dtype=np.int64)
        rows = rows_of(index, record_type, group.belongs, keys, columns, data_image, before_image)
        (parsed.rows if complete else parsed.cut_rows).append(rows)
    return parsed


def keys_of(one: Document) -> Keys:
    """The keys of a data message."""
    return (
        tuple(one.outer),
        tuple(one.headers),
        None if one.data is None else tuple(one.data),
        None if one.before is None else tuple(one.before),
    )


def schema_id_of(one: Document) -> str | None:
    """The schema id that a data message names, as text."""
    return as_text(one.outer.get("messageSchemaId")) or None


def _external(one: Document) -> str | None:
    found = one.headers.get("externalSchemaId")
    return found if isinstance(found, str) else None


def belonging(one: Document, keys: Keys, table: TableName | None, versions: Versions) -> Belongs:
    """Where messages belong that name the same schema ids as this one, and this table, and have these keys."""
    schema_id = schema_id_of(one)
    version = versions.by_schema_id.get(schema_id) if schema_id is not None else None
    if version is not None:
        return Belongs(version, table, None)
    there, external = keys[2] or keys[3] or (), _external(one)
    version = versions.of_names(table or NOBODY, external, there)
    if version is None:  # the plan has only the first of those that name an id without metadata
        version = from_names("", (table or NOBODY).label, there, external)
    return Belongs(version, table, schema_id)


def rows_of(
    index: npt.NDArray[np.int64],
    record_type: str,
    belongs: Belongs,
    keys: Keys,
    headers: list[pa.StringArray],
    data: Image | None,
    before: Image | None,
) -> Rows:
    """The rows of messages that belong together; ``headers`` are those around the data message and its own."""
    outer_names, header_names, *_ = keys
    version, table, unresolved = belongs
    problems: list[tuple[int, Problem, str]] = []
    own = dict(zip(header_names, headers[len(outer_names) :], strict=True))
    masks = [read_mask(name, own[name], problems) if name in own else None for name in MASKS]
    if unresolved is not None:
        sentence = f"the metadata message of schema {unresolved} is not in the capture"
        sentence += "; ordinals are the order of the keys"
        problems.extend((row, Problem.NO_SCHEMA, sentence) for row in range(len(index)))
    return Rows(
        index,
        record_type,
        version,
        _schema_name(version, table),
        _table_name(version, table),
        (*outer_names, *header_names),
        headers,
        (masks[0], masks[1]),
        "big",
        data,
        before,
        None if record_type in ("DT", "DataRecord") else len(outer_names),
        len(outer_names),
        problems,
    )


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
