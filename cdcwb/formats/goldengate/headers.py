"""``events.headers`` of many records: every header field that is printed, tokens, and what was concluded of the
transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.goldengate.assignment import Assigned
from cdcwb.formats.goldengate.ddl import ddl_items, statement
from cdcwb.formats.goldengate.facts import CHARACTERS, shown, token_name
from cdcwb.formats.goldengate.file_header import file_header
from cdcwb.formats.goldengate.marks import DDL, Bools, spans, texts_of
from cdcwb.formats.goldengate.records import HEADER, MISSING, Ints, Printed, Shape
from cdcwb.unique_names import unique_names

__all__ = ["fill_headers"]

_TEXTS: Final = (
    "IO Time",
    "Operation",
    "Len",
    "RBA",
    "Name",
    "Trail",
    "LOGCSN",
    "TRANID",
    "ORAROWID",
    "csn",
    "xid",
    "continues",
)
_NAMES: Final = (*HEADER, *_TEXTS)
_TOKENS: Final = {0x4C: "csn_at", 0x36: "xid_at", 0x52: "rowid_at"}
_CODES: Final = 256

_Put = Callable[[int, Bools, Ints], None]


@cache
def _characters(name: str) -> pa.Array:
    return pa.array([shown(name, code) for code in range(_CODES)], pa.string())


def fill_headers(batch: EventBatch, given: Assigned, rows: Ints, charset: str) -> None:
    """Fills the headers of a batch, whose records are ``rows`` of the part."""
    records, marks, pool = given.records, given.marks, batch.pool
    told = records.shape[rows] <= Shape.FILE_HEADER
    count = len(rows)
    places = np.zeros((count, len(_NAMES)), dtype=np.int32)
    absent = np.ones((count, len(_NAMES)), dtype=np.bool_)

    def put(at: int, there: Bools, where: Ints) -> None:
        absent[:, at] = ~there
        places[:, at] = where

    values = records.values[rows]
    for at, name in enumerate(HEADER):
        value = values[:, at]
        if name == "TransInd":
            value = np.where(value == MISSING, records.image_trans[rows], value)
        if name == "BeforeAfter":
            value = records.side[rows]
        there = value != MISSING
        if not there.any():
            continue
        filled = np.where(there, value, 0)
        if name in CHARACTERS and int(filled.max()) < _CODES and int(filled.min()) >= 0:
            put(at, there, pool.add(_characters(name))[0] + filled)
        else:
            put(at, there, pool.add_integers(filled))
    first = len(HEADER)
    times = _printed_times(given, rows, texts_of(spans(records.text, records.time_at[rows]), charset))
    for at, texts in enumerate((times, texts_of(spans(records.text, records.operation_at[rows]), charset))):
        put(first + at, _valid(texts), pool.add(texts))
    for at, value in ((2, records.length[rows]), (3, records.rba[rows])):
        there = value != MISSING
        put(first + at, there, pool.add_integers(np.where(there, value, 0)))
    _coded(put, first + 4, pool.add(pa.array(marks.names, pa.string())), marks.printed[rows])
    trails = pa.array([one.name for one in given.files], pa.string())
    codes = given.file[rows]
    named = np.append(_valid(trails), False)[codes]
    _coded(put, first + 5, pool.add(trails), np.where(named, codes, -1))
    for at, where in ((6, records.csn_at), (7, records.xid_at), (8, records.rowid_at)):
        texts = _until_zero(texts_of(spans(records.bytes, where[rows]), charset))
        there = _valid(texts)
        if where is records.xid_at:
            there = there & ~np.isin(rows, _transaction_lines(given))
        put(first + at, there, pool.add(texts))
    for at, of in ((9, [one.csn for one in given.named]), (10, [one.xid for one in given.named])):
        texts = pa.array(of, pa.string())
        codes = given.transaction[rows]
        known = np.append(_valid(texts), False)[codes]
        _coded(put, first + at, pool.add(texts), np.where(known, codes, -1))
    _coded(put, first + 11, pool.add(pa.array(given.places, pa.string())), given.continues[rows])
    _group(batch, given, rows, np.flatnonzero(told), places, absent, charset)


def _printed_times(given: Assigned, rows: Ints, texts: pa.Array) -> pa.Array:
    """Printed times: that of the header block where the record line has another one."""
    extras = given.records.extras
    other = {
        at: printed.io_time
        for at in np.flatnonzero(np.isin(rows, np.array(sorted(extras), dtype=np.int64))).tolist()
        if (printed := extras[int(rows[at])]).io_time is not None and printed.io_time != printed.line_time
    }
    if not other:
        return texts
    return pa.array([other.get(at, text) for at, text in enumerate(texts.to_pylist())], pa.string())


def _coded(put: _Put, at: int, first: Ints, codes: Ints) -> None:
    """Texts that records name by their number, -1 for none."""
    base = int(first[0]) if len(first) else 0
    put(at, codes >= 0, base + np.maximum(codes, 0))


def _valid(texts: pa.Array) -> Bools:
    there: Bools = texts.is_valid().to_numpy(zero_copy_only=False)
    return there


def _until_zero(texts: pa.Array) -> pa.Array:
    """Values of tokens without what stands behind a zero byte, and without blanks at their end."""
    if pc.any(pc.match_substring(texts, "\0")).as_py():
        texts = pc.replace_substring_regex(texts, r"(?s)\x00.*$", "")
    return pc.ascii_rtrim(texts, " ")


def _group(
    batch: EventBatch,
    given: Assigned,
    rows: Ints,
    told: Ints,
    places: npt.NDArray[np.int32],
    absent: Bools,
    charset: str,
) -> None:
    """Puts records together whose maps have the same names."""
    if not len(told):
        return
    more = {
        at: pairs
        for at in told[np.isin(rows[told], _odd(given))].tolist()
        if (pairs := _more(given, int(rows[at]), charset))
    }
    packed = np.packbits(absent[told], axis=1)
    keys = np.zeros((len(told), 8), dtype=np.uint8)
    keys[:, : packed.shape[1]] = packed
    patterns, which = np.unique(keys.view(np.uint64).reshape(-1), return_inverse=True)
    which = which.reshape(-1)
    plain = np.ones(len(told), dtype=np.bool_)
    if more:
        plain = ~np.isin(told, np.array(sorted(more)))
    for number in range(len(patterns)):
        chosen = told[(which == number) & plain]
        if len(chosen):
            there = np.flatnonzero(~absent[chosen[0]])
            batch.entries("headers", [_NAMES[one] for one in there], places[np.ix_(chosen, there)], chosen, None)
    grouped: dict[tuple[str, ...], list[int]] = {}
    for at, pairs in more.items():
        there = np.flatnonzero(~absent[at])
        named = unique_names([*(_NAMES[one] for one in there), *(name for name, _ in pairs)])
        grouped.setdefault(named, []).append(at)
    for names, members in grouped.items():
        chosen = np.array(members)
        there = np.flatnonzero(~absent[members[0]])
        columns = [places[np.ix_(chosen, there)]]
        for column in range(len(more[members[0]])):
            texts = pa.array([more[at][column][1] for at in members], pa.string())
            columns.append(batch.pool.add(texts)[:, None])
        batch.entries("headers", names, np.concatenate(columns, axis=1), chosen, None)


def _transaction_lines(given: Assigned) -> Ints:
    """Records whose id is that of a line TRANSID, not of a token TRANID."""
    id_of_line = [
        index
        for index, printed in given.records.extras.items()
        if printed.transaction is not None and all(_TOKENS.get(token.id) != "xid_at" for token in printed.tokens)
    ]
    return np.array(id_of_line, dtype=np.int64)


def _odd(given: Assigned) -> Ints:
    """Records that may have more headers than the arrays hold."""
    special = np.flatnonzero((given.records.shape == Shape.FILE_HEADER) | (given.marks.io == DDL)).tolist()
    return np.array(sorted({*given.records.extras, *given.heads, *given.syskeys, *special}), dtype=np.int64)


def _more(given: Assigned, index: int, charset: str) -> list[tuple[str, str | None]]:
    """What else is printed of a record, or was concluded of it."""
    out: list[tuple[str, str | None]] = []
    head = given.heads.get(index)
    if head is not None and head.pieces > 1:
        out.append(("fragments", str(head.pieces)))
    if index in given.syskeys:
        out.append(("syskey", given.syskeys[index]))
    printed = given.records.extras.get(index)
    if printed is not None:
        if printed.transaction is not None:
            out.append(("TRANSID", printed.transaction))
        if printed.transaction_number is not None:
            out.append(("TRANSID number", printed.transaction_number))
        out += _tokens(given, index, printed, charset)
        out += printed.user_tokens
    if given.records.shape[index] == Shape.FILE_HEADER:
        out += file_header(given.body(index)).items()
    elif given.marks.io[index] == DDL:
        items = ddl_items(given.body(index), charset)
        said = statement(items)
        out += [] if said is None else [("statement", said)]
        out += items.items()
    return out


def _tokens(given: Assigned, index: int, printed: Printed, charset: str) -> list[tuple[str, str | None]]:
    out: list[tuple[str, str | None]] = []
    seen = {(number, None) for number, name in _TOKENS.items() if getattr(given.records, name)[index, 0] >= 0}
    said: set[tuple[int, bytes]] = set()
    for token in printed.tokens:
        if (token.id, None) in seen or (token.id, token.value) in said:
            seen.discard((token.id, None))
            said.add((token.id, token.value))
            continue
        said.add((token.id, token.value))
        out.append((token_name(token.id, token.name), value_text(token.value, charset)))
    return out


def value_text(value: bytes, charset: str) -> str:
    """A token's value: text where it is one, its parts (which zero bytes end) with a blank between; else hex."""
    try:
        text = value.rstrip(b"\0").decode(charset)
    except UnicodeDecodeError:
        return value.hex()
    text = text.replace("\0", " ").rstrip(" ")
    return text if text.isprintable() else value.hex()
