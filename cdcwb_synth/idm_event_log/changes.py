"""Rows of an event log as changes and versions of tables (``docs/formats/idm-event-log.md §6.2, §6.3``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from cdcwb_synth import model
from cdcwb_synth.idm_event_log.keys import parsed
from cdcwb_synth.idm_event_log.publisher import event_type, record_number
from cdcwb_synth.idm_event_log.rows import COLUMNS, LogRow
from cdcwb_synth.instants import EPOCH

__all__ = ["changes", "table_versions"]

_OPERATIONS: Final = {
    1: model.Operation.INSERT, 5: model.Operation.INSERT, 7: model.Operation.INSERT, 4: model.Operation.DELETE,
    2: model.Operation.UPDATE, 3: model.Operation.UPDATE, 6: model.Operation.UPDATE, 8: model.Operation.UPDATE,
}  # fmt: skip
_WHOLE_ROW: Final = (4, 5, 6)


def changes(rows: Sequence[LogRow], files: Sequence[str], unit: model.OffsetUnit) -> Iterator[dict[str, Any]]:
    """The changes of rows given in capture order, as rows of the model; ``files`` are the names of the files.

    Rows for one column that follow each other in the order of record_id, with no other row between, are one change
    where object, operation, perpetrator and event_time are the same and no column comes twice.
    """
    groups = sorted(_groups(rows), key=lambda group: group[-1].place)
    for group in groups:
        last = group[-1]
        kinds = [event_type(row.event_type) or 0 for row in group]
        schema, table = split(last.table_name)
        pairs = parsed(last.table_key or "")
        named = [row.column_name for row in group if row.column_name is not None]
        before = {row.column_name: row.old_value for row, kind in zip(group, kinds, strict=True) if kind in (2, 3)}
        after = {row.column_name: row.new_value for row, kind in zip(group, kinds, strict=True) if kind in (1, 2, 3)}
        if kinds == [4] and pairs is not None:
            before = dict(pairs)
        for image in (before, after):
            image.pop(None, None)
        is_per_field = kinds[0] not in _WHOLE_ROW and bool(named)
        yield {
            "format": "idm-event-log",
            "file": files[last.place.file],
            "file_index": last.place.file,
            "offset": last.place.offset,
            "length": last.place.length,
            "offset_unit": str(unit),
            "record_type": last.event_type,
            "kind": model.CHANGE,
            "operation": str(_OPERATIONS[kinds[-1]]),
            "position": _position(last),
            "changed_at": None if last.time is None else EPOCH + timedelta(microseconds=last.time),
            "schema_name": schema,
            "table_name": table,
            "table_version": None if table is None else f"{last.table_name}@1",
            "changed_columns": named if is_per_field else None,
            "key": None if pairs is None else dict(pairs),
            "before": before or None,
            "after": after or None,
            "headers": dict(zip(COLUMNS, last.texts(), strict=True)),
            "source_events": [_event(row) for row in sorted(group, key=lambda row: row.place)],
            "change_source": str(model.ChangeSource.LOG) if is_per_field else None,
        }


def split(table_name: str | None) -> tuple[str | None, str | None]:
    """Schema and table of a table_name."""
    schema, _, table = (table_name or "").rpartition(".")
    return schema or None, table or None


def _position(row: LogRow) -> str | None:
    number = record_number(row.record_id)
    return None if number is None else f"{number:019d}"


def _event(row: LogRow) -> dict[str, int]:
    return {"file_index": row.place.file, "offset": row.place.offset, "length": row.place.length}


def _groups(rows: Iterable[LogRow]) -> Iterator[list[LogRow]]:
    """Rows of each change, in the order of record_id."""
    numbered = []
    for row in rows:
        number = record_number(row.record_id)
        if number is not None:
            numbered.append((number, row.place, row))
        elif event_type(row.event_type) is not None:
            yield [row]
    group: list[LogRow] = []
    for _, _, row in sorted(numbered, key=lambda one: one[:2]):
        if group and not _continues(group, row):
            yield group
            group = []
        if event_type(row.event_type) is not None:
            group.append(row)
    if group:
        yield group


def _continues(group: Sequence[LogRow], row: LogRow) -> bool:
    """Is a row of the same change as those before it?"""
    last = group[-1]
    kinds = event_type(last.event_type), event_type(row.event_type)
    return (
        None not in (*kinds, row.table_name, row.table_key, last.column_name, row.column_name)
        and not {*kinds} & {*_WHOLE_ROW}
        and len({_OPERATIONS[kind] for kind in kinds if kind is not None}) == 1
        and _statement(last) == _statement(row)
        and row.column_name not in [one.column_name for one in group]
    )


def _statement(row: LogRow) -> tuple[str | None, ...]:
    return row.table_name, row.table_key, row.perpetrator, row.event_time


def table_versions(rows: Iterable[LogRow]) -> list[dict[str, Any]]:
    """The versions of the tables as somebody finds out who knows nothing but the rows: the columns of the keys, then
    the others, as they come. Key columns that differ in case are one."""
    found: dict[str, tuple[dict[str, None], dict[str, None], list[str]]] = {}
    for row in rows:
        kind = event_type(row.event_type)
        if kind is None or not row.table_name:
            continue
        keys, others, positions = found.setdefault(row.table_name, ({}, {}, []))
        known = {name.lower() for name in keys}
        keys.update((name, None) for name, _ in parsed(row.table_key or "") or () if name.lower() not in known)
        if row.column_name is not None and kind not in _WHOLE_ROW:
            others[row.column_name] = None
        position = _position(row)
        if position is not None:
            positions[:] = [min([*positions, position])]
    return [_version(name, *parts) for name, parts in found.items()]


def _version(name: str, keys: dict[str, None], others: dict[str, None], positions: list[str]) -> dict[str, Any]:
    schema, table = split(name)
    blank: dict[str, Any] = dict.fromkeys(field.name for field in model.COLUMN)
    names = [*keys, *(other for other in others if other not in keys)]
    return {
        "table_version": f"{name}@1",
        "schema_name": schema,
        "table_name": table,
        "first_position": positions[0] if positions else None,
        "columns": [
            blank | {"ordinal": at + 1, "name": column, "key_position": at + 1 if column in keys else None}
            for at, column in enumerate(names)
        ],
        "origin": "inferred",
        "lineage": {},
    }
