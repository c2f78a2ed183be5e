"""The bodies of a part's records, and their images as Arrow maps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.goldengate.assignment import KINDS, OPERATIONS, Assigned
from cdcwb.formats.goldengate.body import UNKNOWN_ORDER, Bools, Cells, Form, Half, body_of_columns, not_columns, walk
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.maps_of_images import Put, Tables, build_images, decode_cells
from cdcwb.formats.goldengate.plan import FileEntry, Plan
from cdcwb.formats.goldengate.records import Bytes, Ints
from cdcwb.formats.goldengate.scanning import forms_of
from cdcwb.model import Kind, Operation, Problem

__all__ = ["Bodies"]

_IMAGED: Final = np.isin(KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_DELETE: Final = OPERATIONS.index(str(Operation.DELETE))
_BEFORE: Final = KINDS.index(str(Kind.BEFORE))


class Bodies:
    """Where the bodies of all records of a part stand: ``buffer[start:stop]``, -1 where none is shown."""

    def __init__(self, given: Assigned, file: FileEntry, plan: Plan, charset: str) -> None:
        self.given = given
        self.file = file
        self.plan = plan
        self.charset = charset
        self.tables = Tables([version.definition for version in plan.versions])
        self.buffer, self.start, self.stop = self._joined()

    def _joined(self) -> tuple[Bytes, Ints, Ints]:
        """Bodies as they are in the hex, put together from fragments, or made from columns shown one by one."""
        given, records = self.given, self.given.records
        start, stop = records.body_at[:, 0].copy(), records.body_at[:, 1].copy()
        more: list[bytes] = []
        at = len(records.bytes)
        made: dict[int, bytes] = {}
        order = self.order
        for index, printed in records.extras.items():
            if printed.columns and any(one.data is not None for one in printed.columns):
                form = Form(int(forms_of(given.marks, self.file.prefix, np.array([index]))[0]))
                if form is Form.OPAQUE:
                    continue
                body, _ = body_of_columns(printed.columns, order, form)
                if len(body) > stop[index] - start[index]:
                    made[index] = body
        for index, head in given.heads.items():
            if head.body:
                own = made.get(index) or records.bytes[start[index] : stop[index]].tobytes()
                made[index] = b"".join([own, *(piece.body for piece in head.body)])
        for index, body in made.items():
            more.append(body)
            start[index], stop[index] = at, at + len(body)
            at += len(body)
        if not more:
            return records.bytes, start, stop
        joined = np.frombuffer(b"".join(more), dtype=np.uint8)
        return np.concatenate([records.bytes, joined]), start, stop

    @property
    def order(self) -> Any:
        """Byte order of the file's bodies."""
        return self.file.byte_order

    def cells(self, rows: Ints) -> Cells:
        """The columns of some records; those without images have none."""
        given = self.given
        forms = forms_of(given.marks, self.file.prefix, rows)
        start = np.where(self._with_columns(rows), self.start[rows], -1)
        skip = np.maximum(given.records.column("SyskeyLen")[rows], 0)
        before = (given.kind[rows] == _BEFORE) | (given.operation[rows] == _DELETE)
        if not self.file.order_known:
            start[:] = -1
        stop, bare = self.stop[rows], self._bare(rows)
        cells = walk(self.buffer, start, stop, self.order, forms, skip, before, bare)
        unread = (cells.bad >= 0) & self._is_complete(rows)
        if unread.any():  # what begins like columns and does not end so is none
            bad = cells.bad
            cells = walk(self.buffer, np.where(unread, -1, start), stop, self.order, forms, skip, before, bare)
            cells.bad = bad
        return cells

    def _with_columns(self, rows: Ints) -> Bools:
        """Records whose data is an image or two."""
        forms = forms_of(self.given.marks, self.file.prefix, rows)
        there: Bools = _IMAGED[self.given.kind[rows]] & (forms != Form.OPAQUE)
        return there

    def _bare(self, rows: Ints) -> Bools | None:
        """Records with null indicators only in columns that may be NULL; None if there are none."""
        bare: Bools = self.given.marks.system[rows] >= self.file.nullable
        return bare if bare.any() else None

    def _is_complete(self, rows: Ints) -> Bools:
        """Records of which all of the data is shown, and which no other record continues."""
        heads = np.array(sorted(self.given.heads), dtype=np.int64)
        whole: Bools = self.stop[rows] - self.start[rows] >= self.given.records.length[rows]
        return whole & ~np.isin(rows, heads)

    def images(self, batch: EventBatch, rows: Ints) -> dict[str, pa.Array]:
        """Row images, and the problems that come up in decoding them."""
        given = self.given
        cells = self.cells(rows)
        group = given.version[rows]
        found = decode_cells(self.buffer, cells, group, self.tables, self.charset, self.order)
        for at, code, sentence in found.problems:
            batch.problem(at, code, sentence)
        self._unwalked(batch, rows, cells)
        put = self._large_objects(rows, cells)
        images = build_images(len(rows), cells, found, self.tables, group, None, put)
        return {"before": images.before, "after": images.after, "key": images.key}

    def _unwalked(self, batch: EventBatch, rows: Ints, cells: Cells) -> None:
        """Bodies that are all there and are not columns to their end, or that nothing tells the byte order of."""
        if not self.file.order_known:
            for at in np.flatnonzero(self._with_columns(rows) & (self.stop[rows] > self.start[rows])).tolist():
                batch.problem(at, Problem.ROW_SIZE, UNKNOWN_ORDER)
        for at in np.flatnonzero((cells.bad >= 0) & self._is_complete(rows)).tolist():
            place = int(cells.bad[at] - self.start[rows[at]])
            batch.problem(at, Problem.ROW_SIZE, not_columns(place))

    def _large_objects(self, rows: Ints, cells: Cells) -> list[Put]:
        """The values of large objects that were put together from fragments."""
        out: list[Put] = []
        heads = self.given.heads
        if not heads:
            return out
        wanted = np.flatnonzero(np.isin(rows, np.array(sorted(heads), dtype=np.int64)) & _IMAGED[self.given.kind[rows]])
        for at in wanted.tolist():
            head = heads[int(rows[at])]
            if not head.lobs:
                continue
            version = int(self.given.version[rows[at]])
            definition = self.plan.versions[version].definition if version >= 0 else None
            waiting = self._lob_columns(definition, cells, at)
            half = Half.BEFORE if self.given.kind[rows[at]] == _BEFORE else Half.AFTER
            for number, pieces in enumerate(head.lobs, 1):
                told = next((column for piece in pieces if (column := piece.column) is not None), None)
                if told is None:
                    told = waiting.pop(0) if waiting else None
                elif told in waiting:
                    waiting.remove(told)
                value = b"".join(piece.body for piece in pieces)
                defined = definition.column(told) if definition is not None and told is not None else None
                text = self._lob_text(value, None if defined is None else defined.is_text_lob or not defined.is_lob)
                out.append(Put(at, half, 0, text, f"lob{number}") if told is None else Put(at, half, told, text))
        return out

    def _lob_columns(self, definition: Definition | None, cells: Cells, at: int) -> list[int]:
        """The large object columns that a record has and that are not NULL."""
        if definition is None:
            return []
        there = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
        return [
            index
            for index, null in zip(cells.index[there].tolist(), cells.is_null[there].tolist(), strict=True)
            if not null and (column := definition.column(index)) is not None and column.is_lob
        ]

    def _lob_text(self, value: bytes, is_text: bool | None) -> str:
        if is_text is False:
            return value.hex()
        try:
            text = value.decode(self.charset)
        except UnicodeDecodeError:
            return value.hex()
        if is_text is None and any(one < " " and one not in "\t\r\n" for one in text):
            return value.hex()
        return text
