"""What a target holds in the end, under rules by which real sinks apply changes, against the order of commits.

A rule (:class:`ApplyRule`) puts the changes of each row into the order in which the target applies them, or leaves some
out. Rows that end with other values than by the order of commits, that are missing or left over, are wrong. Rows and
images are those of :mod:`cdcwb.analysis.row_versions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.continuity import key_of
from cdcwb.analysis.images import MAP, with_image
from cdcwb.analysis.row_breaks import RECORD
from cdcwb.analysis.row_versions import DELETE, OPERATION_NAMES, ROW, UPDATE, VALUE_BITS, log_order, row_versions
from cdcwb.dataset import Batches, Rows, complete_keys, counted_by, first_of, run_starts, together
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import CHANGES
from cdcwb.words import Described


class ApplyRule(Described):
    """How a target applies the changes of a row."""

    ARRIVAL = "arrival", "in the order in which they arrive"
    SOURCE_TIME = "source_time", "the latest time of the source wins; of equal times the first that came"
    COMMIT = "commit", "in the order of their commits: as the source did"
    DELETES_FIRST = "deletes_first", "in batches of a minute, each with its deletes first"
    NO_DELETES = "no_deletes", "in the order in which they arrive, without deletes"
    TEXT_POSITION = "text_position", "in the order of their positions compared as text"


WRONG: Final = pa.schema(
    [
        *(("table", pa.string()), ("key", MAP), ("wrong", pa.string()), ("at", CHANGES.field("changed_at").type)),
        *(*RECORD, *((f"right_{name}", kind) for name, kind in RECORD)),
    ]
)
"""Rows that a target ends with wrongly. ``wrong``: ``other values``, ``missing`` or ``left over``. The record is the
last one that the target applies (null: none), ``right_`` that by the order of commits."""

_WRONG: Final = WRONG.append(pa.field("rule", pa.string()))
KINDS: Final = ("other values", "missing", "left over")

_BATCH_US: Final = 60_000_000  # microseconds of changes that a target applies in one batch


class _Applied(NamedTuple):
    """A change of a row: its ``arrival`` and its ``rank`` in the log, ``text`` is its position without leading
    zeros. ``arrival`` is its number among the changes that are read together."""

    arrival: int
    rank: int
    at: int
    text: str
    operation: int


_ORDERS: Final[dict[ApplyRule, Callable[[_Applied], Any]]] = {
    # Each message as it comes: upsert mode of Confluent's JDBC sink
    # (https://docs.confluent.io/kafka-connectors/jdbc/current/sink-connector/overview.html).
    ApplyRule.ARRIVAL: lambda change: change.arrival,
    # The latest time of the source wins; of equal times the first that came stays: merges by ts_ms
    # (https://github.com/GoogleCloudPlatform/DataflowTemplates/issues/127,
    # https://github.com/memiiso/debezium-server-iceberg/issues/545).
    ApplyRule.SOURCE_TIME: lambda change: (change.at, -change.arrival),
    # Position of the commit, then of the change (https://github.com/debezium/debezium/pull/746).
    ApplyRule.COMMIT: lambda change: change.rank,
    # All deletes of a batch, then its upserts (https://github.com/risingwavelabs/risingwave/pull/12250); a batch is a
    # minute of changes.
    ApplyRule.DELETES_FIRST: lambda change: (change.at // _BATCH_US, change.operation != DELETE),
    # Events without their envelope, whose deletes are dropped, which is the default
    # (https://docs.confluent.io/cloud/current/connectors/transforms/extractnewrecordstate.html).
    ApplyRule.NO_DELETES: lambda change: change.arrival,
    # Positions compared as text, so that 10 precedes 9 (https://github.com/zendesk/maxwell/issues/2251,
    # https://github.com/apache/flink-cdc/pull/4358).
    ApplyRule.TEXT_POSITION: lambda change: change.text,
}
"""What orders the changes that a target applies by each rule; of equal ones the first that came is first."""


def _in_order(rule: ApplyRule, changes: list[_Applied]) -> list[_Applied]:
    """The changes that a target applies by a rule, in its order."""
    applied = [one for one in changes if rule != ApplyRule.NO_DELETES or one.operation != DELETE]
    return sorted(applied, key=_ORDERS[rule])


def simulate(capture: Any, rule: str) -> Rows:
    """The rows (:data:`WRONG`) that a target ends with wrongly under a rule, in any order. Raises OptionError for a
    rule that does not exist."""
    rules = [*ApplyRule]
    if rule not in rules:
        raise OptionError(f"rule: there is no rule {rule!r}.{nearest(rule, rules)} There are: {', '.join(rules)}.")
    return _simulate(capture, [ApplyRule(rule)]).drop("rule")


def simulated(capture: Any, most: int = 20) -> list[dict[str, Any]]:
    """For each rule the number of wrong rows (``rows``), by what is ``wrong``, and the first of them (``listed``)."""
    order = ("table", "right_file_index", "right_offset")
    counts, first = _simulate(capture, [*ApplyRule]).fold(
        *together(counted_by(_WRONG, ["rule", "wrong"]), first_of(_WRONG, order, most, ["rule"]))
    )
    numbers = {(row["rule"], row["wrong"]): row["rows"] for row in counts.to_pylist()}
    found = []
    for rule in map(str, ApplyRule):
        wrong = {kind: numbers[rule, kind] for kind in KINDS if (rule, kind) in numbers}
        listed = first.filter(pc.equal(first["rule"], rule)).drop_columns(["rule"]).to_pylist()
        found.append({"rule": rule, "rows": sum(wrong.values()), "wrong": wrong, "listed": listed})
    return found


def _simulate(capture: Any, rules: Sequence[ApplyRule]) -> Rows:
    keyed = row_versions(capture)[0].where(lambda batch: batch["row_key"].is_valid())
    return keyed.by_key(ROW, ["file_index", "offset", "part"], partial(_wrong, rules), _WRONG)


def _wrong(rules: Sequence[ApplyRule], batches: Batches) -> Batches:
    """The wrong rows, from the changes of each row in the order of the capture."""
    return (_of_rows(rules, rows) for rows in complete_keys(batches, ROW))


def _of_rows(rules: Sequence[ApplyRule], rows: pa.RecordBatch) -> pa.RecordBatch:
    starts = run_starts(rows, ROW)
    rank = log_order(rows, starts)[0]
    of_changes = (
        *(np.arange(rows.num_rows), rank, pc.fill_null(rows["at"].cast(pa.int64()), 0)),
        *(pc.utf8_ltrim(pc.fill_null(rows["position"], ""), "0"), rows["operation"]),
    )
    changes = [*map(_Applied._make, zip(*(column.tolist() for column in of_changes), strict=True))]
    found: list[tuple[str, str, int, int | None, int | None]] = []
    for start, end in pairwise([*starts.tolist(), rows.num_rows]):
        of_row = changes[start:end]
        order = _in_order(ApplyRule.COMMIT, of_row)
        others = {rule: other for rule in rules if (other := _in_order(rule, of_row)) != order}
        right = _applied(order, rows) if others else None
        for rule, other in others.items():
            held = _applied(other, rows)
            if held != right:
                wrong = "missing" if held is None else "left over" if right is None else "other values"
                last, right_last = (one[-1].arrival if one else None for one in (other, order))
                found.append((str(rule), wrong, start, last, right_last))
    rule_names, kinds, firsts, *records = zip(*found, strict=True) if found else [()] * 5
    at = pa.array(firsts, pa.int64())
    keys = [key_of(key) for key in rows["row_key"].take(at).to_pylist()]
    columns: dict[str, Any] = {"table": rows["table"].take(at), "key": keys, "rule": rule_names, "wrong": kinds}
    for which, numbers in zip(("", "right_"), records, strict=True):
        last = pa.array(numbers, pa.int64())
        columns |= {f"{which}{name}": rows[name].take(last) for name, _ in RECORD}
        columns[f"{which}operation"] = OPERATION_NAMES.take(columns[f"{which}operation"])
    columns["at"] = rows["at"].take(pa.array(records[0], pa.int64()))
    return pa.RecordBatch.from_pydict(columns, _WRONG)


def _applied(changes: Sequence[_Applied], rows: pa.RecordBatch) -> dict[int, int] | None:
    """The values of the row after some changes (None: it is not there)."""
    values: dict[int, int] | None = None
    for change in changes:
        if change.operation == DELETE:
            values = None
            continue
        images = ("before", "after") if change.operation == UPDATE else ("after",)
        new = {pair >> 32: pair & VALUE_BITS for image in images for pair in rows[image][change.arrival].as_py() or ()}
        values = with_image(values or {}, new, change.operation == UPDATE)
    return values
