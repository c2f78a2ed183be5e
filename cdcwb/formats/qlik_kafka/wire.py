"""Which wire form each value of a batch has, by its first bytes (docs/formats/qlik-kafka.md §1)."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.messages import Messages

__all__ = ["Form", "forms_of", "values_of"]

Ints = npt.NDArray[np.int64]


class Form(IntEnum):
    """What a message is, as far as its first bytes tell."""

    NOTHING = 0  # filler or malformed bytes of the container
    TOMBSTONE = 1
    JSON = 2
    ENVELOPE = 3  # Avro, in Qlik's envelope
    CONFLUENT = 4
    BARE = 5  # none of these: Avro without a frame, if its schema is known


_MAGIC = np.frombuffer(b"atMSG", dtype=np.uint8)
_BLANK = (0x20, 0x09, 0x0D, 0x0A, 0xEF)


def forms_of(messages: Messages) -> npt.NDArray[np.uint8]:
    """The form of every message of a batch."""
    values = messages.value
    count = len(values)
    forms = np.full(count, Form.BARE, dtype=np.uint8)
    null = pc.is_null(values).to_numpy(zero_copy_only=False)
    forms[null] = Form.TOMBSTONE
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    data = values.buffers()[2]
    buffer = np.zeros(1, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)
    start, size = offsets[:-1], np.diff(offsets)
    first = buffer[np.minimum(start, len(buffer) - 1)]
    there = ~null & (size > 0)
    forms[there & (first == ord("{"))] = Form.JSON
    forms[there & (first == 0) & (size >= 5)] = Form.CONFLUENT
    magic = there & (first == _MAGIC[0]) & (size >= len(_MAGIC))
    for at in range(1, len(_MAGIC)):
        magic &= buffer[np.minimum(start + at, len(buffer) - 1)] == _MAGIC[at]
    forms[magic] = Form.ENVELOPE
    for at in np.flatnonzero(there & np.isin(first, _BLANK)).tolist():
        if buffer[start[at] : offsets[at + 1]].tobytes().lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            forms[at] = Form.JSON
    forms[messages.state != 0] = Form.NOTHING
    return forms


def values_of(messages: Messages, index: Ints) -> pa.BinaryArray:
    """The values of some messages."""
    return messages.value if len(index) == len(messages.value) else messages.value.take(pa.array(index))
