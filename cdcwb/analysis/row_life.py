"""The changes of one row as plain records, and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cdcwb.model import Operation, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["key_text", "lives", "outcome_words", "parse_key", "states", "told", "value_text"]

NOT_CAPTURED: Final = "not captured"
_WORDS: Final[dict[str, str]] = {
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.UNDONE: "undone by a rollback to a savepoint",
    Outcome.UNDO: "undoes another change",
    Outcome.OPEN: "open: no commit in the capture",
}
_TAKEN_BACK: Final = (Outcome.ROLLED_BACK, Outcome.UNDONE, Outcome.UNDO)
_DELETES: Final = (Operation.DELETE, Operation.TRUNCATE)
_PLAIN: Final = (
    *("operation", "outcome", "position", "commit_position", "transaction_id", "user", "change_mask", "column_mask"),
    *("table_version", "changed_at", "committed_at"),
)


def lives(changes: DataFrame, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What :func:`cdcwb.spark.history.history` found, collected: a record for each change.

    ``table``, ``operation``, ``outcome`` (null: the source tells none), ``position``, ``commit_position``,
    ``transaction_id``, ``user``, ``change_mask``, ``column_mask``, ``table_version``, ``changed_at``, ``committed_at``,
    ``at`` (the best of the two), ``taken_back``, ``differences`` (``column``, ``old``, ``new``, ``old_known``,
    ``told``: in words), ``image`` (the values of the row that the change shows, None where it deleted the row) and
    ``places`` (``file``, ``offset``, ``length`` of every event). ``files`` are the capture's.
    """
    names = {int(one["file_index"]): str(one["file"]) for one in files}
    return [_life(row, names) for row in changes.toArrow().to_pylist()]


def _life(row: Mapping[str, Any], files: Mapping[int, str]) -> dict[str, Any]:
    plain = {name: row[name] for name in _PLAIN}
    for name in ("changed_at", "committed_at"):
        plain[name] = None if plain[name] is None else _utc(plain[name])
    events = row["source_events"] or [{name: row[name] for name in ("file_index", "offset", "length")}]
    differences = [dict(one) | {"told": told(row["operation"], one)} for one in row["differences"] or ()]
    label = row["table_name"] if row["schema_name"] is None else f"{row['schema_name']}.{row['table_name']}"
    return {
        "table": label,
        **plain,
        "at": plain["changed_at"] or plain["committed_at"],
        "taken_back": row["outcome"] in _TAKEN_BACK,
        "differences": differences,
        "image": None if row["operation"] in _DELETES else {**dict(row["before"] or ()), **dict(row["after"] or ())},
        "places": [
            {
                "file": files.get(one["file_index"], row["file"]),
                "offset": one["offset"],
                "length": one["length"],
            }
            for one in events
        ],
    }


def states(changes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], dict[str, str | None] | None]]:
    """The changes of a row (:func:`lives`) that were not taken back, each with the values of the row after it: those
    that the changes up to it show; None where the row was deleted."""
    row: dict[str, str | None] | None = None
    for change in changes:
        if not change["taken_back"]:
            kept = row if row is not None and change["operation"] == Operation.UPDATE else {}
            row = None if change["image"] is None else {**kept, **change["image"]}
            yield change, row


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


def outcome_words(outcome: str | None) -> str:
    """What became of a change, in words."""
    if outcome is None:
        return "outcome not known"
    return _WORDS.get(outcome, outcome)


def told(operation: str | None, difference: Mapping[str, Any]) -> str:
    """What happened to a column: ``old -> new`` of an update, the value of a row that came or went."""
    old = value_text(difference["old"]) if difference["old_known"] else NOT_CAPTURED
    if operation == Operation.DELETE:
        return old
    if operation != Operation.UPDATE:
        return value_text(difference["new"])
    return f"{old} -> {value_text(difference['new'])}"


def value_text(value: str | None) -> str:
    """A value as it is; NULL without quotes, a text that could be taken for something else in quotes."""
    if value is None:
        return "NULL"
    return f"'{value}'" if value in ("", "NULL", NOT_CAPTURED) or value != value.strip() else value


def key_text(key: Mapping[str, str | None]) -> str:
    """``id=42, other=x``."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in key.items())


def parse_key(text: str) -> dict[str, str | None]:
    """A key from a JSON object, or from ``id=42,other=x``.

    Raises ValueError, with a sentence, for what is neither.
    """
    import json

    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text, parse_float=str, parse_int=str)
        except ValueError as error:
            raise ValueError(f"key: expected a JSON object or column=value, found {text!r} ({error})") from None
        return {name: None if value is None else _as_text(value) for name, value in found.items()}
    key: dict[str, str | None] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"key: expected a JSON object or column=value, found {text!r}")
        key[name.strip()] = value
    return key


def _as_text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
