"""Files of a snapshot as Arrow tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats import tabular
from cdcwb.model import Kind

__all__ = ["read_table"]

_HIDDEN: Final = ("_", ".")


def read_table(path: str, null_text: str | None, charset: str) -> pa.Table:
    """A file, or all files of a folder one behind the other. Parquet keeps its types, all else is text. Columns that
    one of the files does not have are null there. Raises CaptureError."""
    folder = Path(path)
    files = [folder]
    if folder.is_dir():
        files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith(_HIDDEN))
        if not files:
            raise CaptureError("expected files of a table, found an empty folder", path=path)
    tables = [_read_file(str(file), null_text, charset) for file in files]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowInvalid as reason:
        raise CaptureError(f"the files of the folder do not go together: {reason}", path=path) from None


def _read_file(path: str, null_text: str | None, charset: str) -> pa.Table:
    given = {} if null_text is None else {"null": tabular.as_bytes(null_text, charset)}
    found = tabular.probe_file(path, dialect_options=given, charset=charset, header=True)
    if found.kind == "broken":
        raise CaptureError(found.problem or "expected rows of a table", path=path)
    if found.kind == "parquet":
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as reason:
            raise CaptureError(f"Parquet that cannot be read: {reason}", path=path) from None
    parts = list(tabular.iter_parts(found))
    for part in parts:
        for gap in part.gaps:
            if gap.kind == Kind.MALFORMED:
                raise CaptureError(gap.reason, path=path, offset=int(part.offset[gap.index]))
    names = dict.fromkeys(found.names or ())
    for part in parts:
        for _, group in part.rows:
            names.update(dict.fromkeys(group.layout.names))
    texts = [rows for part in parts if (rows := tabular.text_rows(part, tuple(names))) is not None]
    for rows in texts:
        if rows.garbled:
            place = int(rows.offset[rows.garbled[0][0]])
            raise CaptureError(f"text that is not in the character set {charset}", path=path, offset=place)
    schema = pa.schema([(name, pa.string()) for name in names])
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(rows.columns, schema=schema) for rows in texts], schema)
