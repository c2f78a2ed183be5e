"""Changes as records of a trail (``docs/formats/goldengate.md §4 and §5.6``), and what a reader can know of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from cdcwb_synth.goldengate.columns import Cell, Layout
from cdcwb_synth.goldengate.options import GoldenGateOptions
from cdcwb_synth.goldengate.records import Part, Record
from cdcwb_synth.history import Change
from cdcwb_synth.instants import microseconds
from cdcwb_synth.model import Operation, Outcome

__all__ = ["Bodies", "Image", "Step"]

Image = dict[str, str | None]

_FRAGMENT: Final = 2000
_INSERT, _DELETE, _FIELDCOMP, _TRUNCATE, _PKUPDATE, _LOB, _UNIFIED, _UNIFIED_PK, _SEGMENT = (
    5, 3, 15, 100, 115, 116, 134, 135, 161,
)  # fmt: skip


@dataclass(slots=True)
class Step:
    """A change on its way into the trail: its ``records``, of which ``head`` is the one that speaks for it. Images are
    what can be read of them; ``rows`` are both rows in full, column by column (None: no such row), ``sent`` the columns
    that are in the images before and after. ``changed`` are the columns of an update that its record shows to be
    changed, ``compared`` whether all of them are in the image before."""

    operation: Operation
    layout: Layout
    records: list[Record]
    head: int
    key: Image | None
    before: Image | None
    after: Image | None
    outcome: Outcome
    rows: tuple[list[Cell] | None, list[Cell] | None]
    sent: tuple[list[int], list[int]]
    changed: list[str] | None = None
    compared: bool = False

    @property
    def fragments(self) -> int:
        """How many records are assembled to make its head."""
        return len(self.records) - self.head


class _Body:
    """A body that grows by columns."""

    def __init__(self, limit: int) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.parts: list[Part] = []
        self.limit = limit

    def put(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    def columns(self, row: list[Cell], places: list[int], names: Sequence[str], kind: str = "column") -> Image:
        """Add columns; returns those that are shown whole."""
        whole: Image = {}
        parts, pieces, size, limit = self.parts, self.pieces, self.size, self.limit
        for at in places:
            entry, _, text, _ = row[at]
            pieces.append(entry)
            stop = size + len(entry)
            parts.append(Part(kind, at, size + 4, stop))
            size = stop
            if not limit or size <= limit:
                whole[names[at]] = text
        self.size = size
        return whole


class Bodies:
    """Makes records of changes."""

    def __init__(self, options: GoldenGateOptions, seed: int) -> None:
        self._options = options
        self._order = options.order
        self._rng = Random(f"{seed} goldengate bodies")
        self._limit = options.reclen if options.form == "logdump" else 0
        self._segment = _SEGMENT if options.style == "21c" else 0

    def step(self, change: Change, layout: Layout, undo: bool = False) -> Step:
        """A change of a table."""
        at = microseconds(change.at)
        before = None if change.before is None else layout.row(change.before)
        after = None if change.after is None else layout.row(change.after)
        if before is None and after is None:
            step = self._bare(layout, at)
        elif before is None:
            assert after is not None
            step = self._insert(layout, after, at)
        elif after is None:
            step = self._delete(layout, before, at)
        else:
            step = self._update(layout, before, after, at)
        step.rows = (before, after)
        if undo:
            for record in step.records:
                record.undo = True
        return step

    def _made(
        self, operation: Operation, layout: Layout, records: list[Record], before: Image | None, after: Image | None
    ) -> Step:
        """A step whose last record is its head."""
        head, before, after = len(records) - 1, before or None, after or None
        own = before if head == 0 else None  # a first half has a key of its own
        image = next((one for one in (own, after) if one and layout.key_names & one.keys()), None)
        key = None if image is None else {n: image[n] for n in layout.names if n in layout.key_names & image.keys()}
        return Step(operation, layout, records, head, key, before, after, Outcome.COMMITTED, (None, None), ([], []))

    def _bare(self, layout: Layout, at: int) -> Step:
        return self._made(Operation.TRUNCATE, layout, [Record(_TRUNCATE, layout, at)], None, None)

    def _insert(self, layout: Layout, row: list[Cell], at: int) -> Step:
        body = _Body(self._limit)
        after = body.columns(row, layout.everything, layout.names)
        step = self._made(Operation.INSERT, layout, [self._record(_INSERT, layout, at, "A", body)], None, after)
        step.sent = ([], layout.everything)
        self._continue(step, body, row, layout.lobs)
        return step

    def _delete(self, layout: Layout, row: list[Cell], at: int) -> Step:
        body = _Body(self._limit)
        places = layout.plain if self._options.deletes == "full" else layout.key_places
        before = body.columns(row, places, layout.names)
        step = self._made(Operation.DELETE, layout, [self._record(_DELETE, layout, at, "B", body)], before, None)
        step.sent = (places, [])
        self._continue(step, body, row, [])
        return step

    def _update(self, layout: Layout, old: list[Cell], new: list[Cell], at: int) -> Step:
        changed = [i for i in layout.everything if old[i] is not new[i] and old[i] != new[i]]
        keys = layout.key_places
        moved = [i for i in changed if i in keys]
        sent = sorted({*keys, *changed})
        kept = [i for i in sent if i not in layout.lobs]  # of large objects only the new value is recorded
        lobs = [i for i in changed if i in layout.lobs]
        is_keyed = bool(moved) and self._rng.random() < self._options.pk_updates
        how, records, before = self._options.updates, [], None
        body = _Body(self._limit)
        if how == "unified":
            width = self._options.unified_prefix
            before = self._halves(body, layout, old, kept, width, "column")
            after = self._second(body, layout, new, sent)
            records.append(self._record(_UNIFIED_PK if is_keyed else _UNIFIED, layout, at, "A", body))
        elif is_keyed:
            before = self._halves(body, layout, old, keys, 2, "key")
            after = self._second(body, layout, new, sent)
            records.append(self._record(_PKUPDATE, layout, at, "A", body))
            kept = keys
        else:
            if how == "pairs":
                first = _Body(self._limit)
                before = first.columns(old, kept, layout.names)
                records.append(self._record(_FIELDCOMP, layout, at, "B", first))
            after = body.columns(new, sent, layout.names)
            records.append(self._record(_FIELDCOMP, layout, at, "A", body))
        step = self._made(Operation.UPDATE, layout, records, before, after)
        step.sent = ([] if before is None else kept, sent)
        shown = changed
        if before is None:  # of the key nobody can tell whether it is new
            shown = [i for i in sent if i not in keys or not layout.key_names]
        step.changed = [layout.names[i] for i in shown]
        step.compared = before is not None and set(shown) <= set(kept)
        if records[-1].io not in (_PKUPDATE, _UNIFIED_PK):
            self._continue(step, body, new, lobs)
        else:
            self._append_lobs(step, new, lobs)
        return step

    def _halves(self, body: _Body, layout: Layout, row: list[Cell], places: list[int], width: int, kind: str) -> Image:
        """Add the length of an image before, and the image."""
        length = sum(len(row[at].entry) for at in places)
        body.put(length.to_bytes(width, self._order))
        head = "keyed" if kind == "key" else "before"
        body.parts.append(Part(head, width + length, other=length))
        return body.columns(row, places, layout.names, kind)

    def _second(self, body: _Body, layout: Layout, row: list[Cell], places: list[int]) -> Image:
        """Add the image after."""
        length = sum(len(row[at].entry) for at in places)
        body.parts.append(Part("after", length, body.size, body.size))
        return body.columns(row, places, layout.names)

    def _record(self, io: int, layout: Layout, at: int, image: str, body: _Body) -> Record:
        return Record(io, layout, at, image, b"".join(body.pieces), body.parts)

    def _continue(self, step: Step, body: _Body, row: list[Cell], lobs: list[int]) -> None:
        """Split a body that is too long, and add the fragments of large objects. A pair's first half stays whole."""
        head, most = step.records[step.head], self._options.long_varchars
        if most and body.size > most:
            whole = head.body
            pieces = [whole[at : at + most] for at in range(0, len(whole), most)]
            head.body, head.continued, head.count = pieces[0], True, len(pieces)
            head.parts = [p._replace(stop=min(p.stop, most)) for p in head.parts if p.start < most]
            for number, piece in enumerate(pieces[1:], 2):
                more = Record(self._segment or head.io, head.layout, head.at, head.image, piece)
                more.continued, more.count = number < len(pieces), len(pieces)
                step.records.append(more)
        self._append_lobs(step, row, lobs)

    def _append_lobs(self, step: Step, row: list[Cell], lobs: list[int]) -> None:
        head = step.records[step.head]
        for at in lobs:
            held = row[at].lob
            if held is None:
                continue
            count = -(-len(held) // _FRAGMENT)
            for number in range(count):
                body = held[number * _FRAGMENT : (number + 1) * _FRAGMENT]
                part = Part("fragment", at, other=number + 1)
                one = Record(_LOB, head.layout, head.at, "A", body, [part])
                one.continued, one.count = number + 1 < count, count
                step.records.append(one)
