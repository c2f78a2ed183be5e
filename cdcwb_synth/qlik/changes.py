"""A change of the history as a message, and what the truth has of it."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from cdcwb_synth.events import Load
from cdcwb_synth.history import Change
from cdcwb_synth.model import ChangeSource, Operation, Outcome
from cdcwb_synth.qlik.messages import Heads
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.sequence import iso_milliseconds
from cdcwb_synth.qlik.tables import Rendered, Table, Tables
from cdcwb_synth.qlik.truth import Image, Row

__all__ = ["Changes", "Written"]

_COMMITTED: Final = str(Outcome.COMMITTED)
_MASK, _REFRESH = str(ChangeSource.MASK), str(Operation.REFRESH)


class Written(NamedTuple):
    """A message on its way: what is sent, and the truth of it."""

    table: Table
    key: bytes
    value: bytes
    row: Row

    def again(self) -> Written:
        """The same message a second time, whose container may say something else of it."""
        names, texts = self.row.headers or ((), ())
        return self._replace(row=self.row._replace(headers=(names, list(texts))))


class Changes:
    """Makes messages of changes, by the tables' forms."""

    def __init__(self, options: KafkaOptions, seed: int, tables: Tables) -> None:
        self._tables = tables
        self._missed = options.column_mask
        self._counts = options.generation != "2018"
        self._rng = Random(f"{seed} changes")

    def load(self, table: Table, item: Load, at: int) -> Written:
        """A row of the full load ``at`` a time (microseconds since 1970): no position, no transaction, no masks."""
        heads = Heads(_REFRESH, timestamp=iso_milliseconds(at) if self._counts else "")
        image = table.render(item.row)
        row = Row(
            table.number,
            table.form.record_type(heads),
            _REFRESH,
            changed_at=at // 1000 * 1000 if self._counts else None,
            key=_key(table, image),
            after=(table.layout.names, image[1]),
            headers=table.form.headers(heads),
        )
        value = table.form.message(heads, image[0], None)
        return Written(table, self._tables.message_key(table, image), value, row)

    def change(self, table: Table, change: Change, heads: Heads, at: int, committed: int, end: str | None) -> Written:
        """A change made ``at`` some time and ``committed`` at another (microseconds since 1970); ``end``: the position
        of the commit, None if it is unknown. Fills the masks of ``heads``."""
        form, layout = table.form, table.layout
        before = None if change.before is None else table.render(change.before)
        after = None if change.after is None else table.render(change.after)
        differ, present = 0, layout.everything
        if before is None:
            image, mask = after or ((), ()), layout.inserted
        elif after is None:
            image, mask = before, layout.key
        else:
            image, bit = after, 1
            for old, new in zip(before[0], after[0], strict=True):
                if old != new:
                    differ |= bit
                bit <<= 1
            mask = differ & layout.inserted
        if self._missed and before is not None and self._rng.random() < self._missed:
            present &= ~self._missing(layout.own & ~differ & ~layout.key)
        names, sent, old_texts, new_texts = layout.names, image[0], before and before[1], after and after[1]
        other = before[0] if before is not None and after is not None else None
        if present != layout.everything:
            names = table.names(present)
            sent = _blanked(sent, form.absent, present)
            other = None if other is None else _blanked(other, form.absent, present)
            old_texts, new_texts = _kept(old_texts, present), _kept(new_texts, present)
        heads.change_mask, heads.column_mask = mask, present
        heads.change_text, heads.column_text = form.mask_texts[mask], form.mask_texts[present]
        row = Row(
            table.number,
            form.record_type(heads),
            heads.operation,
            heads.sequence,
            end,
            heads.transaction,
            heads.counter if self._counts else None,
            heads.last if self._counts else None,
            at // 1000 * 1000,
            heads.change_text,
            heads.column_text,
            _COMMITTED,
            committed,
            _MASK,
            table.names(mask),
            names,
            _key(table, image),
            None if old_texts is None else (names, old_texts),
            None if new_texts is None else (names, new_texts),
            form.headers(heads),
        )
        value = form.message(heads, sent, other)
        return Written(table, self._tables.message_key(table, image), value, row)

    def _missing(self, candidates: int) -> int:
        """Some of the columns that need not be logged: at least one, if there is one."""
        bits = [1 << at for at in range(candidates.bit_length()) if candidates >> at & 1]
        chosen = sum(bit for bit in bits if self._rng.random() < 0.4)
        return chosen or (self._rng.choice(bits) if bits else 0)


def _key(table: Table, image: Rendered) -> Image | None:
    return (table.key_names, (image[1][table.layout.key_place],)) if table.has_key else None


def _blanked(wires: tuple[object, ...], absent: list[object], present: int) -> tuple[object, ...]:
    """What is in a message of a row of which only some columns are present."""
    return tuple([wire if present >> at & 1 else absent[at] for at, wire in enumerate(wires)])


def _kept(texts: tuple[str | None, ...] | None, present: int) -> tuple[str | None, ...] | None:
    return None if texts is None else tuple([text for at, text in enumerate(texts) if present >> at & 1])
