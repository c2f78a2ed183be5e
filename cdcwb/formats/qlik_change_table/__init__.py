"""Qlik change tables: rows with header columns and masks, in files or as tables (docs/formats/qlik-change-table.md)."""
