"""Rows in files: delimited text, JSON objects, Parquet, Excel and tables, for the formats that are made of rows.

:mod:`~cdcwb.formats.tabular.probing` detects what a file is, :mod:`~cdcwb.formats.tabular.parts` reads its rows,
:mod:`~cdcwb.formats.tabular.splits` cuts it for the first pass, and :mod:`~cdcwb.formats.tabular.format` is what the
formats share.
"""
