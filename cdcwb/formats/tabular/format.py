"""The common base of formats of rows: their files, tables of rows, and the events of segments that are not rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import ROW, BaseFormat, Field, Inspection, RunRows, TableRequest, Wanted
from cdcwb.formats.tabular.parts import rows_of_batch
from cdcwb.formats.tabular.rows import Gap, Part
from cdcwb.model import EVENTS, Kind

__all__ = ["TabularFormat", "gap_event", "gap_events", "inspect_gap", "parts_of_rows", "woven"]

Ints = npt.NDArray[np.int64]

_BATCH: Final = 8192
_FILLER, _MALFORMED = str(Kind.FILLER), str(Kind.MALFORMED)


class TabularFormat(BaseFormat):
    """A format of rows. A plan has ``files`` (:class:`~cdcwb.formats.tabular.splits.FileEntry`), ``splits``, and rows
    of ``problems``; the plan of a table of rows has one file.

    ``make_row_plan`` plans a table of rows; ``read_split`` and ``read_typed`` read the events and the typed columns of
    a split; ``parts_of`` gives rows of a table as the parts that ``events_of`` and ``typed_part`` make events and typed
    columns of.
    """

    make_row_plan: Callable[..., Any]
    read_split: Callable[..., Iterator[pa.RecordBatch]]
    read_typed: Callable[..., Iterator[pa.RecordBatch]]
    parts_of: Callable[..., Iterator[Any]]
    events_of: Callable[..., Iterator[pa.RecordBatch]]
    typed_part: Callable[..., Iterator[pa.RecordBatch]]
    table_schema: Callable[..., pa.Schema]

    def files(self, plan: Any) -> list[dict[str, Any]]:
        """The data files of a capture: file, file_index, size (bytes, decompressed), shape (csv, sql, json, parquet,
        excel or rows), compression, problem; and ``rows``."""
        return [
            {
                "file": entry.path,
                "file_index": index,
                "size": entry.size,
                "shape": entry.probe.kind,
                "compression": entry.probe.compression,
                "problem": entry.problem,
                "rows": entry.rows,
            }
            for index, entry in enumerate(plan.files)
        ]

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split in capture order."""
        return self.read_split(plan, plan.splits[split], wanted)

    def read_table(self, plan: Any, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split, in capture order."""
        return self.read_typed(plan, plan.splits[split], request)

    def problems(self, plan: Any) -> list[dict[str, Any]]:
        """The problems of the plan that are not problems of an event."""
        found: list[dict[str, Any]] = plan.problems
        return found

    # --- tables of rows -----------------------------------------------------------------------------------------------

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Any:
        """The plan of a table of rows named ``name``. Raises CaptureError for one that cannot be read."""
        return self.make_row_plan(name, schema, self.parse_options(options), run)

    def read_rows(self, plan: Any, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows."""
        for part in self.parts_of(plan, batches):
            yield from self.events_of(plan, 0, part, wanted)

    def read_table_rows(
        self, plan: Any, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as columns."""
        self.table_schema(plan, request)
        for part in self.parts_of(plan, batches):
            yield from self.typed_part(plan, 0, part, request)


def parts_of_rows(
    path: str, batches: Iterable[pa.RecordBatch], names: tuple[str, ...], upper: frozenset[int] = frozenset()
) -> Iterator[Part]:
    """Batches of rows with their numbers (``_row``) as parts. Raises CaptureError if a column is missing."""
    for batch in batches:
        place = batch.schema.get_field_index(ROW)
        if place < 0 or batch.num_columns != len(names) + 1:
            raise CaptureError(f"expected the columns {', '.join(names)} and {ROW}", path=path)
        rows = batch.remove_column(place)
        numbers = batch.column(place).to_numpy(zero_copy_only=False).astype(np.int64)
        for first in range(0, len(rows), _BATCH):
            part = rows_of_batch(rows.slice(first, _BATCH), numbers[first : first + _BATCH], names, upper)
            part.before = None
            yield part


# --- events -----------------------------------------------------------------------------------------------------------


def gap_event(part: Part, gap: Gap, wanted: Wanted, **given: Any) -> dict[str, Any]:
    """The event of a segment that is not a row; ``given``: columns that are equal for all events of the file."""
    row: dict[str, Any] = dict.fromkeys(EVENTS.names) | given
    row |= {"offset": int(part.offset[gap.index]), "length": int(part.length[gap.index])}
    row |= {"offset_unit": str(part.unit), "kind": str(gap.kind)}
    if gap.code is None:
        row["headers"] = [("reason", gap.reason)]
    else:
        row["problems"] = [{"code": str(gap.code), "detail": gap.reason}]
    if wanted.images:
        row["raw"] = gap.raw
    return row


def gap_events(part: Part, gaps: Sequence[Gap], wanted: Wanted, **given: Any) -> pa.RecordBatch:
    """The events of segments that are not rows, as :func:`gap_event`."""
    index, count = np.array([gap.index for gap in gaps], np.int64), len(gaps)
    columns = {name: value if isinstance(value, pa.Array) else [value] * count for name, value in given.items()}
    columns |= {"offset": part.offset[index], "length": part.length[index], "offset_unit": [str(part.unit)] * count}
    columns["kind"] = [_FILLER if gap.code is None else _MALFORMED for gap in gaps]
    columns["headers"] = [[("reason", gap.reason)] if gap.code is None else None for gap in gaps]
    columns["problems"] = [None if gap.code is None else [{"code": gap.code, "detail": gap.reason}] for gap in gaps]
    if wanted.images:
        columns["raw"] = [gap.raw for gap in gaps]
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in EVENTS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def woven(batches: Sequence[pa.RecordBatch], indices: Sequence[Ints]) -> Iterator[pa.RecordBatch]:
    """Events in the order of their segments, as one batch; none without events."""
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        order = pa.array(np.argsort(np.concatenate(indices), kind="stable"))
        yield from pa.Table.from_batches(batches).combine_chunks().take(order).combine_chunks().to_batches()


def inspect_gap(path: str, part: Part, index: int, event_of: Callable[[Gap], dict[str, Any]]) -> Inspection | None:
    """The segment of a part with that index as a field tree of one leaf; None if it is a row."""
    gap = next((one for one in part.gaps if one.index == index), None)
    if gap is None:
        return None
    raw = gap.raw or b""
    event = {name: value for name, value in event_of(gap).items() if value is not None}
    problem = None if gap.code is None else str(gap.code)
    field = Field(str(gap.kind), 0, len(raw), raw, None, gap.reason, (), problem)
    return Inspection(path, int(part.offset[index]), int(part.length[index]), raw, field, event, gap.reason)
