"""One table as typed columns, for all formats, also of those whose captures do not describe their tables: these have
one version each, with the columns that rows have, as texts. Problems of events; and events that are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import are_named, columns_in, filled, labels, table_names
from cdcwb.formats.columns import TableColumn, TableVersion, parsed
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.options import nearest
from cdcwb.model import Kind, Problem

FROM_EVENTS: Final = ("file_index", "offset", "kind", "operation", "position", "transaction_id", "table_version")
"""The columns with the location of a row."""

_IMAGES: Final = ("before", "after")

_Version = TypeVar("_Version")
Reader = Callable[[pa.Array, pa.DataType], pa.Array]


def images_of(request: TableRequest) -> tuple[str, ...]:
    """The requested images. Raises CaptureError for an invalid value."""
    if request.images == "both":
        return _IMAGES
    if request.images not in _IMAGES:
        raise CaptureError(f"images: expected before, after or both, found {request.images!r}")
    return (request.images,)


def versions_of(versions: Sequence[_Version], request: TableRequest) -> Sequence[_Version]:
    """The versions of a table whose columns are requested. Raises CaptureError for an unknown ``schema``."""
    if request.schema == "latest":
        return versions[-1:]
    if request.schema != "in_force":
        raise CaptureError(f"schema: expected in_force or latest, found {request.schema!r}")
    return versions


def chosen_columns(types: Mapping[str, pa.DataType], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns of a table. Raises CaptureError, with the known ones, for an unknown column."""
    if request.columns is None:
        return dict(types)
    for name in request.columns:
        if name not in types:
            hint = nearest(name, types)
            raise CaptureError(f"table {request.name!r} has no column {name!r}.{hint} There are: {', '.join(types)}.")
    return {name: types[name] for name in request.columns}


def common_types(columns: Iterable[tuple[str, pa.DataType]], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns, of those of all versions of a table with their types. One whose type differs between
    versions is text. Raises CaptureError, with the known ones, for an unknown column."""
    types: dict[str, pa.DataType] = {}
    for name, kind in columns:
        types[name] = kind if types.get(name, kind) == kind else pa.string()
    return chosen_columns(types, request)


def no_table(request: TableRequest, known: Iterable[str], what: str = "") -> CaptureError:
    """The error for an unknown table, with the known ones."""
    names = sorted(set(known))
    hint = nearest(request.name, names)
    return CaptureError(f"there is no table {request.name!r}{what}.{hint} There are: {', '.join(names) or 'none'}.")


def request_schema(types: Mapping[str, pa.DataType], request: TableRequest) -> pa.Schema:
    """The location of the row, then a structure of these columns for each image."""
    image = pa.struct(list(types.items()))
    fields = [pa.field(name, image) for name in images_of(request)]
    return pa.schema([*(model.EVENTS.field(name) for name in FROM_EVENTS), *fields])


def versions_schema(
    versions: Sequence[TableVersion], request: TableRequest, type_of: Callable[[TableVersion, TableColumn], pa.DataType]
) -> pa.Schema:
    """The schema of a request, with the type of each column in each version. Raises CaptureError for an unknown table
    or column."""
    known = [one for one in versions if one.full_name and request.name in table_names(one.full_name)]
    if not known:
        raise no_table(request, (one.full_name for one in versions if one.full_name))
    columns = ((one.name, type_of(version, one)) for version in versions_of(known, request) for one in version.columns)
    return request_schema(common_types(columns, request), request)


def typed_rows(events: pa.RecordBatch, schema: pa.Schema, read: Reader = parsed) -> pa.RecordBatch:
    """Events as rows of a table with this schema (:func:`request_schema`). A value that its type does not have is
    null, and a column that a row does not have too. ``read``: texts as values of a type."""
    structs = {one.name: _typed(events[one.name], one.type, read) for one in schema if pa.types.is_struct(one.type)}
    return filled(schema, columns_in(events) | structs, events.num_rows)


def _typed(maps: pa.MapArray, kind: pa.StructType, read: Reader) -> pa.StructArray:
    """Maps of texts as structures of typed columns."""
    null, fields = pc.is_null(maps), list(kind)
    if not fields:
        return pa.array([None if one else {} for one in null.to_pylist()], kind)
    edges = maps.offsets.to_numpy(zero_copy_only=False)
    some = slice(int(edges[0]), int(edges[-1]))
    row = np.repeat(np.arange(len(maps)), np.diff(edges))
    items = maps.items[some]
    column = pc.fill_null(pc.index_in(maps.keys[some], pa.array([one.name for one in fields])), -1).to_numpy()
    places = np.full((len(fields) + 1, len(maps)), -1, dtype=np.int64)
    places[column, row] = np.arange(len(row))
    texts = (items.take(pa.array(at, mask=at < 0)) for at in places[:-1])
    arrays = [read(text, one.type) for one, text in zip(fields, texts, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=null)


# --- findings ---------------------------------------------------------------------------------------------------------


def problem_rows(rows: pa.RecordBatch, only: Sequence[str] = ()) -> pa.RecordBatch:
    """The problems of events or changes, as a batch of :data:`cdcwb.model.PROBLEMS`. ``only``: with these codes."""
    some = with_problems(rows)
    codes, severities = _severities()
    place = pc.list_parent_indices(some["problems"])
    code, sentence = pc.list_flatten(some["problems"]).flatten()
    if only:
        chosen = pc.is_in(code, pa.array(list(map(str, only))))
        place, code, sentence = place.filter(chosen), code.filter(chosen), sentence.filter(chosen)
    raw = some["raw"].to_pylist() if "raw" in some.schema.names else [None] * some.num_rows
    first = pa.array([None if record is None else record[: model.FIRST_BYTES].hex() for record in raw], pa.string())
    columns = {
        "severity": severities.take(pc.index_in(code, codes)),
        "code": code,
        "sentence": sentence,
        "first_bytes": first.take(place),
        "table": labels(some["schema_name"], some["table_name"]).take(place),
    }
    arrays = [columns[one.name] if one.name in columns else some[one.name].take(place) for one in model.PROBLEMS]
    return pa.RecordBatch.from_arrays(arrays, schema=model.PROBLEMS)


@cache  # an array that is made by an import would import pandas with it
def _severities() -> tuple[pa.Array, pa.Array]:
    """The codes of problems, and the severity of each."""
    return pa.array(list(map(str, Problem))), pa.array([str(code.severity) for code in Problem])


# --- selecting --------------------------------------------------------------------------------------------------------


def selected(batch: pa.RecordBatch, wanted: Wanted) -> pa.Array | None:
    """A mask of the requested events; None: all."""
    conditions = []
    if wanted.drop_malformed:
        conditions.append(pc.not_equal(batch.column("kind"), str(Kind.MALFORMED)))
    if wanted.timed:
        conditions.append(pc.is_valid(batch.column("changed_at")))
    if wanted.kinds is not None:
        conditions.append(pc.is_in(batch.column("kind"), pa.array(sorted(wanted.kinds), pa.string())))
    if wanted.transactions is not None:
        chosen = pa.array(sorted(wanted.transactions), pa.string())
        conditions.append(pc.is_in(batch.column("transaction_id"), chosen))
    if wanted.tables is not None:
        conditions.append(are_named(labels(batch["schema_name"], batch["table_name"]), wanted.tables))
    return reduce(pc.and_, conditions) if conditions else None


def select(batch: pa.RecordBatch, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The requested events, if any."""
    keep = selected(batch, wanted)
    chosen = batch if keep is None or pc.all(keep, skip_nulls=False).as_py() else batch.filter(keep)
    if chosen.num_rows:
        yield chosen


def with_problems(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a batch with problems."""
    return batch.filter(pc.is_valid(batch["problems"]))


def having(problems: pa.Array, code: Problem) -> npt.NDArray[np.bool_]:
    """A mask of the rows that have a problem with this code, from their column ``problems``."""
    found = np.zeros(len(problems), np.bool_)
    for row in np.flatnonzero(pc.is_valid(problems).to_numpy(zero_copy_only=False)).tolist():
        found[row] = any(one["code"] == code for one in problems[row].as_py())
    return found


def with_all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Events with all columns: null where they were not read."""
    return filled(model.EVENTS, columns_in(batch), batch.num_rows)


def without(batch: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    """A batch in which these columns are null."""
    columns = [pa.nulls(batch.num_rows, one.type) if one.name in names else batch[one.name] for one in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


# --- tables of formats whose captures do not describe them ------------------------------------------------------------


Tables = dict[tuple[str | None, str], dict[str, TableColumn]]
"""The columns of each table (schema and name) by their names, in order of appearance; without ordinals."""


def note_tables(tables: Tables, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds the columns of events as dictionaries, whose images are dictionaries; ``types``: types by columns;
    ``key_columns``: those of the key, if there is no ``key``."""
    for row in rows:
        if row.get("table_name") is not None:
            columns = {name: TableColumn(0, name, kind) for name, kind in (row.get("types") or {}).items()}
            for image in ("key", "before", "after"):
                for name in row.get(image) or ():
                    columns.setdefault(name, TableColumn(0, name))
            for at, name in enumerate(row.get("key") or row.get("key_columns") or (), start=1):
                columns[name] = columns.get(name, TableColumn(0, name))._replace(key_position=at)
            _add(tables.setdefault((row.get("schema_name") or None, row["table_name"]), {}), columns)


def _add(known: dict[str, TableColumn], columns: Mapping[str, TableColumn]) -> None:
    for name, column in columns.items():
        old = known.setdefault(name, column)
        if column not in (old, TableColumn(0, name)):
            key_position = column.key_position or old.key_position
            known[name] = old._replace(type=column.type or old.type, key_position=key_position)


def merged_tables(found: Iterable[Tables]) -> Tables:
    """The tables of consecutive parts of a capture."""
    merged: Tables = {}
    for tables in found:
        for table, columns in tables.items():
            _add(merged.setdefault(table, {}), columns)
    return merged


def inferred_version(row: Mapping[str, Any]) -> str | None:
    """The version of the table of an event; None without a table."""
    schema, name = row.get("schema_name"), row.get("table_name")
    return None if name is None else f"{schema}.{name}@1" if schema else f"{name}@1"


def inferred_versions(tables: Tables) -> pa.Table:
    """The rows of :data:`cdcwb.model.TABLE_VERSIONS`; ``first_position`` is null."""
    rows = []
    for (schema, name), columns in tables.items():
        version = inferred_version({"schema_name": schema, "table_name": name}) or ""
        listed = [column._replace(ordinal=at) for at, column in enumerate(columns.values(), start=1)]
        rows.append(TableVersion(version, schema, name, listed, "inferred").to_row() | {"lineage": None})
    return pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)


def inferred_schema(tables: Tables, request: TableRequest) -> pa.Schema:
    """The typed columns of a table. Raises CaptureError for an unknown table or column."""
    names = {(schema, name): f"{schema}.{name}" if schema else name for schema, name in tables}
    columns = [columns for table, columns in tables.items() if request.name in table_names(names[table])]
    if not columns:
        raise no_table(request, names.values())
    return request_schema(chosen_columns(dict.fromkeys(columns[0], pa.string()), request), request)
