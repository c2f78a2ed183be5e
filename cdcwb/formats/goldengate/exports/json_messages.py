"""GoldenGate's JSON messages as ``events`` (docs/formats/goldengate.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import Wanted
from cdcwb.formats.event_batch import EventBatch, columns_of
from cdcwb.formats.goldengate.exports.bytes_literal import find_literal, has_literals
from cdcwb.formats.goldengate.exports.groups import Group, Shape
from cdcwb.formats.goldengate.exports.joined import apart
from cdcwb.formats.goldengate.exports.json_forms import Forms, document_of, json_form, parse_cut, parse_json
from cdcwb.formats.goldengate.exports.names import OPERATIONS, role_of
from cdcwb.formats.goldengate.exports.rows import fill
from cdcwb.formats.goldengate.exports.summary import Summary
from cdcwb.formats.goldengate.exports.times import ToUtc
from cdcwb.formats.json_values import MARK, CutOff, as_text, is_cut_off
from cdcwb.formats.messages import FILLER, MALFORMED, MESSAGE, TRUNCATED, Messages
from cdcwb.model import Kind, Operation, Problem

__all__ = ["begin", "events_of_json", "read_json", "summary_of_json", "unfold", "values_in"]

_RAW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Json(NamedTuple):
    """The messages of a batch: changes in groups, what is none (``bad``: index, problem and sentence), and the
    tombstones that Kafka Connect wrapped. ``cut``: the complete fields of those ``bad`` ones that are cut off, in
    groups. ``notes``: problems of messages that are read all the same."""

    groups: list[Group]
    bad: list[tuple[int, Problem, str]]
    gone: list[int]
    cut: list[Group]
    notes: list[tuple[int, Problem, str]]


def read_json(values: Iterable[tuple[int, bytes]]) -> Json:
    """Parses the values of a batch, each with its number in it."""
    groups: dict[Any, Group] = {}
    cut: dict[Any, Group] = {}
    bad: list[tuple[int, Problem, str]] = []
    gone: list[int] = []
    notes: list[tuple[int, Problem, str]] = []
    remarks: list[str] = []
    forms: Forms = {}
    getters: dict[tuple[str, ...], Any] = {}
    kept: dict[int, bytes] = {}
    for number, value in values:
        into = groups
        try:
            try:
                whole = parse_json(value, remarks)
            except CutOff as reason:
                bad.append((number, Problem.TRUNCATED, str(reason)))
                into = cut
                value, whole = parse_cut(value)
            if remarks:
                notes.extend((number, Problem.JSON_SYNTAX, remark) for remark in remarks)
                remarks.clear()
            document = document_of(whole)
            if document is None and whole is not None:
                gone.append(number)
                continue
            form = json_form(document, forms)
        except ValueError as reason:
            if into is groups:
                bad.append((number, Problem.MALFORMED, str(reason)))
            continue
        table, operation = _name(document, form.table), _name(document, form.operation)
        tokens = document.get(form.tokens) if form.tokens is not None else None
        if tokens.__class__ is not dict:
            tokens = {} if tokens is None else {form.tokens: tokens}
        keys = document.get(form.keys) if form.keys is not None else None
        keys = tuple(map(str, keys)) if keys.__class__ is list else None
        if form.columns is None:
            before = (document.get(form.before) if form.before is not None else None) or None
            after = (document.get(form.after) if form.after is not None else None) or None
        else:
            before, after = None, document
        names = form.columns if form.columns is not None else None if after is None else tuple(after)
        identity = (
            form,
            table,
            operation,
            None if before is None else tuple(before),
            names,
            tuple(tokens),
            keys,
        )
        group = into.get(identity)
        if group is None:
            image = names
            shape = Shape(table, operation, form.headers, tuple(tokens), identity[3], image or None, keys)
            if form.columns is not None and (operation or "").upper() in _DELETES:
                shape = shape._replace(before=image or None, after=None)
            group = into[identity] = Group(shape, source=_Source(kept))
        group.index.append(number)
        kept[number] = value
        if form.headers:
            group.headers.extend(_values(getters, form.headers)(document))
        if tokens:
            group.tokens.extend(tokens.values())
        if before is not None:
            group.before.extend(before.values())
        if after is not None and names:
            row = after.values() if form.columns is None else _values(getters, names)(after)
            (group.after if group.shape.after is not None else group.before).extend(row)
    return Json(list(groups.values()), bad, gone, list(cut.values()), notes)


_DELETES: Final = frozenset(name for name, operation in OPERATIONS.items() if operation == Operation.DELETE)


def _values(getters: dict[tuple[str, ...], Any], names: tuple[str, ...]) -> Any:
    """A function that takes the values of some fields from a document, as a tuple."""
    getter = getters.get(names)
    if getter is None:
        one = names[0]
        getter = getters[names] = itemgetter(*names) if len(names) > 1 else lambda document: (document[one],)
    return getter


def _name(document: Mapping[str, Any], name: str | None) -> str | None:
    found = None if name is None else document.get(name)
    return found if found is None or found.__class__ is str else as_text(found)


class _Source:
    """Gives the text of an object or array as it stands in a message."""

    def __init__(self, values: Mapping[int, bytes]) -> None:
        self._values = values

    def __call__(self, number: int, part: str, name: str) -> str | None:
        try:
            found = _RAW.decode(self._values[number].removeprefix(MARK))
            if "payload" in found and "schema" in found and "op_type" not in found:
                found = _RAW.decode(found["payload"])
            if part != "headers" and name not in found:
                inner = next(key for key in found if role_of(key) == part)
                found = _RAW.decode(found[inner])
            elif part in ("before", "after") and part in found and bytes(found[part])[:1] == b"{":
                found = _RAW.decode(found[part])
            return bytes(found[name]).decode()
        except (msgspec.MsgspecError, KeyError, StopIteration, UnicodeError):
            return as_text(_parsed(self._values[number], part, name))


def _parsed(value: bytes, part: str, name: str) -> Any:
    document = document_of(parse_json(value, []))
    inner = document.get(part)
    return inner[name] if inner.__class__ is dict and name in inner else document.get(name)


# --- events -----------------------------------------------------------------------------------------------------------


def unfold(messages: Messages) -> Messages:
    """The same messages, with the values that bytes literals stand for in place of the lines that hold them."""
    values = messages.value.to_pylist()
    state, reasons = messages.state.copy(), dict(messages.reasons)
    for number, line in enumerate(messages.source.to_pylist()):
        if line is None or not has_literals(line):
            bare = (line or b"").strip()
            if state[number] == MESSAGE and bare[:1] != b"{":
                state[number], values[number] = (FILLER if not bare else MALFORMED), None
                reasons[number] = "a line without a JSON object or a bytes literal that holds one"
            continue
        found = find_literal(line)
        if found is None:
            continue
        values[number], state[number] = found.value, MESSAGE
        reasons.pop(number, None)
        if not found.closed and not is_cut_off(found.value):
            state[number], values[number] = MALFORMED, None
            reasons[number] = "a bytes literal without a closing quote"
    return Messages(
        messages.offset,
        messages.length,
        state,
        reasons,
        pa.array(values, pa.binary()),
        messages.key,
        messages.source,
        messages.facts,
    )


def values_in(messages: Messages) -> list[tuple[int, bytes]]:
    """Index and value of everything that is a message."""
    index = np.flatnonzero((messages.state == MESSAGE) & np.asarray(pc.is_valid(messages.value)))
    return list(zip(index.tolist(), messages.value.take(pa.array(index)).to_pylist(), strict=True))


def _read(messages: Messages, literals: bool) -> tuple[Messages, Json]:
    """The messages of a batch, each with one object, and what they hold."""
    if literals:
        messages = unfold(messages)
    parsed = read_json(values_in(messages))
    parted = apart(messages, [number for number, *_ in parsed.bad])
    if parted is not messages:
        messages, parsed = parted, read_json(values_in(parted))
    return messages, parsed


def events_of_json(
    messages: Messages, place: tuple[str, int, str], to_utc: ToUtc | None, wanted: Wanted, literals: bool
) -> pa.RecordBatch:
    """The events of one batch of messages. ``place``: file, its index and the unit of places; ``literals``: the
    messages are lines in which bytes literals stand."""
    messages, parsed = _read(messages, literals)
    batch = EventBatch(len(messages), wanted)
    begin(batch, place, messages.offset, messages.length)
    facts = columns_of({**messages.facts, "key": _key_texts(messages.key)})
    wrong = _wrong(messages, parsed)
    for number, (code, sentence) in wrong.items():
        batch.problem(number, code, sentence)
    for group in parsed.groups:
        fill(batch, group, to_utc, wanted.images, facts, False)
    for group in parsed.cut:
        fill(batch, group, to_utc, wanted.images, facts, False, complete=False)
    for number, code, sentence in parsed.notes:
        batch.problem(number, code, sentence)
    _not_changes(batch, messages, parsed, wrong)
    if wanted.raw:
        whole = messages.source if literals else messages.value
        message = pa.array(messages.state == MESSAGE)
        batch.put("raw", pc.if_else(message, whole, messages.source))
    return batch.build()


def begin(batch: EventBatch, place: tuple[str, int, str], offset: Any, length: Any) -> None:
    """Puts what every event has: format, file and place."""
    file, file_index, unit = place
    for name, value in (("format", "goldengate"), ("file", file), ("file_index", file_index), ("offset_unit", unit)):
        batch.constant(name, value)
    batch.put("offset", pa.array(offset))
    batch.put("length", pa.array(length))


def _key_texts(keys: pa.BinaryArray) -> pa.StringArray:
    if keys.null_count == len(keys):
        return pa.nulls(len(keys), pa.string())
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if key is None else key.decode("utf-8", "backslashreplace") for key in keys.to_pylist()])


def _not_changes(batch: EventBatch, messages: Messages, parsed: Json, wrong: Iterable[int]) -> None:
    """Puts the kinds of everything that is no change."""
    nothing = np.asarray(pc.is_null(messages.value))
    batch.constant("kind", str(Kind.TOMBSTONE), np.flatnonzero((messages.state == MESSAGE) & nothing))
    batch.constant("kind", str(Kind.FILLER), np.flatnonzero(messages.state == FILLER))
    batch.constant("kind", str(Kind.TOMBSTONE), np.array(parsed.gone, dtype=np.int64))
    batch.constant("kind", str(Kind.MALFORMED), np.array(sorted(wrong), dtype=np.int64))


def _wrong(messages: Messages, parsed: Json) -> dict[int, tuple[Problem, str]]:
    """What cannot be understood, by its number in the batch, and why."""
    wrong = {
        number: (code, messages.cut_off(number) if code is Problem.TRUNCATED else sentence)
        for number, code, sentence in parsed.bad
    }
    for state, code in ((MALFORMED, Problem.MALFORMED), (TRUNCATED, Problem.TRUNCATED)):
        for number in np.flatnonzero(messages.state == state).tolist():
            wrong[number] = code, messages.reasons.get(number, "bytes that are not a message")
    return wrong


def summary_of_json(messages: Messages, literals: bool, summary: Summary) -> Json:
    """Parses one batch for a summary, and notes the first message that cannot be understood."""
    messages, parsed = _read(messages, literals)
    wrong = _wrong(messages, parsed)
    if wrong and summary.malformed is None:
        number = min(wrong)
        summary.malformed = int(messages.offset[number]), int(messages.length[number]), wrong[number][1]
    return parsed
