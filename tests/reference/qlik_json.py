"""Qlik's JSON messages, each parsed by msgspec and made a group of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import Ints
from cdcwb.formats.json_values import CutOff, as_text
from cdcwb.formats.qlik_kafka.decode import Document, Image, Parsed, Rows, read_message
from cdcwb.formats.qlik_kafka.decode.rows import Context, read_mask
from cdcwb.formats.qlik_kafka.layout import MASKS
from cdcwb.formats.qlik_kafka.versions import NOBODY, from_names, table_of
from cdcwb.model import Problem

__all__ = ["parse_messages"]


def parse_messages(values: pa.BinaryArray, index: Ints, context: Context) -> Parsed:
    """Takes and gives what :func:`cdcwb.formats.qlik_kafka.decode.json.decode_json` does."""
    parsed = Parsed()
    for number, value in zip(index.tolist(), values.to_pylist(), strict=True):
        remarks: list[str] = []
        try:
            one, complete = read_message(value, remarks)
        except CutOff:
            parsed.cut.append(number)
            continue
        except ValueError as reason:
            parsed.bad.append((number, str(reason)))
            continue
        parsed.notes.extend((number, remark) for remark in remarks)
        if not complete:
            parsed.cut.append(number)
        if one.is_metadata:
            (parsed.metadata if complete else parsed.cut_metadata).append((number, one))
        else:
            (parsed.rows if complete else parsed.cut_rows).append(_rows(number, one, complete, context))
    return parsed


def _texts(values: Any) -> list[pa.StringArray]:
    texts = [as_text(value) for value in values]
    return [pa.array([None if text is None else text.encode("utf-8", "replace").decode()]) for text in texts]


def _image(row: dict[str, Any] | None) -> Image | None:
    return None if row is None else Image([*row], 1, columns=[text.cast(pa.string()) for text in _texts(row.values())])


def _rows(number: int, one: Document, complete: bool, context: Context) -> Rows:
    versions, settings = context.versions, context.settings
    schema_id = as_text(one.outer.get("messageSchemaId")) or None
    version, table = versions.by_schema_id.get(schema_id or ""), None
    problems: list[tuple[int, Problem, str]] = []
    if version is None:
        facts, key = context.places(number)
        table = table_of(settings, one.body, one.headers, one.data or one.before, facts, key)
    if version is None and complete:
        names = [*(one.data or one.before or ())]
        external = one.headers.get("externalSchemaId")
        external = external if isinstance(external, str) else None
        version = versions.of_names(table or NOBODY, external, names)
        version = version or from_names("", (table or NOBODY).label, names, external)
        if schema_id is not None:
            sentence = f"the metadata message of schema {schema_id} is not in the capture"
            problems.append((0, Problem.NO_SCHEMA, f"{sentence}; ordinals are the order of the keys"))
    headers = [text.cast(pa.string()) for text in _texts([*one.outer.values(), *one.headers.values()])]
    own = dict(zip(one.headers, headers[len(one.outer) :], strict=True))
    wrong: list[tuple[int, Problem, str]] = []
    masks = [read_mask(name, own[name], wrong) if name in own else None for name in MASKS]
    named = table is not None and table.table is not None
    return Rows(
        np.array([number]),
        one.record_type,
        version,
        table.schema if named else version.schema_name if version else None,
        table.table if named else version.table_name if version else None,
        (*one.outer, *one.headers),
        headers,
        (masks[0], masks[1]),
        "big",
        _image(one.data) if context.images else None,
        _image(one.before) if context.images else None,
        len(one.outer) if one.is_legacy else None,
        len(one.outer),
        [*wrong, *problems],
    )
