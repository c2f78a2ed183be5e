"""Rows in files: delimited text, JSON objects, Parquet, Excel and tables, for the formats that are made of rows.

:func:`probe_file` tells what a file is, :func:`iter_parts` gives its rows, :func:`text_rows` those of a part as columns
of text; :func:`cut` says where large files can be cut, and :func:`scan_all` makes a first pass over the pieces.
"""

from __future__ import annotations

from cdcwb.formats.tabular.anatomy import Cell, cut_json
from cdcwb.formats.tabular.anatomy import cut as cut_fields
from cdcwb.formats.tabular.dialect import DEFAULT, Dialect, as_bytes
from cdcwb.formats.tabular.file import EVERYTHING, FileProbe
from cdcwb.formats.tabular.locating import find_part, part_at
from cdcwb.formats.tabular.names import Layout, Names, clean, numbered
from cdcwb.formats.tabular.parts import Gap, Part, iter_parts, read_parts, rows_of_batch
from cdcwb.formats.tabular.probing import probe_file
from cdcwb.formats.tabular.rows import ColumnRows, CsvRows, Rows
from cdcwb.formats.tabular.splitting import Stretch, StretchReader, begin_of, cut, scan_all
from cdcwb.formats.tabular.together import TextRows, text_rows

__all__ = [
    "DEFAULT",
    "EVERYTHING",
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
    "Stretch",
    "StretchReader",
    "TextRows",
    "as_bytes",
    "begin_of",
    "clean",
    "cut",
    "cut_fields",
    "cut_json",
    "find_part",
    "iter_parts",
    "numbered",
    "part_at",
    "probe_file",
    "read_parts",
    "rows_of_batch",
    "scan_all",
    "text_rows",
]
