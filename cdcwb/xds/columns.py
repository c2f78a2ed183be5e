"""Text columns on their way into XML and into associations: escaped and quoted, whole columns at a time.

A column is searched as one run of bytes; only the values in which something was found are worked on. The rules are
those of docs/formats/idm-event-log.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["as_attribute", "as_content", "association", "empty", "offsets_of", "quoted", "truth"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_AMPERSAND: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))
_CONTENT: Final = _AMPERSAND
_ATTRIBUTE: Final = (*_AMPERSAND, ('"', "&quot;"), ("\n", "&#10;"), ("\t", "&#9;"))
_QUOTED: Final = (("\\", "\\\\"), ('"', '\\"'))


def _table(characters: bytes) -> npt.NDArray[np.bool_]:
    found = np.zeros(256, dtype=np.bool_)
    found[list(characters)] = True
    return found


_OF_CONTENT: Final = _table("".join(mark for mark, _ in _CONTENT).encode())
_OF_ATTRIBUTE: Final = _table("".join(mark for mark, _ in _ATTRIBUTE).encode())
_SPECIAL: Final = _table(b",;'+\"=\\<>")


def as_content(texts: pa.StringArray) -> pa.StringArray:
    """Texts as they stand between two tags; null stays null (§5.9)."""
    return _replaced(texts, _having(texts, _OF_CONTENT), _CONTENT)


def as_attribute(texts: pa.StringArray) -> pa.StringArray:
    """Texts as they stand between the double quotes of an XML attribute; null stays null (§5.9)."""
    return _replaced(texts, _having(texts, _OF_ATTRIBUTE), _ATTRIBUTE)


def quoted(texts: pa.StringArray) -> pa.StringArray:
    r"""Values of a table_key: in double quotes where they are empty or one of ``, ; ' + " = \ < >`` stands in them
    (§2.2); null stays null."""
    special, nothing = _having(texts, _SPECIAL), np.flatnonzero(empty(texts))
    if special is None and not len(nothing):
        return texts
    rows = nothing if special is None else np.union1d(special, nothing)
    within = texts.take(pa.array(rows))
    for mark, written in _QUOTED:
        within = pc.replace_substring(within, mark, written)
    return _with(texts, rows, pc.binary_join_element_wise('"', within, '"', ""))


def association(keys: pa.StringArray, tables: pa.StringArray, schemas: pa.StringArray) -> pa.StringArray:
    """Associations: the key as it stands, then table and schema, quoted where they must be (§5.1).

    A schema that is null is left out; a null key or table makes a null association.
    """
    named = pc.binary_join_element_wise(keys, ",table=", quoted(tables), "")
    with_schema = pc.binary_join_element_wise(named, ",schema=", quoted(schemas), "")
    return pc.if_else(pc.is_valid(schemas), with_schema, named)


def empty(texts: pa.StringArray) -> Bools:
    """True for the empty text; False for null."""
    same = pc.fill_null(pc.equal(pc.binary_length(texts), 0), False)
    found: Bools = same.to_numpy(zero_copy_only=False)
    return found


def offsets_of(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    """Where each text begins in the data of its array, and where the last one ends."""
    if len(texts) == 0:
        return np.zeros(1, dtype=np.int32)
    whole = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    return whole[texts.offset : texts.offset + len(texts) + 1]


def _data(texts: pa.StringArray) -> bytes:
    """The bytes of all texts, one behind the other."""
    buffer = texts.buffers()[2]
    if len(texts) == 0 or buffer is None:
        return b""
    offsets = offsets_of(texts)
    found: bytes = buffer.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    return found


def _having(texts: pa.StringArray, wanted: npt.NDArray[np.bool_]) -> Ints | None:
    """The rows whose text holds one of the wanted bytes, in ascending order; None where there is none."""
    buffer = texts.buffers()[2]
    if len(texts) == 0 or buffer is None or buffer.size == 0:
        return None
    offsets = offsets_of(texts)
    places = np.flatnonzero(wanted[np.frombuffer(buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]])
    if not len(places):
        return None
    rows: Ints = np.searchsorted(offsets, places + offsets[0], side="right") - 1
    found: Ints = rows[np.append(True, rows[1:] != rows[:-1])]
    return found


def _replaced(texts: pa.StringArray, rows: Ints | None, marks: tuple[tuple[str, str], ...]) -> pa.StringArray:
    if rows is None:
        return texts
    within = texts.take(pa.array(rows))
    data = _data(within)
    for mark, written in marks:
        if mark.encode() in data:
            within = pc.replace_substring(within, mark, written)
    return _with(texts, rows, within)


def _with(texts: pa.StringArray, rows: Ints, others: pa.StringArray) -> pa.StringArray:
    """The texts, with others in some of the rows (ascending)."""
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), others)


def truth(flags: pa.BooleanArray) -> Bools:
    """Flags as a numpy array; null is False."""
    found: Bools = (pc.fill_null(flags, False) if flags.null_count else flags).to_numpy(zero_copy_only=False)
    return found
