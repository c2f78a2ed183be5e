"""The fast reader and the readable dissection say the same of every row, clean or damaged; the ledger closes, and
splits change nothing."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb import model
from cdcwb.formats import get_format
from cdcwb.formats.containers.delimited import DEFAULT, Dialect
from cdcwb.formats.containers.rows import DelimitedRows, cut_json
from cdcwb.formats.containers.tables import read_parts
from cdcwb.formats.dissector import EVERYTHING, Field, Wanted
from cdcwb.formats.qlik_change_table.masks import MaskSettings
from cdcwb.formats.table_rows import Plan
from tests.local import allows, ledger, plan_of
from tests.reference.change_table_rows import Context, event, said_by
from tests.reference.delimited import cut

FORMAT = "qlik-change-table"
_MAPS = ("before", "after", "headers", "key")


def events(plan: Plan, wanted: Wanted = EVERYTHING) -> pa.Table:
    form = get_format(FORMAT)
    batches = [batch for split in range(len(plan.splits)) for batch in form.read(plan, split, wanted)]
    for batch in batches:
        batch.validate(full=True)
        assert all(map(counts_from_zero, batch.columns))
    return pa.Table.from_batches(batches, schema=model.EVENTS)


def counts_from_zero(array: pa.Array) -> bool:
    """Do the offsets of an array, and of those in it, begin at 0? Arrow 18 sends others with the wrong bytes."""
    kind = array.type
    if array.offset:
        return False
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = array.buffers()[1]
        if len(array) and int(np.frombuffer(offsets, np.int32, 1)[0]):
            return False
    if pa.types.is_map(kind):
        return counts_from_zero(array.keys) and counts_from_zero(array.items)
    return counts_from_zero(array.values) if pa.types.is_list(kind) else True


def leaves(field: Field) -> list[Field]:
    return [field] if not field.children else [leaf for child in field.children for leaf in leaves(child)]


def check_tree(field: Field, record: bytes) -> None:
    """Every byte of the record is in exactly one leaf."""
    at = 0
    for leaf in leaves(field):
        if leaf.length:
            assert leaf.offset == at, (leaf, record)
            at += leaf.length
        assert leaf.raw == record[leaf.offset : leaf.offset + leaf.length]
    assert at == len(record) or not field.children


def check(where: Path, **options: Any) -> list[dict[str, Any]]:
    """Compares every event of a capture with the reference and its bytes with the ledger; returns the events."""
    form: Any = get_format(FORMAT)
    plan: Plan = plan_of(where, FORMAT, **options)
    table = events(plan)
    closed = ledger(table)
    for entry in plan.files:
        if entry.probe.kind != "parquet":
            assert closed.get(entry.path, 0) == entry.size, entry.path
    rows = table.to_pylist()
    found = {(row["file_index"], row["offset"]): row for row in rows}
    compared = 0
    for index, entry in enumerate(plan.files):
        for split in (one for one in plan.splits if one.file == index):
            for part in read_parts(entry.probe, split.start, split.stop, entry.upper):
                for _, some in part.rows:
                    context = Context(
                        some.names,
                        entry.options["role"],
                        entry.options.get("prefix"),
                        entry.probe.charset,
                        entry.columns,
                        MaskSettings.of(entry.options),
                        entry.key,
                    )
                    for number in range(len(some.offset)):
                        row = found[index, int(some.offset[number])]
                        record = row["raw"]
                        if record is None:
                            names = range(len(some.names))
                            said = event([some.text(place)[number].as_py() for place in names], [], context)
                        else:
                            is_csv = isinstance(some, DelimitedRows)
                            cells = (
                                cut(record, entry.probe.dialect or DEFAULT, some.names, entry.probe.charset)
                                if is_csv
                                else cut_json(record)
                            )
                            assert not isinstance(cells, str), (cells, record)
                            said = said_by(cells, context)
                            one = some.take(np.array([number]))
                            check_tree(form.tree(entry, one, row), record)
                        for name, expected in said.items():
                            value = row[name]
                            if name in _MAPS and value is not None:
                                value = dict(value)
                            assert value == expected, (name, record, value, expected)
                        compared += 1
    gaps = [row for row in rows if row["kind"] in ("malformed", "filler")]
    assert compared + len(gaps) == len(rows)
    for row in gaps:
        assert row["problems"] or row["headers"], "every gap has a reason"
    return rows


def write(where: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return where


# --- captures of every kind -------------------------------------------------------------------------------------------

HEADERS = (
    "change_seq",
    "change_oper",
    "change_mask",
    "stream_position",
    "operation",
    "transaction_id",
    "timestamp",
    "partition_name",
)
NAMES = {"I": "INSERT", "U": "UPDATE", "B": "BEFOREIMAGE", "D": "DELETE", "T": "TRUNCATE"}


def some_rows(count: int, rng: random.Random, order: str = "big") -> list[dict[str, str | None]]:
    """Rows of a table of four columns with all header columns, a few of them odd."""
    rows: list[dict[str, str | None]] = []
    for number in range(count):
        letter = rng.choice("IIUUBDT")
        bits = {"I": 0xF, "U": rng.randrange(1, 16), "D": 1}.get(letter, 0) << len(HEADERS)
        mask: str | None = bits.to_bytes(2, "big" if order == "big" else "little").hex()
        if rng.random() < 0.1:
            mask = rng.choice([None, "", "0x" + (mask or ""), "zz", "ffffff", "0101", "f", "IAI="])
        sequence = f"20260203{rng.randrange(30):02d}050678{rng.randrange(99):02d}{number:019d}"
        rows.append(
            {
                "change_seq": rng.choice([sequence, sequence, sequence, None, sequence[:30], sequence + "0"]),
                "change_oper": rng.choice([letter, letter, letter, letter, None, "X"]),
                "change_mask": mask,
                "stream_position": rng.choice(["000dac8c:000fc98a:0002", None, "p" * 130]),
                "operation": rng.choice([NAMES[letter]] * 4 + [None, "MERGE", "INSERT"]),
                "transaction_id": rng.choice([f"{number // 3:032x}", None, "x" * 33]),
                "timestamp": rng.choice(
                    [
                        "2026-02-03 04:05:06.123456",
                        "2026-02-03 04:05:06.1234567",
                        "1970-01-01 00:00:00",
                        None,
                        "soon",
                        "2026-02-30 00:00:00",
                        "2026-02-03T04:05:06Z",
                        "2026-02-03T04:05:06+02:00",
                    ]
                ),
                "partition_name": rng.choice(
                    [
                        "20260203T000000_20260203T120000",
                        "20260203T120000_20260204T000000",
                        None,
                        "p1",
                        "20269903T000000_20260203T120000",
                    ]
                ),
                "ID": str(number),
                "NAME": rng.choice(["a", 'say "no"', "two\nlines", "a,b", "", None, "é€🔥", " "]),
                "QTY": rng.choice(["1", "2.50", None]),
                "NOTE": rng.choice([None, "x" * 50, "NULL"]),
            }
        )
    return rows


def as_csv(rows: list[dict[str, str | None]], dialect: Dialect = DEFAULT, header: bool = True) -> bytes:
    quote, escape = dialect.quote.decode(), dialect.escape.decode()
    end = "\r\n" if dialect.crlf else dialect.record.decode()

    def spell(value: str | None) -> str:
        if value is None:
            return dialect.null.decode()
        special = [quote, dialect.delimiter.decode(), "\n", "\r"]
        if not quote or (value and value != dialect.null.decode() and not any(mark in value for mark in special)):
            return value
        return quote + value.replace(quote, (escape or quote) + quote) + quote

    lines = [[f"header__{name}" if name in HEADERS else name for name in rows[0]]] if header else []
    texts = [[spell(value) for value in row.values()] for row in rows]
    delimiter = dialect.delimiter.decode()
    return "".join(delimiter.join(line) + end for line in [*lines, *texts]).encode()


def as_json(rows: list[dict[str, str | None]], lines: bool = True) -> bytes:
    named = [{f"header__{name}" if name in HEADERS else name: value for name, value in row.items()} for row in rows]
    for number, row in enumerate(named):
        row["QTY"] = None if row["QTY"] is None else float(row["QTY"])  # type: ignore[assignment]
        row["ID"] = number  # type: ignore[assignment]
        if number % 7 == 3:
            row["extra"] = {"b": [1, 2.50, None], "a": "é"}  # type: ignore[assignment]
    if lines:
        return "".join(
            json.dumps(row, ensure_ascii=number % 2 == 0) + "\n" for number, row in enumerate(named)
        ).encode()
    return json.dumps(named, indent=1).encode()


DIALECTS = {
    "default": Dialect(),
    "crlf": Dialect(crlf=True),
    "escape": Dialect(escape=b"\\"),
    "null": Dialect(null=b"NULL"),
    "semicolon": Dialect(delimiter=b";", record=b"\r\n"),
    "long": Dialect(delimiter=b"||", record=b"#\n", escape=b"\\", null=b"\\N"),
    "control": Dialect(delimiter=b"\x01", record=b"\x02\n"),
}


def side_file(dialect: Dialect, columns: list[str]) -> bytes:
    options = {
        "fieldDelimiter": dialect.delimiter.decode(),
        "recordDelimiter": dialect.record.decode(),
        "nullValue": dialect.null.decode(),
        "quoteChar": dialect.quote.decode(),
        "escapeChar": dialect.escape.decode(),
    }
    described = [
        {
            "ordinal": place,
            "name": name,
            "type": "STRING",
            "length": 50,
            "precision": 0,
            "scale": 0,
            "primaryKeyPos": int(name == "ID"),
        }
        for place, name in enumerate(columns, 1)
    ]
    return json.dumps(
        {
            "formatInfo": {"format": "delimited", "options": options},
            "dataInfo": {"targetSchema": "SHOP", "targetTable": "STOCK__ct", "tableVersion": 1, "columns": described},
        }
    ).encode()


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("header", [True, False])
def test_they_agree_in_every_dialect(tmp_path: Path, name: str, header: bool) -> None:
    rows = some_rows(300, random.Random(name))
    columns = [f"header__{one}" if one in HEADERS else one for one in rows[0]]
    dialect = DIALECTS[name]
    content = as_csv(rows, dialect, header)
    write(tmp_path, {"SHOP.STOCK__ct/1.csv": content, "SHOP.STOCK__ct/1.dfm": side_file(dialect, columns)})
    found = check(tmp_path)
    images = [dict(row["before"] or row["after"] or ()) for row in found if row["kind"] != "filler"]
    data = [{key: row[key] for key in ("ID", "NAME", "QTY", "NOTE")} for row in rows]
    assert [image for image in images if image] == [one for one, image in zip(data, images, strict=True) if image]
    assert sum(row["kind"] == "filler" for row in found) == header


@pytest.mark.parametrize("order", ["big", "little"])
def test_they_agree_without_a_side_file(tmp_path: Path, order: str) -> None:
    write(tmp_path, {"SHOP.STOCK__ct/1.csv": as_csv(some_rows(400, random.Random(5), order))})
    check(tmp_path)
    detected = {row["setting"]: row["value"] for row in plan_of(tmp_path, FORMAT).detected}
    assert detected["mask_order"] == order
    assert detected["mask_offset"] == "8"


def test_they_agree_on_json_and_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = some_rows(300, random.Random(6))
    typed = pa.Table.from_pylist(
        [
            {f"header__{name}" if name in HEADERS else name: value for name, value in row.items()}
            | {"header__change_mask": bytes.fromhex("000f") if row["change_oper"] == "I" else None, "ID": number}
            for number, row in enumerate(rows)
        ]
    )
    write(tmp_path, {"a__ct/1.json": as_json(rows), "b__ct/1.json": as_json(rows, lines=False), "c__ct/x": b""})
    pq.write_table(typed, tmp_path / "c__ct" / "1.parquet", row_group_size=70)
    (tmp_path / "c__ct" / "x").unlink()
    found = check(tmp_path)
    assert sum(row["record_type"] is not None or row["kind"] == "change" for row in found) == 900


def test_they_agree_with_wrong_settings_and_other_character_sets(tmp_path: Path) -> None:
    rows = some_rows(200, random.Random(7))
    write(tmp_path, {"SHOP.STOCK__ct/1.csv": as_csv(rows)})
    for options in (
        {"charset": "ascii"},
        {"charset": "gb18030"},
        {"mask_order": "little", "mask_offset": 3},
        {"mask_text": "base64"},
        {"mask_text": "hex", "mask_offset": 40},
        {"prefix": "other_"},
        {"keys": "SHOP.STOCK:NAME+ID"},
        {"keys": "STOCK:ID", "suffix": "__changes"},
    ):
        check(tmp_path, **options)


def test_they_agree_on_compressed_files_and_nothing_changes(tmp_path: Path) -> None:
    content = as_csv(some_rows(200, random.Random(8)))
    write(tmp_path / "plain", {"SHOP.STOCK__ct/1.csv": content})
    write(tmp_path / "packed", {"SHOP.STOCK__ct/1.csv.gz": gzip.compress(content)})
    one, other = check(tmp_path / "plain"), check(tmp_path / "packed")
    for row in one + other:
        row.pop("file")
    assert one == other


@pytest.mark.parametrize("split_size", [64, 333, 5_000])
def test_splits_change_nothing(tmp_path: Path, split_size: int) -> None:
    content = as_csv(some_rows(100, random.Random(9)))
    damaged = content[:5000] + b'1,"open\n' + content[5000:9000] + b'x"y,"",5" disk\n' + content[9000:]
    write(
        tmp_path, {"SHOP.STOCK__ct/1.csv": damaged, "SHOP.STOCK__ct/2.json": as_json(some_rows(50, random.Random(1)))}
    )
    whole = events(plan_of(tmp_path, FORMAT))
    plan = plan_of(tmp_path, FORMAT, split_size=split_size)
    assert len(plan.splits) > 3
    assert events(plan).equals(whole)


def test_headers_only_are_the_same_events_without_images(tmp_path: Path) -> None:
    write(tmp_path, {"SHOP.STOCK__ct/1.csv": as_csv(some_rows(300, random.Random(10)))})
    plan = plan_of(tmp_path, FORMAT)
    whole, bare = events(plan), events(plan, Wanted(images=False))
    same = [name for name in whole.column_names if name not in ("before", "after", "raw", "problems")]
    assert bare.select(same).equals(whole.select(same))
    for name in ("before", "after", "raw"):
        assert bare.column(name).null_count == bare.num_rows


@given(
    kinds=st.none() | st.frozensets(st.sampled_from(["change", "before", "after", "filler"])),
    tables=st.none() | st.sampled_from([frozenset({"STOCK"}), frozenset({"SHOP.STOCK"}), frozenset({"OTHER"})]),
    timed=st.booleans(),
    drop=st.booleans(),
    one=st.booleans(),
)
@settings(max_examples=40)
def test_filters_let_through_what_they_say(
    tmp_path_factory: pytest.TempPathFactory, kinds: Any, tables: Any, timed: bool, drop: bool, one: bool
) -> None:
    where = tmp_path_factory.mktemp("filters")
    content = as_csv(some_rows(60, random.Random(11))) + b"broken\n"
    plan = plan_of(write(where, {"SHOP.STOCK__ct/1.csv": content}), FORMAT)
    transactions = frozenset({f"{3:032x}"}) if one else None
    wanted = Wanted(kinds=kinds, tables=tables, timed=timed, drop_malformed=drop, transactions=transactions)
    whole = events(plan).to_pylist()
    assert events(plan, wanted).to_pylist() == [row for row in whole if allows(wanted, row)]


# --- damage -----------------------------------------------------------------------------------------------------------

PIECES = (b'"', b",", b"\n", b"\r", b"\\", b"\0", b"\xff", b'""', b"{", b"}", b"[", b"\xef\xbb\xbf", b"0x", b"A" * 40)


def mutate(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at:at] = rng.choice(PIECES)
            case 1:
                del data[at : at + rng.randrange(1, 60)]
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                data[at:at] = data[at : at + rng.randrange(200)]
            case _:
                del data[rng.randrange(max(1, len(data) // 2), len(data) + 1) :]
    return bytes(data)


def _mutants(seed: int, count: int, folder: Path) -> None:
    rng = random.Random(seed)
    for number in range(count):
        name = rng.choice(list(DIALECTS))
        dialect = DIALECTS[name]
        rows = some_rows(rng.randrange(1, 25), rng)
        columns = [f"header__{one}" if one in HEADERS else one for one in rows[0]]
        side = side_file(dialect, columns)
        files = {"SHOP.STOCK__ct/1.csv": as_csv(rows, dialect, rng.random() < 0.7), "SHOP.STOCK__ct/1.dfm": side}
        if rng.random() < 0.3:
            files = {"SHOP.STOCK__ct/1.json": as_json(rows, rng.random() < 0.6)}
        damaged = {
            path: mutate(content, rng) if path[-1] != "m" or rng.random() < 0.1 else content
            for path, content in files.items()
        }
        where = write(folder / f"{seed}-{number}", damaged)
        options = {"split_size": rng.choice([64, 300, 1 << 20])}
        try:
            found = check(where, **options)
            whole = check(where)
            assert found == whole
        except Exception as reason:
            raise AssertionError(f"mutant {number} of seed {seed} with {options}, in {where}") from reason


def test_they_agree_on_damaged_captures_and_nothing_is_lost(tmp_path: Path) -> None:
    _mutants(1, 50, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 110))
def test_thousands_of_damaged_captures(tmp_path: Path, seed: int) -> None:
    _mutants(seed, 500, tmp_path)
