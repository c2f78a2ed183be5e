"""Single messages, byte by byte: the worked examples of docs/formats/qlik-kafka.md and values of every type."""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb_synth import generate
from cdcwb_synth.catalogue import Table, TableVersion
from cdcwb_synth.qlik.avro import avro_cells, float_text, long, string
from cdcwb_synth.qlik.cells import json_cells
from cdcwb_synth.qlik.columns import Layout, described
from cdcwb_synth.qlik.messages import AvroForm, Heads, JsonForm, Settings
from cdcwb_synth.qlik.schemas import data_schema
from cdcwb_synth.values import Column, Type
from tests.synth_qlik import bits, messages, truth

STOCK = TableVersion(
    Table("shop", "stock", 1, "id"),
    1,
    (Column("id", Type.INTEGER, nullable=False), Column("name", Type.VARCHAR, length=40)),
)


def wide(columns: int) -> Layout:
    names = ("id", *(f"c{number}" for number in range(1, columns)))
    return Layout(TableVersion(STOCK.table, 1, tuple(Column(name, Type.INTEGER) for name in names)))


HEADS = Heads(
    "UPDATE", "20260203040506780000000000000000042", "2026-02-03T04:05:06.123", "000001a4:00000b21:0003",
    "0000000000000000000000000000004D", 0b10, 0b11, 1, True, "02", "03",
)  # fmt: skip


def rendered(form: Any, *row: Any) -> tuple[Any, ...]:
    return tuple(cells[value][0] for cells, value in zip(form.cells, row, strict=True))


def test_an_update_in_avro_is_the_one_of_the_documentation() -> None:
    """docs/formats/qlik-kafka.md §2.2: (7, NULL) becomes (7, 'quartz')."""
    form = AvroForm(Layout(STOCK), Settings(enveloped=False, frame=b"\x00\x00\x00\x00\x2a"))
    value = form.message(HEADS, rendered(form, 7, "quartz"), rendered(form, 7, None))
    assert value == bytes.fromhex("000000002A") + b"".join(
        [
            b"\x02\x0e", b"\x02\x0cquartz", b"\x02", b"\x02\x0e", b"\x00", b"\x02",
            b"\x46" + HEADS.sequence.encode(), b"\x2e" + HEADS.timestamp.encode(), b"\x2c" + HEADS.position.encode(),
            b"\x40" + HEADS.transaction.encode(), b"\x02\x02\x02", b"\x02\x02\x03", b"\x02\x02", b"\x02\x01",
        ]
    )  # fmt: skip
    assert len(value) == 5 + 141


def test_the_envelope_in_avro_is_the_one_of_the_documentation() -> None:
    identifier = "6A1F" + "0" * 28
    form = AvroForm(Layout(STOCK), Settings(schema_id=identifier))
    value = form.message(HEADS, rendered(form, 7, "quartz"), rendered(form, 7, None))
    head = b"atMSG\x04DT\x00\x02\x40" + identifier.encode() + b"\x00\x9a\x02"
    assert value[: len(head)] == head
    assert len(value) == len(head) + 141


def test_an_update_in_json_has_the_keys_that_were_seen() -> None:
    form = JsonForm(Layout(STOCK), Settings(schema_id="AB12"))
    value = form.message(HEADS, rendered(form, 7, 'qu"artz'), rendered(form, 7, None))
    assert value.decode() == (
        '{"magic":"atMSG","type":"DT","headers":null,"messageSchemaId":"AB12","messageSchema":null,"message":{'
        '"data":{"id":7,"name":"qu\\"artz"},"beforeData":{"id":7,"name":null},"headers":{"operation":"UPDATE",'
        '"changeSequence":"20260203040506780000000000000000042","timestamp":"2026-02-03T04:05:06.123",'
        '"streamPosition":"000001a4:00000b21:0003","transactionId":"0000000000000000000000000000004D",'
        '"changeMask":"02","columnMask":"03","transactionEventCounter":1,"transactionLastEvent":true}}}'
    )


def test_a_full_load_of_2018_has_empty_texts_and_an_external_id_that_is_null() -> None:
    form = JsonForm(Layout(STOCK), Settings(generation="2018", enveloped=False))
    value = form.message(Heads("REFRESH"), rendered(form, 7, "x"), None)
    assert json.loads(value) == {
        "data": {"id": 7, "name": "x"},
        "beforeData": None,
        "headers": {
            "operation": "REFRESH", "changeSequence": "", "timestamp": "", "streamPosition": "", "transactionId": "",
            "changeMask": None, "columnMask": None, "externalSchemaId": None,
        },
    }  # fmt: skip


@pytest.mark.parametrize(("columns", "size"), [(3, 1), (7, 1), (8, 2), (16, 3), (117, 15), (1024, 129)])
@pytest.mark.parametrize("order", ["big", "little"])
def test_a_mask_has_a_bit_for_every_column(columns: int, size: int, order: str) -> None:
    """§5.6: ⌊columns / 8⌋ + 1 bytes; §5.2: the last column's bit is the highest one."""
    version = TableVersion(
        STOCK.table, 1, tuple(Column("id" if not i else f"c{i}", Type.INTEGER) for i in range(columns))
    )
    layout = Layout(version)
    for form in (
        JsonForm(layout, Settings()),
        AvroForm(layout, Settings(schema_id="x", is_avro=True, mask_order=order)),
    ):
        for places in ({0}, {columns - 1}, set(range(columns)), set()):
            found = form.mask_texts[layout.mask(sorted(places))]
            assert found is not None
            assert len(found) == 2 * size
            assert bits(bytes.fromhex(found), order if isinstance(form, AvroForm) else "big") == places


def test_masks_are_those_of_the_documentation() -> None:
    """§5.1: 0B over ten columns is ordinals 1, 2, 4; §5.2: 008080 over sixteen is 8 and 16."""
    for columns, places, wanted in ((10, (0, 1, 3), "000B"), (16, (7, 15), "008080")):
        version = TableVersion(
            STOCK.table, 1, tuple(Column("id" if not i else f"c{i}", Type.INTEGER) for i in range(columns))
        )
        layout = Layout(version)
        assert JsonForm(layout, Settings()).mask_texts[layout.mask(places)] == wanted
        little = AvroForm(layout, Settings(schema_id="x", is_avro=True, mask_order="little"))
        assert little.mask_texts[layout.mask(places)] == bytes.fromhex(wanted)[::-1].hex().upper()


@pytest.mark.parametrize("form", ["json-envelope", "avro-envelope"])
def test_masks_say_bit_by_bit_what_the_images_say(tmp_path: Path, form: str) -> None:
    """Every bit of every change mask is set exactly where the images differ, but for large objects."""
    folder = generate(
        "qlik-kafka", changes=900, seed=3, to=tmp_path, form=form, container="kcat", column_mask=0.3,
        idle_updates=0.2, all_types_share=0.5, mask_order="little", lost_share=0.0, schema_changes=6,
    )  # fmt: skip
    versions = {row["table_version"]: row["columns"] for row in truth(folder, "table_versions")}
    seen: Counter[str] = Counter()
    for row in truth(folder, "changes"):
        columns = versions[row["table_version"]]
        if row["operation"] == "REFRESH":
            assert (row["change_mask"], row["column_mask"]) == (None, None)
            continue
        order = "big" if form == "json-envelope" else "little"
        changed, present = (bits(bytes.fromhex(row[name]), order) for name in ("change_mask", "column_mask"))
        before, after = ({} if row[name] is None else dict(row[name]) for name in ("before", "after"))
        for bit, column in enumerate(columns):
            name, is_lob = column["name"], column["type"] in ("BLOB", "CLOB")
            assert (bit in present) == (name in (after or before))
            if row["operation"] == "UPDATE":
                wanted = bit in present and before[name] != after[name] and not is_lob
                seen["lob"] += is_lob and bit in present and before[name] != after[name]
            else:
                wanted = column["key_position"] == 1 if row["operation"] == "DELETE" else not is_lob
            assert (bit in changed) == wanted
        assert max(changed | present) < len(columns)
        seen[f"{row['operation']} {'part' if len(present) < len(columns) else 'whole'}"] += 1
        seen["idle"] += row["operation"] == "UPDATE" and not changed
    assert set(seen) >= {"INSERT whole", "UPDATE whole", "UPDATE part", "DELETE whole", "DELETE part", "idle", "lob"}
    assert "INSERT part" not in seen
    assert min(seen.values()) > 0


COLUMNS: list[tuple[Column, Any, str, str, str]] = [
    # a column and a value; its type; its text in JSON; its text in Avro with logical types
    (Column("c", Type.SMALLINT), -5, "INT2 5", "-5", "-5"),
    (Column("c", Type.INTEGER), 2**31 - 1, "INT4 10", "2147483647", "2147483647"),
    (Column("c", Type.INT8), -(2**63) + 1, "INT8 19", "-9223372036854775807", "-9223372036854775807"),
    (Column("c", Type.FLOAT), -0.0, "REAL8 14", "-0.0", "-0.0"),
    (Column("c", Type.FLOAT), 1e300, "REAL8 14", "1e+300", "1e+300"),
    (Column("c", Type.SMALLFLOAT), 8.888889312744140625, "REAL4 7", "8.88888931274414", "8.888889"),
    (Column("c", Type.BOOLEAN), True, "BOOLEAN 1", "true", "true"),
    (Column("c", Type.CHAR, length=6), "ab  ", "STRING 6", "ab", "ab"),
    (Column("c", Type.VARCHAR, length=20), " ab  ", "STRING 20", " ab  ", " ab  "),
    (Column("c", Type.DECIMAL, precision=12, scale=2), Decimal("14.5"), "NUMERIC 0", "14.50", "14.50"),
    (
        Column("c", Type.DECIMAL, precision=32, scale=16), Decimal("-1E-16"),
        "NUMERIC 0", "-0.0000000000000001", "-0.0000000000000001",
    ),
    (Column("c", Type.DECIMAL), Decimal("1E+20"), "STRING 40", "100000000000000000000", "100000000000000000000"),
    (Column("c", Type.DATE), date(1, 2, 3), "DATE 0", "0001-02-03", "0001-02-03"),
    (
        Column("c", Type.DATETIME, start="year", end="day"), datetime(2024, 2, 29, 5),
        "DATE 0", "2024-02-29", "2024-02-29",
    ),
    (
        Column("c", Type.DATETIME, start="year", end="fraction", fraction=3),
        datetime(9999, 12, 31, 23, 59, 59, 123450),
        "DATETIME 0", "9999-12-31 23:59:59.123000", "9999-12-31T23:59:59.123000",
    ),
    (
        Column("c", Type.DATETIME, start="year", end="hour"), datetime(1, 1, 1, 7, 8, 9, 10),
        "DATETIME 0", "0001-01-01 07:00:00.000000", "0001-01-01T07:00:00.000000",
    ),
    (
        Column("c", Type.DATETIME, start="hour", end="second"), datetime(1999, 1, 1, 4, 5, 6, 70000),
        "TIME 0", "04:05:06", "04:05:06.000",
    ),
    (
        Column("c", Type.DATETIME, start="month", end="day"), datetime(1999, 3, 4), "STRING 40", "03-04", "03-04",
    ),
    (Column("c", Type.INTERVAL, start="day", end="second"), -100_000, "STRING 40", "-0 00:00:01", "-0 00:00:01"),
    (Column("c", Type.LOB), b"\x00\xff", "BLOB 32768", "00FF", "00ff"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "kind", "json_text", "avro_text"), COLUMNS)
def test_a_value_is_written_in_the_type_that_replicate_has_for_it(
    column: Column, value: Any, kind: str, json_text: str, avro_text: str
) -> None:
    one = described(column, 0, False)
    assert f"{one.type} {one.length}" == kind
    quote = "" if one.type.startswith(("INT", "REAL", "BOOL")) else '"'
    assert json_cells(one)[value] == (f'"c":{quote}{json_text}{quote}', json_text)
    assert json_cells(one)[None] == ('"c":null', None)
    wire, text = avro_cells(one, True)[value]
    assert text == avro_text
    layout = Layout(TableVersion(STOCK.table, 1, (Column("id", Type.INTEGER), column)))
    schema = json.loads(data_schema(layout, generation="2019", logical=True))
    field = schema["fields"][0]["type"]["fields"][1]["type"]
    stream = io.BytesIO(wire)
    read = fastavro.schemaless_reader(stream, fastavro.parse_schema(field), None)
    assert stream.tell() == len(wire)
    spell: dict[type, Any] = {float: repr, bytes: bytes.hex, bool: lambda v: str(v).lower(), Decimal: "{:f}".format}
    if column.type is Type.SMALLFLOAT:
        assert struct.pack("<f", read) == struct.pack("<f", float(avro_text))
    elif isinstance(read, datetime):
        assert read.replace(tzinfo=None).isoformat("T", "microseconds") == avro_text
    else:
        assert spell.get(type(read), str)(read) == avro_text.removesuffix(".000" if one.type == "TIME" else "\0")


def test_without_logical_types_everything_that_has_one_is_text() -> None:
    for column, value, _, json_text, _ in COLUMNS:
        one = described(column, 0, False)
        if one.type in ("DATE", "TIME", "DATETIME", "NUMERIC"):
            assert avro_cells(one, False)[value] == (b"\x02" + string(json_text), json_text)


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=100)
def test_longs_are_those_of_fastavro(number: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert long(number) == out.getvalue()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=100)
def test_a_float_of_single_precision_has_the_shortest_text_that_reads_back(value: float) -> None:
    text = float_text(value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    digits = text.lstrip("-").replace(".", "").split("e")[0].strip("0")
    assert len(digits) <= 9


def test_kcat_escapes_what_json_does_not_allow_and_nothing_else(tmp_path: Path) -> None:
    folder = generate("qlik-kafka", changes=60, seed=1, to=tmp_path, form="confluent", container="kcat")
    lines = b"".join(path.read_bytes() for path in (folder / "capture").iterdir())
    values = [message.value for message in messages(folder)]
    assert not {*range(32)} - {10} & set(lines)
    assert max(lines) > 127  # all other bytes stand as they are: this is no UTF-8
    assert all(value is not None and value[:3] == b"\x00\x00\x00" for value in values)


def test_blocks_of_an_avro_container_are_compressed(tmp_path: Path) -> None:
    """fastavro needs another library for zstandard, so the block is unpacked here."""
    plain, packed = (
        generate(
            "qlik-kafka", changes=40, seed=1, to=tmp_path / name, container="avro", compression=name, all_types=False
        )
        for name in ("none", "zstd")
    )
    for path in sorted((packed / "capture").iterdir()):
        data, other = path.read_bytes(), (plain / "capture" / path.name).read_bytes()
        assert b"zstandard" in data[:200]
        sync = data[-16:]
        at = data.index(b"\x28\xb5\x2f\xfd", data.index(sync) + 16)
        block = zstandard.ZstdDecompressor().decompressobj().decompress(data[at:-16])
        assert other[-16 - len(block) : -16] == block
