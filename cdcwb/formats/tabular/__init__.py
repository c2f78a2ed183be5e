"""Rows in files: delimited text, JSON objects, Parquet, Excel and tables, for the formats that are made of rows.

:func:`probe_file` tells what a file is, :func:`iter_parts` gives its rows, :func:`text_rows` those of a part as columns
of text; :func:`cut` says where large files can be cut, and :func:`scan_all` makes a first pass over the pieces.
"""

from __future__ import annotations

from cdcwb.formats.tabular.delimited import LONGEST, Bytewise
from cdcwb.formats.tabular.file import DEFAULT, EVERYTHING, Dialect, FileProbe, Layout, Names, as_bytes, clean, numbered
from cdcwb.formats.tabular.parts import (
    NO_ROWS,
    Gap,
    Part,
    TextRows,
    csv_parts,
    find_part,
    iter_parts,
    part_at,
    read_parts,
    rows_of_batch,
    text_rows,
)
from cdcwb.formats.tabular.probing import probe_file
from cdcwb.formats.tabular.rows import (
    Cell,
    ColumnRows,
    CsvRows,
    Rows,
    as_strings,
    cut_fields,
    cut_json,
    interleaved,
    is_binary,
    plain,
    texts_of,
)

__all__ = [
    "DEFAULT",
    "EVERYTHING",
    "LONGEST",
    "NO_ROWS",
    "Bytewise",
    "Cell",
    "ColumnRows",
    "CsvRows",
    "Dialect",
    "FileProbe",
    "Gap",
    "Layout",
    "Names",
    "Part",
    "Rows",
    "TextRows",
    "as_bytes",
    "as_strings",
    "clean",
    "csv_parts",
    "cut_fields",
    "cut_json",
    "find_part",
    "interleaved",
    "is_binary",
    "iter_parts",
    "numbered",
    "part_at",
    "plain",
    "probe_file",
    "read_parts",
    "rows_of_batch",
    "text_rows",
    "texts_of",
]
