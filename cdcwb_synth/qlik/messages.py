"""Data messages in their wire forms (``docs/formats/qlik-kafka.md §1, §2, §4, §7``).

A form knows one table version. It has the cells of the version's columns, makes a message of them and the heads, and
says what the truth has of the heads: names and texts of the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cdcwb_synth.qlik.avro import avro_cells, data, long, string
from cdcwb_synth.qlik.cells import Cells, json_cells
from cdcwb_synth.qlik.columns import Layout
from cdcwb_synth.qlik.schemas import OPERATIONS

__all__ = ["AvroForm", "Form", "Heads", "JsonForm", "Settings", "Texts"]

Texts = list[str | None]

_CODES: Final = {name: long(number) for number, name in enumerate(OPERATIONS)}
_PRESENT: Final = b"\x02"
_REMEMBERED: Final = 8192
_SHORT: Final = tuple(chr(2 * size) for size in range(64))
"""What precedes a string of less than 64 bytes in Avro: its length as a zigzag varint, one byte of ASCII."""


@dataclass(slots=True)
class Heads:
    """The headers of a message: texts are empty and the others None in a full load. ``schema`` and ``table`` are there
    where the settings ask for them."""

    operation: str
    sequence: str = ""
    timestamp: str = ""
    position: str = ""
    transaction: str = ""
    change_mask: int | None = None
    column_mask: int | None = None
    counter: int | None = None
    last: bool | None = None
    change_text: str | None = None  # the masks as text, once they are known
    column_text: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for all messages of one table version. ``generation``: which headers there are; ``schema_id``:
    the envelope's (None: no metadata is published); ``external``: externalSchemaId; ``named_in``: ``message``,
    ``headers`` or ""; ``logical``, ``mask_order``: see the options; ``frame``: bytes before an Avro message that has no
    envelope; ``facts``: names behind those of the headers, whose values somebody else will put after theirs."""

    generation: str = "2019"
    enveloped: bool = True
    schema_id: str | None = None
    external: str | None = None
    named_in: str = ""
    delete_row: str = "data"
    is_avro: bool = False
    logical: bool = True
    mask_order: str = "big"
    frame: bytes = b""
    facts: tuple[str, ...] = ()


class Form(Protocol):
    """What a wire form offers for one table version."""

    @property
    def cells(self) -> list[Cells]:
        """The cells of every column."""
        ...

    @property
    def absent(self) -> list[Any]:
        """What is in a message for each column that was not captured."""
        ...

    @property
    def mask_texts(self) -> Mapping[int | None, str | None]:
        """The hexadecimal text of every mask, as messages have it."""
        ...

    def record_type(self, heads: Heads) -> str:
        """What ``events.record_type`` says of the message."""
        ...

    def message(self, heads: Heads, row: Sequence[Any], before: Sequence[Any] | None) -> bytes:
        """The message: ``row`` is the after image or the deleted row, ``before`` the before image of an update."""
        ...

    def headers(self, heads: Heads) -> tuple[tuple[str, ...], Texts]:
        """The names of the headers and their values as text."""
        ...


class _MaskTexts(dict[int | None, str | None]):
    """Masks of ``size`` bytes as hexadecimal digits, in the order of the bytes."""

    def __init__(self, size: int, order: str) -> None:
        super().__init__({None: None})
        self._size, self._order = size, order

    def __missing__(self, mask: int | None) -> str | None:
        if len(self) > _REMEMBERED or mask is None:
            self.clear()
            self[None] = None
        if mask is not None:
            self[mask] = mask.to_bytes(self._size, self._order).hex().upper()  # type: ignore[arg-type]
        return self[mask]


class _Masked:
    """Names of headers, and masks of ⌊columns / 8⌋ + 1 bytes (§7.6)."""

    def __init__(self, layout: Layout, settings: Settings, outer: Sequence[str]) -> None:
        self.size = len(layout.columns) // 8 + 1
        self._around: tuple[str | None, ...] = ()
        self.mask_texts = _MaskTexts(self.size, settings.mask_order if settings.is_avro else "big")
        self.settings, self.layout = settings, layout
        self.names = (layout.table.schema, layout.table.name) if settings.named_in else ()
        is_old, is_external = settings.generation == "2018", settings.generation == "external"
        self.counts = not is_old
        self.has_external = is_external or (is_old and isinstance(self, JsonForm))
        named = ("schema", "table")
        self.header_names: tuple[str, ...] = (
            *outer,
            *(named if settings.named_in else ()),
            "operation", "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
            *(("externalSchemaId",) if self.has_external else ()),
            *(("transactionEventCounter", "transactionLastEvent") if self.counts else ()),
            *settings.facts,
        )  # fmt: skip

    def headers(self, heads: Heads) -> tuple[tuple[str, ...], Texts]:
        """The names of the headers and their values as text."""
        texts = [
            *self._around, heads.operation, heads.sequence, heads.timestamp, heads.position, heads.transaction,
            heads.change_text, heads.column_text,
        ]  # fmt: skip
        if self.has_external:
            texts.append(self.settings.external)
        if self.counts:
            texts.append(None if heads.counter is None else str(heads.counter))
            texts.append(None if heads.last is None else "true" if heads.last else "false")
        return self.header_names, texts


class JsonForm(_Masked):
    """JSON, with the envelope or without."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        super().__init__(layout, settings, ("magic", "type", "messageSchemaId") if settings.enveloped else ())
        self.cells = [json_cells(column) for column in layout.columns]
        self.absent = [cells[None][0] for cells in self.cells]
        schema_id = "null" if settings.schema_id is None else f'"{settings.schema_id}"'
        self._begin, self._end = "{", "}}"
        if settings.enveloped:
            self._begin = (
                f'{{"magic":"atMSG","type":"DT","headers":null,"messageSchemaId":{schema_id},"messageSchema":null,'
                '"message":{'
            )
            self._end = "}}}"
        names = f'"schema":"{layout.table.schema}","table":"{layout.table.name}",'
        self._begin += names if settings.named_in == "message" else ""
        self._named = names if settings.named_in == "headers" else ""
        self._around = (*(("atMSG", "DT", settings.schema_id) if settings.enveloped else ()), *self.names)
        self._type = "DT" if settings.enveloped else "DataRecord"
        external = "null" if settings.external is None else f'"{settings.external}"'
        self._external = f',"externalSchemaId":{external}' if self.has_external else ""

    def record_type(self, heads: Heads) -> str:
        """``DT``, or ``DataRecord`` where there is no envelope."""
        return self._type

    def message(self, heads: Heads, row: Sequence[Any], before: Sequence[Any] | None) -> bytes:
        """One line of JSON, keys in the order of those that were seen."""
        image = "{" + ",".join(row) + "}"
        other = "null" if before is None else "{" + ",".join(before) + "}"
        if heads.operation == "DELETE" and self.settings.delete_row == "beforeData":
            image, other = other, image
        counts = ""
        if self.counts:
            counter = "null" if heads.counter is None else heads.counter
            last = "null" if heads.last is None else "true" if heads.last else "false"
            counts = f',"transactionEventCounter":{counter},"transactionLastEvent":{last}'
        return (
            f'{self._begin}"data":{image},"beforeData":{other},"headers":{{{self._named}"operation":"{heads.operation}",'
            f'"changeSequence":"{heads.sequence}","timestamp":"{heads.timestamp}","streamPosition":"{heads.position}",'
            f'"transactionId":"{heads.transaction}","changeMask":{_quoted(heads.change_text)},'
            f'"columnMask":{_quoted(heads.column_text)}{self._external}{counts}{self._end}'
        ).encode()


def _quoted(text: str | None) -> str:
    return "null" if text is None else f'"{text}"'


class AvroForm(_Masked):
    """Avro, in the envelope or behind Confluent's five bytes."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        outer = ("magic", "type", "messageSchemaId") if settings.enveloped else ("schemaId",)
        super().__init__(layout, settings, outer)
        self.cells = [avro_cells(column, settings.logical) for column in layout.columns]
        self.absent = [cells[None][0] for cells in self.cells]
        self._nothing = b"".join(self.absent)
        self._around = ("atMSG", "DT", settings.schema_id, *self.names)
        self._begin = b"atMSG" + string("DT") + b"\x00" + _PRESENT + string(settings.schema_id or "") + b"\x00"
        self._type = "DT"
        if not settings.enveloped:
            self._around = (str(int.from_bytes(settings.frame[1:], "big")), *self.names)
            self._begin, self._type = settings.frame, "DataRecord"
        names = b"".join(map(string, self.names))
        self._named = {where: names if settings.named_in == where else b"" for where in ("message", "headers")}
        self._external = b""
        if self.has_external:
            self._external = b"\x00" if settings.external is None else _PRESENT + string(settings.external)
        self._head = self._masks()

    def _masks(self) -> Callable[[int | None], bytes]:
        prefix, size, order = _PRESENT + long(self.size), self.size, self.settings.mask_order

        def write(mask: int | None) -> bytes:
            return b"\x00" if mask is None else prefix + mask.to_bytes(size, order)  # type: ignore[arg-type]

        return write

    def record_type(self, heads: Heads) -> str:
        """``DT``, or ``DataRecord`` where there is no envelope."""
        return self._type

    def message(self, heads: Heads, row: Sequence[Any], before: Sequence[Any] | None) -> bytes:
        """The record; a row that is in ``beforeData`` leaves ``data``, which cannot be null, with nulls only."""
        image = b"".join(row)
        other = b"\x00" if before is None else _PRESENT + b"".join(before)
        if heads.operation == "DELETE" and self.settings.delete_row == "beforeData":
            image, other = self._nothing, _PRESENT + image
        counts = b""
        if self.counts:
            counts = (
                b"\x00\x00"
                if heads.counter is None
                else _PRESENT + long(heads.counter) + _PRESENT + bytes([bool(heads.last)])
            )
        a, b, c, d = heads.sequence, heads.timestamp, heads.position, heads.transaction
        payload = b"".join(
            (
                image, other, self._named["message"], self._named["headers"], _CODES[heads.operation],
                f"{_SHORT[len(a)]}{a}{_SHORT[len(b)]}{b}{_SHORT[len(c)]}{c}{_SHORT[len(d)]}{d}".encode(),
                self._head(heads.change_mask), self._head(heads.column_mask), self._external, counts,
            )
        )  # fmt: skip
        return self._begin + (data(payload) if self.settings.enveloped else payload)
