"""Rows in files: delimited text, JSON objects, Parquet, Excel and tables, for formats of rows.
:mod:`~cdcwb.formats.tabular.probing` detects the kind of a file, :mod:`~cdcwb.formats.tabular.parts` reads its rows,
:mod:`~cdcwb.formats.tabular.splits` splits it for the first pass, and :mod:`~cdcwb.formats.tabular.format` is the
common base of the formats.
"""
