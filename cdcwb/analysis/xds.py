"""Publication of an event log of any size: decisions and documents (docs/formats/idm-event-log.md §4).

The stages of :mod:`cdcwb.xds` over rows of any number. Decisions about single rows are made in any batch. Rows are
counted in parts of the processing order and the counts are accumulated, for polling cycles and again for the numbers of
events and documents. Decisions that depend on other rows of an object are made where all of them are together.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import xds
from cdcwb.analysis import line_text
from cdcwb.analysis.event_log import LOCATION, log_events, log_rows
from cdcwb.analysis.export import (
    check_ending,
    check_parent,
    check_replaced,
    check_target,
    ordered_batches,
    write_lines,
)
from cdcwb.analysis.frames import TableStore
from cdcwb.dataset import PART, Batches, Rows, complete_keys, counted_by
from cdcwb.errors import OptionError
from cdcwb.formats.source import absolute
from cdcwb.writing import exchange, folder_beside, naming, put, written
from cdcwb.xds import Decision, Settings, Snapshot
from cdcwb.xds.rows import CYCLE, NUMBERS, OWN, Bools, Ints, flags, numbers

A_PART: Final = 1 << 16
"""The number of rows in a part of the order, and of rows whose objects are decided together."""

DOCUMENTS: Final = pa.schema(
    [
        ("document", pa.int64()),  # number, from 1
        ("events", pa.int64()),
        ("first_record", pa.int64()),  # record_id of its first and last row, in processing order
        ("last_record", pa.int64()),
        ("xml", pa.string()),  # UTF-8, with a final line end
    ]
)
"""One row for each document."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of documents, of events, and of rows by decision."""

    documents: int
    events: int
    decisions: Mapping[str, int]


@dataclass(frozen=True)
class Published:
    """The result of publishing rows of a log, or changes.

    ``decisions``: a row for each of them, unordered, of :data:`cdcwb.xds.DECISIONS` or
    :data:`cdcwb.analysis.xds_changes.CHANGE_DECISIONS`. ``numbered``: the same rows with their values, the ``document``
    and the ``event`` (null if they are not published). ``reasons``: why changes are left out, with the number for each
    reason, most first. ``inferred``: the inferred keys. ``render`` makes documents of ``numbered`` rows, which it gets
    in the ``order`` of each document. Rows can be read while this object exists.
    """

    decisions: Rows
    numbered: Rows
    summary: Summary
    order: Sequence[str]
    render: Callable[[Batches], Batches]
    store: TableStore
    reasons: Mapping[str, int] = field(default_factory=dict)
    inferred: Sequence[Any] = ()

    @property
    def documents(self) -> Rows:
        """A row of :data:`DOCUMENTS` for each document, in the order of publication."""
        return self.documents_of(self.numbered.where(lambda batch: batch["document"].is_valid()))

    def documents_of(self, numbered: Rows) -> Rows:
        """The documents of some of the ``numbered`` rows, which are all rows of these documents."""
        return numbered.by_key(["document"], self.order, self.render, DOCUMENTS, in_order=True)


def publish_log(
    capture: Any,
    settings: Settings,
    snapshot: Snapshot | Mapping[str, str | Path] | None = None,
    *,
    a_part: int = A_PART,
) -> Published:
    """Decides every row of an event log, and renders the documents of those that are published.

    ``snapshot``: current tables, or their files by name; without one query-back rows need a snapshot and are not
    published. Every worker holds the snapshot in memory. ``a_part``: approximate number of rows that are processed
    together.

    Raises CaptureError for a capture of another format and for a snapshot that cannot be read.
    """
    tables = snapshot if snapshot is None or isinstance(snapshot, Snapshot) else Snapshot.read(snapshot)
    return publish_rows(log_rows(log_events(capture)), settings, tables, a_part=a_part)


def publish_rows(
    rows: Rows, settings: Settings, snapshot: Snapshot | None = None, *, a_part: int = A_PART
) -> Published:
    """As :func:`publish_log`, from rows of :data:`cdcwb.xds.ROWS`."""
    store = TableStore()
    own = store.keep("own", rows.map(partial(_own, settings), _OWN))
    in_parts, parts = own.in_parts(_ORDER, a_part)
    polled = firsts_of_parts(in_parts, parts, lambda batch: flags(batch["polled"]))
    cycled = in_parts.by_part(_ORDER, partial(_cycled, settings, polled), _CYCLED)
    decided = store.keep("decided", cycled.by_key(_OBJECT, [], partial(_decided, settings, snapshot, a_part), _DECIDED))
    in_cycles = decided.where(_is_published).by_key(["cycle"], _ORDER, partial(_numbered, settings, a_part), _NUMBERED)
    others = decided.where(lambda batch: pc.invert(_is_published(batch))).map(_without_numbers, _NUMBERED)
    in_cycles = store.keep("numbered", in_cycles.union(others))
    groups = in_cycles.fold(*counted_by(_NUMBERED, ["cycle", "decision"], document="max", event="max"))
    sizes = groups.filter(groups["event"].is_valid()).sort_by("cycle")
    numbered = in_cycles.map(partial(_in_sequence, sizes), _NUMBERED)
    documents, events = (pc.sum(sizes[name]).as_py() or 0 for name in ("document", "event"))
    counts = Counter[str]()
    for row in groups.to_pylist():
        counts[row["decision"]] += row["rows"]
    by_decision = {str(name): counts[name] for name in Decision if name in counts}
    return Published(
        decisions=numbered.map(partial(_with_reasons, settings), xds.DECISIONS),
        numbered=numbered,
        summary=Summary(documents, events, by_decision),
        order=_ORDER,
        render=partial(_rendered, settings, snapshot),
        store=store,
    )


def firsts_of_parts(rows: Rows, parts: int, are_counted: Callable[[pa.RecordBatch], Bools]) -> Ints:
    """For each part (:meth:`cdcwb.dataset.Rows.in_parts`) the number of counted rows before it; last, that of all."""

    def count(batch: pa.RecordBatch) -> Ints:
        return np.bincount(batch[PART.name].to_numpy()[are_counted(batch)], minlength=parts)

    def add(counts: Sequence[Ints]) -> Ints:
        return sum(counts, np.zeros(parts, np.int64))

    return np.append(0, np.cumsum(rows.fold(count, add)))


def counted(rows: Rows, by: Sequence[str], **totals: str) -> list[dict[str, Any]]:
    """The groups of :func:`cdcwb.dataset.counted_by`."""
    groups: list[dict[str, Any]] = rows.fold(*counted_by(rows.schema, by, **totals)).to_pylist()
    return groups


_ORDER: Final = ("order_time", "number")
_OBJECT: Final = ("table_name", "table_key")
_KEPT: Final = (
    *(*LOCATION, *_OBJECT, "column_name", "old_value", "new_value"),
    *("status", "event_time", "perpetrator", "event_us"),
)
_OWN: Final = pa.schema([*(xds.ROWS.field(name) for name in _KEPT), *OWN])
_CYCLED: Final = pa.schema([*_OWN, PART, CYCLE.field("cycle")])
_DECIDED: Final = _CYCLED.append(pa.field("overridden_by", pa.int64()))
_NUMBERED: Final = pa.schema([*_DECIDED, *NUMBERS])


def _own(settings: Settings, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The decision on each row that depends on the row alone."""
    own = xds.own_decisions(pa.Table.from_batches([batch]), settings)
    return own.select(_OWN.names).combine_chunks().to_batches()[0]


def _cycled(settings: Settings, polled: Ints, rows: pa.Table) -> pa.Table:
    return xds.with_cycles(rows, settings, int(polled[rows[PART.name][0].as_py()])).select(_CYCLED.names)


def _decided(settings: Settings, snapshot: Snapshot | None, size: int, batches: Batches) -> Batches:
    """Every row with its decision."""
    for objects in complete_keys(batches, _OBJECT, size):
        rows = xds.with_snapshot(pa.Table.from_batches([objects]), snapshot)
        yield from xds.between_rows(rows, settings).select(_DECIDED.names).combine_chunks().to_batches()


def _is_published(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    return pc.equal(batch["decision"], str(Decision.PUBLISHED))


def _numbered(settings: Settings, size: int, batches: Batches) -> Batches:
    """Published rows with the numbers of their event and document in their polling cycle."""
    for cycles in complete_keys(batches, ["cycle"], size):
        yield from xds.number_events(pa.table(cycles), settings).combine_chunks().to_batches()


def _without_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    nothing = pa.nulls(len(batch), pa.int64())
    return pa.RecordBatch.from_arrays([*batch.columns, nothing, nothing], schema=_NUMBERED)


def _in_sequence(cycles: pa.Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the numbers of their event and document in the log; ``cycles``: how many each polling cycle has."""
    at = np.minimum(np.searchsorted(cycles["cycle"], numbers(batch["cycle"])), len(cycles) - 1)
    firsts = (np.append(0, np.cumsum(cycles[name])) for name in NUMBERS.names)
    columns = [pc.add(batch[name], pa.array(first[at])) for name, first in zip(NUMBERS.names, firsts, strict=True)]
    return pa.RecordBatch.from_arrays([*batch.columns[: -len(NUMBERS)], *columns], schema=_NUMBERED)


def _with_reasons(settings: Settings, batch: pa.RecordBatch) -> pa.RecordBatch:
    return xds.to_decisions(pa.Table.from_batches([batch]), settings).combine_chunks().to_batches()[0]


_AT_ONCE: Final = 50_000


def _rendered(settings: Settings, snapshot: Snapshot | None, batches: Batches) -> Batches:
    """The documents of rows, with their first and last records."""
    for rows in complete_keys(batches, ["document"], _AT_ONCE):
        document, number = numbers(rows["document"]), numbers(rows["number"])
        begins = np.flatnonzero(np.append(True, document[1:] != document[:-1]))
        ends = np.append(begins[1:], len(document)) - 1
        done = 0
        for batch in xds.document_batches(xds.to_event_table(pa.Table.from_batches([rows]), settings, snapshot)):
            here = slice(done, done + batch.num_rows)
            done += batch.num_rows
            records = [pa.array(number[at[here]]) for at in (begins, ends)]
            columns = [batch["document"], batch["events"].cast(pa.int64()), *records, batch["xml"]]
            yield pa.RecordBatch.from_arrays(columns, schema=DOCUMENTS)


# --- xds files --------------------------------------------------------------------------------------------------------

STREAMS: Final = ("xml", "xds")
"""Endings of a file for all documents."""

_NAME: Final = "document-{:06}.xml"
_OURS: Final = re.compile(r"document-\d{6,}\.xml")


def check_documents_target(to: str | os.PathLike[str], inputs: Sequence[str], overwrite: bool = False) -> Path:
    """The absolute path of the target of documents: one file if the name ends in .xml or .xds, else a folder that is
    new or empty, or with ``overwrite`` has only such documents. ``inputs`` are the files that must not be replaced.

    Raises OptionError before any work is done.
    """
    target = Path(absolute(to))
    if target.suffix.lower()[1:] in STREAMS:
        return check_target(target, list(inputs), STREAMS)
    wrong = check_ending(target, f"one file of all documents ends in .{' or .'.join(STREAMS)}")
    if wrong:
        raise OptionError(wrong[0])
    is_ours = target.is_dir() and all(_OURS.fullmatch(path.name) for path in target.iterdir())
    check_replaced(target, is_ours, "a folder of XDS documents", overwrite)
    check_parent(target)
    return target


def write_published(
    published: Published, documents: Path, decisions: Path | None, inputs: Sequence[str] = (), overwrite: bool = False
) -> None:
    """Writes all documents to the file or the folder ``documents``, in order, and the decisions, one JSON object a line
    in capture order, to the file ``decisions``. Either both are written or neither.

    Raises OptionError for targets that cannot be written, or belong to the ``inputs``.
    """
    target = check_documents_target(documents, inputs, overwrite)
    lines = None if decisions is None else check_target(decisions, list(inputs), ("jsonl",))
    with ExitStack() as stack:
        made = stack.enter_context(written(target) if target.suffix else _folder(target, overwrite))
        if target.suffix:
            with made.open("xb") as out:
                write_lines(published.documents.map(_line, line_text.LINE), out, "\n", target)
        else:
            for batch in ordered_batches(published.documents.select(("document", "xml")), target):
                for number, xml in zip(batch["document"].to_pylist(), batch["xml"].to_pylist(), strict=True):
                    (made / _NAME.format(number)).write_bytes(xml.encode())
        if lines is not None:
            rows = published.decisions.sorted(LOCATION)
            with stack.enter_context(written(lines)).open("xb") as out:
                write_lines(line_text.lines(rows, "jsonl"), out, "\n", lines)


def _line(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The documents without their final line end, with which lines are written."""
    return pa.RecordBatch.from_arrays([pc.utf8_slice_codeunits(batch["xml"], 0, -1)], schema=line_text.LINE)


@contextmanager
def _folder(target: Path, overwrite: bool) -> Iterator[Path]:
    """A new folder, which becomes the ``target`` if the block succeeds."""
    with naming(target), folder_beside(target) as folder:
        made = folder / target.name
        made.mkdir()
        yield made
        with suppress(FileExistsError):
            put(made, target)
            return
        check_documents_target(target, (), overwrite)  # what is there now
        exchange(made, target)
