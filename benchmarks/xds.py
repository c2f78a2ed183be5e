"""The column-wise XDS writer against one lxml tree per event, and the whole way from rows of the event log.

The rows are of types 1 to 4, as triggers without query-back write them: up to five fields an event, one value in ten
with characters that XML has to escape.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from cdcwb.formats.idm_event_log.decode import TableKeyError, parse, parse_times
from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.xds import ROWS, Settings, documents
from tests.reference.xds_documents import document_of
from tests.reference.xds_rows import publish

__all__ = ["BATCH_SIZES", "PROMISE", "difference", "documents_of", "log_rows", "works"]

Work = Callable[[], int]
Row = dict[str, Any]

PROMISE = 3
"""How many times as fast as the plain way each has to be."""

BATCH_SIZES = (1, 100)
"""Events a document: the driver's own default, and many."""

_DRIVER = "idm_driver"
_COLUMNS = ("fname", "lname", "email", "city", "street", "phone", "title", "photo")
_TYPES = {"photo": "octet"}
_NOT_IN_XML = set(map(chr, range(32))) - set("\t\n\r") | {"\ufffe", "\uffff"}


def settings(batch_size: int) -> Settings:
    return Settings(driver_user=_DRIVER, batch_size=batch_size, query_limit=1 << 40, types=_TYPES, schema="indirect")


# --- rows -------------------------------------------------------------------------------------------------------------


def log_rows(count: int, seed: int = 20260301) -> pa.Table:
    """Rows of the event log; one event in twenty is the driver's own or not new."""
    chance = random.Random(seed)
    rows: list[Row] = []
    begin = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    while len(rows) < count:
        kind = chance.choice("11222222334")
        named = {
            "table_key": f"idu={chance.randrange(10**6)}",
            "status": "N" if chance.random() < 0.97 else "S",
            "event_type": kind,
            "perpetrator": None if chance.random() < 0.5 else chance.choice(("app", "app", "batch", _DRIVER)),
            "table_name": chance.choice(("usr", "usr", "indirect.usr_phone")),
        }
        for column in (None,) if kind == "4" else chance.sample(_COLUMNS, chance.randint(1, 5)):
            moment = begin + dt.timedelta(milliseconds=37 * len(rows))
            values = {
                "record_id": str(len(rows) + 1),
                "event_time": f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}",
                "column_name": column,
                "old_value": _value(chance) if kind in "23" else None,
                "new_value": None if kind == "4" else _value(chance),
            }
            rows.append(named | values)
    return pa.Table.from_pylist(rows[:count], schema=LOG)


def _value(chance: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ0123456789"
    text = "".join(chance.choices(letters, k=chance.choice((4, 6, 8, 12, 24))))
    return text if chance.random() < 0.9 else f"{text} & <{text}>"


# --- the way by columns -----------------------------------------------------------------------------------------------


def events_of(log: pa.Table, batch_size: int) -> pa.Table:
    """The events that a log publishes."""
    numbers = np.array(log["record_id"].to_numpy(), dtype=np.int64)
    repeated = np.ones(len(numbers), dtype=np.bool_)
    repeated[np.unique(numbers, return_index=True)[1]] = False
    beside = {
        "file_index": pa.array(np.zeros(len(numbers), dtype=np.int32)),
        "offset": pa.array(np.arange(len(numbers))),
        "event_us": parse_times(log["event_time"].combine_chunks()).us,
        "repeated": pa.array(repeated),
    }
    rows = pa.table({name: log[name] if name in log.column_names else beside[name] for name in ROWS.names}, schema=ROWS)
    return publish(rows, settings(batch_size)).events


def documents_of(log: pa.Table, batch_size: int) -> Iterator[bytes]:
    """The documents of a log, by columns."""
    return (text for _, text in documents(events_of(log, batch_size)))


# --- the plain way ----------------------------------------------------------------------------------------------------


def documents_plainly(rows: Sequence[Row], batch_size: int) -> Iterator[bytes]:
    """The documents of a log, one row after the other. It knows types 1 to 4 alone, so nothing is overridden."""
    shown = version("cdcwb")
    waiting: list[Row] = []
    for event in _grouped(_published(rows)):
        waiting.append(event)
        if len(waiting) == batch_size:
            yield document_of(waiting, shown)
            waiting = []
    if waiting:
        yield document_of(waiting, shown)


def _published(rows: Sequence[Row]) -> Iterator[Row]:
    seen: set[int] = set()
    for row in sorted(rows, key=lambda row: int(row["record_id"])):
        number = int(row["record_id"])
        if row["status"] != "N" or row["perpetrator"] == _DRIVER:
            continue
        if number <= 0 or number in seen or row["event_type"] not in ("1", "2", "3", "4"):
            continue
        seen.add(number)
        try:
            parse(row["table_key"])
            dt.datetime.fromisoformat(row["event_time"])
        except (TableKeyError, ValueError):
            continue
        texts = (row["table_key"], row["table_name"], row["column_name"], row["old_value"], row["new_value"])
        if not any(text is not None and not _NOT_IN_XML.isdisjoint(text) for text in texts):
            yield row


def _grouped(rows: Iterator[Row]) -> Iterator[Row]:
    verbs = {"1": "add", "2": "modify", "3": "modify", "4": "delete"}
    for (table, key, verb), of_event in groupby(
        rows, lambda row: (row["table_name"], row["table_key"], verbs[row["event_type"]])
    ):
        schema, _, name = table.rpartition(".")
        attributes = []
        for row in of_event:
            column, old, new = row["column_name"], row["old_value"], row["new_value"]
            if column is None or (old is None and new is None):
                continue
            remove_all = row["event_type"] == "3"
            attributes.append(
                {
                    "name": column,
                    "type": _TYPES.get(column, "string"),
                    "remove_all": remove_all,
                    "remove": None if remove_all or verb == "add" else old,
                    "add": new,
                }
            )
        association = f"{key},table={name},schema={schema or 'indirect'}"
        yield {"verb": verb, "class_name": name, "association": association, "attrs": attributes}


# --- what is measured -------------------------------------------------------------------------------------------------


def works(log: pa.Table, batch_size: int) -> dict[str, Work]:
    """What is measured in turn. The plain ways get their rows as Python objects, which nobody is charged for."""
    events, rows = events_of(log, batch_size), log.to_pylist()
    parts = [list(part) for _, part in groupby(events.to_pylist(), itemgetter("document"))]
    shown = version("cdcwb")
    return {
        "lxml, events": lambda: sum(1 for part in parts if document_of(part, shown)),
        "columns, events": lambda: sum(1 for _ in documents(events)),
        "lxml, log rows": lambda: sum(1 for _ in documents_plainly(rows, batch_size)),
        "columns, log rows": lambda: sum(1 for _ in documents_of(log, batch_size)),
    }


def difference(log: pa.Table, batch_size: int) -> str | None:
    """The first document about which the two ways disagree, or None."""
    plain, columns = list(documents_plainly(log.to_pylist(), batch_size)), list(documents_of(log, batch_size))
    for number, (one, other) in enumerate(zip(plain, columns, strict=False), 1):
        if one != other:
            return f"document {number} is {one.decode()!r} the plain way, {other.decode()!r} by columns"
    return None if len(plain) == len(columns) else f"{len(plain)} documents the plain way, {len(columns)} by columns"
