"""Makes an index of places: a few files of Arrow arrays that say of every record where it stands and what it is.

index.json           what it was made from, its files, its columns and how many records there are
numbers.arrow        a row for each record in capture order: numbers, and codes of texts
text-NAME.arrow      the texts of a column: by code, or one for each record
problems.arrow       the problems with the number of their record
versions.arrow       rows of cdcwb.model.TABLE_VERSIONS
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.index.columns import NO_TIME
from cdcwb.spark.stored import batches_of

__all__ = ["ABOUT", "HEADERS", "PROBLEM_ROWS", "VERSION", "build_index", "put_in_place", "read_arrow", "write_arrow"]

VERSION: Final = 2
ABOUT: Final = "index.json"

HEADERS: Final = ("csn", "record_id")
"""Header fields of sources that become columns, where there are any."""

PROBLEM_ROWS: Final = pa.schema(
    [
        ("row", pa.int64()),
        *((name, pa.string()) for name in ("severity", "code", "sentence", "transaction_id", "table")),
    ]
)
"""The problems of records; ``row`` is -1 where a problem concerns none."""

_NUMBERS: Final = ("file_index", "offset", "length", "event_no", "changed_at")
_CODED: Final = {
    "kind": "kind",
    "operation": "operation",
    "type": "record_type",
    "schema": "schema_name",
    "table": "label",
    "version": "table_version",
    "transaction": "transaction_id",
}
_PLAIN: Final = ("position", "commit_position", *HEADERS)
_READ: Final = (*_NUMBERS, *_CODED.values(), "table_name", "offset_unit", *_PLAIN, "headers")
_SEARCHED: Final = pa.large_string()

Ints = npt.NDArray[np.int64]


def build_index(
    folder: Path, parts: Sequence[Path], about: Mapping[str, Any], problems: pa.Table, versions: pa.Table
) -> None:
    """Write the index of the events in Parquet files into ``folder``, which appears whole or not at all.

    ``parts`` hold rows of :data:`cdcwb.model.EVENTS`, all columns or those that are read here, in any order.
    ``about`` has at least ``files``; ``problems`` are rows of :data:`cdcwb.model.PROBLEMS`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        events = _read(parts)
        order = _order(events)
        numbers = _write_columns(beside, events, order)
        del events
        found, codes = _placed(problems, numbers, about["files"])
        write_arrow(beside / "problems.arrow", found)
        _write_coded(beside, "problem", codes, numbers)
        write_arrow(beside / "numbers.arrow", pa.table({name: pa.array(values) for name, values in numbers.items()}))
        write_arrow(beside / "versions.arrow", versions)
        told = {**about, "version": VERSION, "records": len(numbers["offset"]), "parts": [path.name for path in parts]}
        (beside / ABOUT).write_text(json.dumps(told, indent=1), encoding="utf-8")
        put_in_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def put_in_place(made: Path, folder: Path) -> None:
    """Rename a folder that is whole to what it is called; one that was there goes. Of two processes that make the same
    index at once, the later one wins."""
    made.chmod(0o755)
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        else:
            return


def _read(parts: Sequence[Path]) -> pa.Table:
    """The columns of all parts, and for each row its part and its row there."""
    tables = []
    for number, path in enumerate(parts):
        with pq.ParquetFile(path) as file:
            row = 0
            names = [name for name in _READ if name in file.schema_arrow.names]
            for batch in batches_of(file, names):
                tables.append(_prepared(batch, number, row))
                row += len(batch)
    if not tables:
        raise CaptureError("there are no records to explore")
    return pa.concat_tables(tables).unify_dictionaries()


def _prepared(batch: pa.RecordBatch, part: int, first: int) -> pa.Table:
    columns: dict[str, Any] = {name: batch[name] for name in batch.schema.names}
    headers = columns.pop("headers", None)
    for name in HEADERS:
        if name not in columns:
            columns[name] = (
                pa.nulls(len(batch), pa.string()) if headers is None else pc.map_lookup(headers, name, "first")
            )
    label = pc.binary_join_element_wise(columns["schema_name"], columns["table_name"], ".")
    columns["label"] = pc.coalesce(label, columns.pop("table_name"))
    for name in _CODED.values():
        columns[name] = columns[name].cast(pa.string()).dictionary_encode()
    columns["offset_unit"] = columns["offset_unit"].dictionary_encode()
    time = columns["changed_at"].cast(pa.timestamp("us", tz="UTC"))
    columns["changed_at"] = time.cast(pa.int64())
    for name in _PLAIN:
        columns[name] = columns[name].cast(_SEARCHED)
    columns["part"] = pa.array(np.full(len(batch), part, np.int32))
    columns["part_row"] = pa.array(np.arange(first, first + len(batch), dtype=np.int64))
    return pa.table(columns)


def _order(events: pa.Table) -> Ints | None:
    """The order of the capture, (file_index, offset); None where the rows stand so already."""
    file, offset = events["file_index"].to_numpy(), events["offset"].to_numpy()
    later = (file[1:] > file[:-1]) | ((file[1:] == file[:-1]) & (offset[1:] >= offset[:-1]))
    return None if later.all() else np.lexsort((offset, file)).astype(np.int64)


def _write_columns(folder: Path, events: pa.Table, order: Ints | None) -> dict[str, npt.NDArray[Any]]:
    """Writes the texts; returns the numbers and the codes."""
    numbers: dict[str, npt.NDArray[Any]] = {}
    for name in (*_NUMBERS, "part", "part_row"):
        values = events[name]
        filled = pc.fill_null(values, pa.scalar(NO_TIME, values.type)) if values.null_count else values
        numbers[name] = _sorted(filled.to_numpy(), order)
    for name, source in {**_CODED, "unit": "offset_unit"}.items():
        coded = events[source].combine_chunks()
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        _write_coded(folder, name, (_sorted(codes, order), coded.dictionary), numbers)
    for name in _PLAIN:
        texts = events[name]
        if texts.null_count == len(texts):
            continue
        whole = texts.combine_chunks()
        whole = whole.take(pa.array(order)) if order is not None else whole
        as_numbers = _as_numbers(whole) if name in HEADERS else None
        if as_numbers is not None:
            numbers[name] = as_numbers
        else:
            write_arrow(folder / f"text-{name}.arrow", pa.table({"text": whole}))
    return numbers


def _sorted(values: npt.NDArray[Any], order: Ints | None) -> npt.NDArray[Any]:
    return values if order is None else values[order]


def _as_numbers(texts: pa.Array) -> Ints | None:
    """Texts that all are whole numbers, written in one way."""
    try:
        found = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if not pc.all(pc.fill_null(pc.equal(found.cast(_SEARCHED), texts), True)).as_py():
        return None
    values: Ints = pc.fill_null(found, NO_TIME).to_numpy(zero_copy_only=False)
    return values


def _write_coded(
    folder: Path, name: str, coded: tuple[npt.NDArray[Any], pa.Array], numbers: dict[str, npt.NDArray[Any]]
) -> None:
    codes, texts = coded
    kind = np.int8 if len(texts) < 1 << 7 else np.int16 if len(texts) < 1 << 15 else np.int32
    numbers[name] = codes.astype(kind)
    write_arrow(folder / f"text-{name}.arrow", pa.table({"text": texts.cast(_SEARCHED)}))


def _placed(
    problems: pa.Table, numbers: Mapping[str, npt.NDArray[Any]], files: Sequence[Mapping[str, Any]]
) -> tuple[pa.Table, tuple[npt.NDArray[Any], pa.Array]]:
    """The problems with the record that holds their place; for each record the code of its problems, and these as
    texts."""
    index = {str(entry["file"]): int(entry["file_index"]) for entry in files}
    file, offset = numbers["file_index"], numbers["offset"]
    starts = np.searchsorted(file, np.arange(int(file[-1]) + 2))
    rows = []
    of_problem = PROBLEM_ROWS.names[1:]
    for one in problems.select([*of_problem, "file", "offset"]).to_pylist():
        row = -1
        place = index.get(one["file"]) if one["file"] is not None and one["offset"] is not None else None
        if place is not None and place + 1 < len(starts):
            first, last = int(starts[place]), int(starts[place + 1])
            row = first + int(np.searchsorted(offset[first:last], one["offset"], side="right")) - 1
            row = row if row >= first else -1
        rows.append({"row": row, **{name: one[name] for name in of_problem}})
    of_row: dict[int, dict[str, None]] = {}
    for found in rows:
        if found["row"] >= 0:
            of_row.setdefault(found["row"], {})[found["code"]] = None
    texts: dict[str, int] = {}
    codes = np.full(len(offset), -1, np.int32)
    for row, names in of_row.items():
        codes[row] = texts.setdefault(", ".join(names), len(texts))
    return pa.Table.from_pylist(rows, PROBLEM_ROWS), (codes, pa.array(list(texts), pa.string()))


def write_arrow(path: Path, table: pa.Table) -> None:
    """A table as an IPC file of one batch, so that each column is one array on the memory map."""
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_arrow(path: Path) -> pa.RecordBatch:
    """What :func:`write_arrow` wrote, as a memory map."""
    return pa.ipc.open_file(pa.memory_map(str(path), "r")).get_batch(0)
