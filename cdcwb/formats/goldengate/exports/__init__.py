"""Exports of trail records: GoldenGate's JSON and XML (docs/formats/goldengate.md §8).

``OPTIONS``: names of reader options and what they mean.

``recognise(path, options) -> Recognition``: how sure it is that a file is an export, from its beginning; 0 for what is
none. Never raises for what stands in the file.

``probe(path, options) -> ExportFile``: ``kind`` (json, xml), ``shape``, ``size``, ``unit`` (byte, row), ``count``,
``compression``, ``problem``, ``evidence``; ``to_dict`` and ``from_dict``. Only for files that were recognised.

``parts(file, split_size) -> [(start, stop)]``: runs in the file's unit that can be read apart; together all of it.

``scan(file, start, stop) -> Summary``: ``tables`` by label (``TableFacts``: ``names``, ``columns`` in first-seen order,
``keys``, ``records``, ``arrow_types``), ``first`` and ``last`` position, ``records``, ``timed``, ``zoned``, and the
first ``malformed`` (place, length, sentence). Summaries pickle and add up with ``add``.

``read(file, file_index, start, stop, settings, wanted) -> batches``: rows of ``model.EVENTS``, of the wanted kinds,
tables and so on. ``Settings(to_utc)``: a function that takes printed times (int64 microseconds as if their zone were
UTC) and gives them in UTC and which are ambiguous or missing in their zone
(``functools.partial(timezones.to_utc, zone=…)``); None: the zone is not known.

``scan_messages(batches, literals)`` and ``read_messages(messages, place, settings, wanted, literals)``: the same of
messages that are in no file.

``read_table(file, file_index, start, stop, settings, request, types) -> batches``: ``types`` are the chosen of
``TableFacts.arrow_types``.

``record_at(file, file_index, offset, settings) -> (bytes, event)``: the record at a place, for ``inspect``.

``fields(record, kind) -> Field``: the tree of one record's bytes (the ``raw`` of its event), gapless; never raises.

Events: ``table_version`` is ``schema.table@1``. ``transaction_id`` is that of the tokens or of ``xid``; a FORMATXML
transaction without one is ``~<file_index>:<offset>``. ``headers`` has every field and token by its own name, and
``csn``, ``xid`` and ``TransInd`` (0 first, 1 between, 2 last, 3 only) where the record or its transaction tells.
"""

from __future__ import annotations

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.exports.events import ToUtc
from cdcwb.formats.goldengate.exports.files import (
    OPTIONS,
    ExportFile,
    Settings,
    parts,
    probe,
    read,
    read_messages,
    read_table,
    recognise,
    record_at,
    scan,
    scan_messages,
)
from cdcwb.formats.goldengate.exports.json_messages import json_fields
from cdcwb.formats.goldengate.exports.summary import ColumnFacts, Summary, TableFacts
from cdcwb.formats.goldengate.exports.xml_fields import xml_fields

__all__ = [
    "OPTIONS",
    "ColumnFacts",
    "ExportFile",
    "Settings",
    "Summary",
    "TableFacts",
    "ToUtc",
    "fields",
    "parts",
    "probe",
    "read",
    "read_messages",
    "read_table",
    "recognise",
    "record_at",
    "scan",
    "scan_messages",
]


def fields(record: bytes, kind: str) -> Field:
    """The tree of one record's bytes; ``kind`` is that of its file (json, xml)."""
    return xml_fields(record) if kind == "xml" else json_fields(record)
