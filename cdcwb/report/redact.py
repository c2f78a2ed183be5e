"""Captures that are saved once for the notebooks of a suite, which open them instead of the files; with redaction,
without the values of some columns, for reports that are passed on.

The values are replaced in images and keys by ``[redacted]`` and a tag that equal values share, so that changed columns,
equal rows and counts stay correct; the bytes of records are replaced by a hash. Tags and hashes depend on a random
secret of each run, which is not stored. Values may be anywhere in bytes, header fields, sentences and evidence: header
fields are left out but those of Kafka, the sentences of problems become the headings of their codes, and evidence is
left out. An event log, whose header fields are its rows, is refused.
"""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.analysis.bookmarks import BOOKMARKS
from cdcwb.analysis.images import IMAGES, maps_of
from cdcwb.analysis.summary import summarize
from cdcwb.capture import Capture, load
from cdcwb.dataset import answer_of
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags, labels
from cdcwb.formats.arrays import table_names
from cdcwb.formats.idm_event_log.layout import FORMAT as EVENT_LOG
from cdcwb.formats.options import nearest
from cdcwb.index.images import Pairs
from cdcwb.model import TABLES, Problem
from cdcwb.opening import SAVED
from cdcwb.report.opening import PREPARED
from cdcwb.spark.session import on_cluster
from cdcwb.stored import read_rows
from cdcwb.words import visible
from cdcwb.writing import remove

REDACTED: Final = "[redacted]"

_TAG: Final = 12  # digits that distinguish values
_MOST: Final = 20

_HEADERS: Final = ("kafka.offset", "kafka.partition", "kafka.timestamp", "kafka.timestamp_type", "kafka.topic")
"""Header fields without values of rows."""


@dataclass(frozen=True, slots=True)
class RedactedColumn:
    """A column to redact, as the capture spells it: ``table`` is ``schema.table``, or ``table``."""

    table: str
    column: str


def check_names(names: Iterable[str]) -> list[str]:
    """The errors in the texts of ``--redact`` that need no capture: each has to be a table and a column."""
    return [
        f"redact: expected a table and a column such as HR.EMP.SALARY, found '{visible(name)}'"
        for name in names
        if not all(part.strip() for part in name.split(".")) or "." not in name
    ]


def targets(captures: Sequence[Capture], names: Iterable[str]) -> list[list[RedactedColumn]]:
    """The columns of each capture that ``schema.table.column`` or ``table.column`` name; case is ignored.

    Raises OptionError for a name that is a column of no capture: a mistyped column would not be redacted; and for an
    event log.
    """
    wanted = {name.lower() for name in names}
    columns = [_columns(capture) for capture in captures]
    matches = [[target for target in known if _spellings(target) & wanted] for known in columns]
    for capture, matching in zip(captures, matches, strict=True):
        if capture.format == EVENT_LOG and (matching or len(captures) == 1):
            raise OptionError(
                "redact: an event log has the values of all columns in the same fields and cannot be redacted; "
                "report on the other tables with --table"
            )
    known = sorted({f"{target.table}.{target.column}" for target in columns[0]})
    shown = ", ".join(known[:_MOST]) + (" …" if len(known) > _MOST else "") or "none"
    spellings = [spelling for target in columns[0] for spelling in _spellings(target)]
    found = {spelling for matching in matches for target in matching for spelling in _spellings(target)}
    wrong = [
        f"redact: there is no column '{visible(name)}' in the capture.{nearest(name, [*known, *spellings])} "
        f"There are: {shown}."
        for name in names
        if name.lower() not in found
    ]
    if wrong:
        raise OptionError("; ".join(wrong))
    return matches


def _spellings(target: RedactedColumn) -> set[str]:
    """The names of a column: with its schema, and without."""
    return {f"{name}.{target.column}".lower() for name in table_names(target.table)}


def _columns(capture: Capture) -> list[RedactedColumn]:
    """All columns of all tables, from versions and from images, which may have columns that no version has."""
    named = ["schema_name", "table_name"]
    described = capture.rows("table_versions", [*named, "columns"]).fold(_of_versions, _union)
    captured = capture.rows("events", [*named, *IMAGES]).fold(_of_images, _union)
    return [RedactedColumn(table, column) for table, column in sorted(described | captured)]


def _of_versions(batch: pa.RecordBatch) -> set[tuple[str, str]]:
    rows = zip(labels(batch).to_pylist(), batch["columns"].to_pylist(), strict=True)
    return {(table, column["name"]) for table, columns in rows if table is not None for column in columns or ()}


def _of_images(batch: pa.RecordBatch) -> set[tuple[str, str]]:
    tables, found = labels(batch), set()
    for name in IMAGES:
        pairs = Pairs(batch[name])
        both = pa.table({"table": tables.take(pa.array(pairs.rows)), "column": pairs.names})
        rows = both.group_by(both.column_names).aggregate([]).to_pydict()
        found |= {pair for pair in zip(rows["table"], rows["column"], strict=True) if pair[0] is not None}
    return found


def _union(parts: Sequence[set[tuple[str, str]]]) -> set[tuple[str, str]]:
    return set().union(*parts)


# --- tables -----------------------------------------------------------------------------------------------------------


def redact(folder: Path, columns: Sequence[RedactedColumn]) -> None:
    """Replaces the values of some columns in the tables of a saved capture, which cannot be continued afterwards."""
    redaction = Redaction(columns)
    work: dict[str, Callable[[pa.RecordBatch], pa.RecordBatch]] = {
        "events": redaction.rows,
        "changes": redaction.rows,
        "problems": redaction.problems,
        "detected": lambda rows: _with(rows, evidence=pa.repeat(REDACTED, rows.num_rows)),
    }
    for table, function in work.items():
        schema, old, new = TABLES[table], folder / table, folder / f"{table}-redacted"
        new.mkdir()
        for path in sorted(old.glob("*.parquet")):
            with pq.ParquetWriter(new / path.name, schema) as writer:
                for batch in read_rows(path, schema):
                    writer.write_batch(function(batch))
        remove(old)
        new.rename(old)
    about = json.loads((folder / SAVED).read_text(encoding="utf-8"))
    about["continue"] = {"not": "the values of some columns were redacted"}
    (folder / SAVED).write_text(json.dumps(about, indent=1), encoding="utf-8")


class Redaction:
    """Batches of tables without the values of some columns. NULL stays NULL."""

    def __init__(self, columns: Sequence[RedactedColumn]) -> None:
        self._secret = secrets.token_bytes(32)
        tables = pc.utf8_lower(pa.array([target.table for target in columns], pa.string()))
        self._names = pc.utf8_lower(pa.array([target.column for target in columns], pa.string()))
        self._both = pc.binary_join_element_wise(tables, self._names, "\0")

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Events or changes. A row of an unknown table has the redacted columns of every table."""
        tables = pc.utf8_lower(labels(batch))
        columns = {name: self._image(batch[name], tables) for name in IMAGES}
        columns |= {"headers": _headers(batch["headers"]), "problems": _problems(batch["problems"])}
        if "raw" in batch.schema.names:
            hashes = [raw and sha256(self._secret + raw).digest() for raw in batch["raw"].to_pylist()]
            columns["raw"] = pa.array(hashes, pa.binary())
        return _with(batch, **columns)

    def problems(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Problems, without bytes; those about records have their heading as sentence."""
        sentences = pc.if_else(pc.is_null(batch["file"]), batch["sentence"], _headings(batch["code"]))
        return _with(batch, sentence=sentences, first_bytes=pa.nulls(batch.num_rows, pa.string()))

    def _image(self, maps: pa.MapArray, tables: pa.Array) -> pa.MapArray:
        pairs = Pairs(maps)
        names, table = pc.utf8_lower(pairs.names), tables.take(pa.array(pairs.rows))
        hidden = pc.is_in(pc.binary_join_element_wise(table, names, "\0"), self._both)
        hidden = pc.or_(hidden, pc.and_(pc.is_null(table), pc.is_in(names, self._names)))
        hidden = pc.and_(hidden, pc.is_valid(pairs.values))
        values = pc.replace_with_mask(pairs.values, hidden, self._tags(pairs.values.filter(hidden)))
        return maps_of(pairs.sizes, pairs.names, values, as_flags(maps.is_valid()))

    def _tags(self, values: pa.Array) -> pa.Array:
        coded = values.dictionary_encode()
        digests = [sha256(self._secret + value.encode()).hexdigest() for value in coded.dictionary.to_pylist()]
        return pa.array([f"{REDACTED} {digest[:_TAG]}" for digest in digests], pa.string()).take(coded.indices)


def _with(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    arrays = [columns.get(field.name, batch[field.name]).cast(field.type) for field in batch.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _headers(maps: pa.MapArray) -> pa.MapArray:
    pairs = Pairs(maps)
    kept = pc.is_in(pairs.names, pa.array(_HEADERS))
    sizes = np.bincount(pairs.rows[as_flags(kept)], minlength=len(maps))
    return maps_of(sizes, pairs.names.filter(kept), pairs.values.filter(kept), as_flags(maps.is_valid()))


def _problems(lists: pa.ListArray) -> pa.ListArray:
    codes = lists.flatten().field("code")
    problems = pa.StructArray.from_arrays([codes, _headings(codes)], ["code", "detail"])
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(~as_flags(lists.is_valid()), False)), problems)


def _headings(codes: pa.Array) -> pa.Array:
    """The headings of the codes of problems, whose sentences may quote values."""
    known = pc.index_in(codes, pa.array([str(problem) for problem in Problem]))
    return pc.coalesce(pa.array([problem.heading for problem in Problem]).take(known), REDACTED)


# --- saving -----------------------------------------------------------------------------------------------------------


def save_captures(
    captures: Sequence[tuple[str, str, Mapping[str, Any]]], hidden: Sequence[str], folder: str, shared: str
) -> list[str]:
    """Saves captures into new folders, without the values of the columns ``hidden``, and returns the folders. The
    original path, for the text of reports, and the answers about each capture stay in this process (:data:`PREPARED`).

    The new folders are in ``folder`` or, if Spark runs on a cluster, in ``shared``, which all machines have.
    """
    root = Path(shared if on_cluster() else folder)
    root.mkdir(parents=True, exist_ok=True)
    folders = [Path(tempfile.mkdtemp(prefix="capture-", dir=root)) for _ in captures]
    saved = []
    for (path, format, options), target in zip(captures, folders, strict=True):
        place = Path(load(path, format, **options).save(target / "saved"))
        marks = Path(path) / BOOKMARKS
        if marks.is_file() and not hidden:  # a note may quote a redacted value
            shutil.copyfile(marks, place / BOOKMARKS)
        saved.append(place)
    if hidden:
        for place, columns in zip(saved, targets([load(place) for place in saved], hidden), strict=True):
            if columns:
                redact(place, columns)
    for (path, _, _), place in zip(captures, saved, strict=True):
        capture = load(place)
        answer_of(capture, "summary", summarize)
        PREPARED[str(place)] = path, capture.answers
    return [str(place) for place in saved]
