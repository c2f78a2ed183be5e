"""Generated change tables: what stands in the files, read by csv, json and pyarrow, is what the truth says."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb import model
from cdcwb_synth import generate
from cdcwb_synth.qlik.ct_tables import mask_bytes, spelled_mask
from tests.synth_qlik import bits, content, text, truth

WORKLOADS: dict[str, dict[str, Any]] = {
    "CSV with .dfm": {},
    "CSV with every sort of mask as 0x, small files, partitions": {
        "mask": "0x", "file_rows": 40, "partition_minutes": 1, "rate": 3, "compression": "gzip",
    },
    "CSV with another delimiter, an escape character and a word for NULL": {
        "delimiter": "|", "escape": "\\", "null_value": "NULL", "mask": "\\x", "header_line": False,
    },
    "CSV without .dfm, three header columns with another prefix, no before images": {
        "dfm": False, "headers": "change_seq,change_oper,timestamp", "header_prefix": "ct_", "before_images": False,
    },
    "CSV without positions and letters": {
        "headers": "operation,timestamp,change_mask", "before_images": False, "mask": "hex", "lobs": False,
    },
    "JSON, headers in another order, masks in base64, PostgreSQL's times": {
        "container": "json", "headers": "timestamp,operation,change_mask,change_seq,transaction_id", "mask": "base64",
        "unknown_times": 0.3, "compression": "zstd",
    },
    "Parquet with binary masks, repeated sequences": {
        "container": "parquet", "repeat_sequences": 0.4, "file_rows": 60, "compression": "zstd",
    },
    "Parquet with masks as text, without a .dfm": {"container": "parquet", "mask": "number", "dfm": False},
}  # fmt: skip
NAMES = {"B": "BEFOREIMAGE", "I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE"}
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The capture with some options, made once."""
    known: dict[str, Path] = {}

    def make(**options: Any) -> Path:
        name = json.dumps(options, sort_keys=True)
        if name not in known:
            to = tmp_path_factory.mktemp("made")
            more = {"schema_changes": 7, "truncates": 3} | options
            known[name] = generate("qlik-change-table", changes=500, seed=11, to=to, **more)
        return known[name]

    return make


class Stored:
    """One row of a file: place, header columns (without their prefix) and data columns, as text."""

    def __init__(self, file: str, offset: int, length: int, values: dict[str, Any], raw: dict[str, Any], prefix: str):
        self.file, self.offset, self.length = file, offset, length
        self.heads = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
        self.mask = raw.get(f"{prefix}change_mask")
        self.data = {n: v for n, v in values.items() if not n.startswith(prefix)}
        oper = self.heads.get("change_oper")
        self.operation = NAMES[oper] if oper else self.heads.get("operation")

    @property
    def folder(self) -> str:
        return self.file.rpartition("/")[0]


def stored(folder: Path, options: dict[str, Any]) -> list[Stored]:
    """The rows of all files but control tables, in file order."""
    rows: list[Stored] = []
    prefix = options.get("header_prefix", "header__")
    for path in sorted(p for p in (folder / "capture").rglob("*") if p.is_file()):
        name = str(path.relative_to(folder / "capture"))
        if path.suffix == ".dfm" or name.startswith("attrep"):
            continue
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            single = {f.name for f in table.schema if str(f.type) == "float"}
            for at, raw in enumerate(table.to_pylist()):
                values = {n: text(v, n in single) for n, v in raw.items()}
                rows.append(Stored(name, at, 1, values, raw, prefix))
        elif ".json" in path.name:
            at = 0
            for line in content(path).splitlines(keepends=True) if b"\r" not in content(path) else []:
                raw = json.loads(line, parse_float=str, parse_int=str)
                values = {n: text(v) for n, v in raw.items()}
                rows.append(Stored(name, at, len(line), values, raw, prefix))
                at += len(line)
        else:
            rows += list(delimited(path, name, options, prefix))
    return rows


def delimited(path: Path, name: str, options: dict[str, Any], prefix: str) -> list[Stored]:
    """The rows of a delimited file; Python's csv cannot tell NULL from an empty text, so fields are cut here and held
    against csv."""
    data = content(path).decode()
    delimiter, escape, null = options.get("delimiter", ","), options.get("escape", ""), options.get("null_value", "")
    records: list[tuple[int, int, list[str | None]]] = []
    at = start = 0
    fields: list[str | None] = []
    while at < len(data):
        if data[at] == '"':
            at, parts = at + 1, []
            while True:
                if escape and data[at] == escape:
                    parts.append(data[at + 1])
                    at += 2
                elif data[at] == '"' and not escape and data[at + 1] == '"':
                    parts.append('"')
                    at += 2
                elif data[at] == '"':
                    at += 1
                    break
                else:
                    parts.append(data[at])
                    at += 1
            fields.append("".join(parts))
        else:
            end = min(i for i in (data.find(delimiter, at), data.find("\n", at)) if i >= 0)
            fields.append(None if data[at:end] == null else data[at:end])
            at = end
        if data[at] == "\n":
            records.append((start, at + 1, fields))
            fields, start = [], at + 1
        else:
            assert data[at] == delimiter
        at += 1
    plain = csv.reader(
        io.StringIO(data, newline=""), delimiter=delimiter, doublequote=not escape, escapechar=escape or None
    )
    assert [[null if f is None else f for f in r] for _, _, r in records] == [*plain]
    if options.get("header_line", True):
        names = [field or "" for field in records.pop(0)[2]]
    else:
        path = path.with_name(path.name.split(".")[0] + ".dfm")
        names = [column["name"] for column in json.loads(path.read_text())["dataInfo"]["columns"]]
    places = [(len(data[:a].encode()), len(data[a:b].encode()), f) for a, b, f in records]
    raws = [(o, n, dict(zip(names, f, strict=True))) for o, n, f in places]
    return [Stored(name, offset, length, raw, raw, prefix) for offset, length, raw in raws]


def mask_bits(row: Stored, form: str) -> set[int]:
    """The bits of a row's mask, header columns included."""
    mask = row.mask
    if not mask:
        return set()
    if isinstance(mask, bytes):
        return bits(mask, "little")
    match form:
        case "number":
            return bits(mask)
        case "base64":
            return bits(base64.b64decode(mask), "little")
        case _:
            return bits(bytes.fromhex(mask.removeprefix("0x").removeprefix("\\x")), "little")


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_row_is_what_the_truth_says(made: Made, workload: str) -> None:
    options = WORKLOADS[workload]
    folder = made(**options)
    told = json.loads((folder / "synth.json").read_text())["options"]
    form = told["mask"] if told["mask"] != "auto" else "number"
    rows = {(row["file"], row["offset"]): row for row in truth(folder, "changes")}
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    befores: dict[tuple[str, str | None], list[Stored]] = {}
    found = stored(folder, options)
    found.sort(key=lambda row: (row.file, row.offset))
    counts: Counter[str] = Counter()
    for one in found:
        if one.operation == "BEFOREIMAGE":
            befores.setdefault((one.folder, one.heads["change_seq"]), []).append(one)
            assert not mask_bits(one, form)
            continue
        row = rows.pop((one.file, one.offset))
        version = versions[row["table_version"]]
        names = [column["name"] for column in version["columns"]]
        operation = one.operation or "REFRESH"
        other = None
        if operation == "UPDATE" and told["before_images"]:
            other = befores[one.folder, one.heads["change_seq"]].pop(0)
        counts[operation] += 1
        assert list(one.data) == names
        assert (row["operation"], row["kind"], row["length"]) == (operation, "change", one.length)
        assert row["record_type"] == (one.heads.get("change_oper") or one.heads.get("operation") or "LOAD")
        assert row["position"] == one.heads.get("change_seq")
        assert row["transaction_id"] == one.heads.get("transaction_id")
        assert row["outcome"] == (None if operation == "REFRESH" else "committed")
        check_times(row, one)
        image = list(one.data.items())
        assert row["after"] == (image if operation in ("INSERT", "UPDATE", "REFRESH") else None)
        before = image if operation == "DELETE" else list(other.data.items()) if other else None
        assert row["before"] == before
        keyed = [c["name"] for c in version["columns"] if c["key_position"]]
        assert row["key"] == ([(n, one.data[n]) for n in keyed] if keyed and operation != "TRUNCATE" else None)
        assert len(keyed) == told["dfm"]
        check_mask(row, one, other, names, form)
        heads = {f"{told['header_prefix']}{name}": value for name, value in one.heads.items() if name != "change_mask"}
        assert {n: v for n, v in row["headers"] or () if not n.endswith("change_mask")} == heads
        assert (row["headers"] is None) == (operation == "REFRESH")
        own = {"offset": one.offset, "length": one.length}
        places = [{k: e[k] for k in own} for e in row["source_events"]]
        assert places == [*([{"offset": other.offset, "length": other.length}] if other else []), own]
    assert not rows
    assert not any(befores.values())
    assert set(counts) == {"REFRESH", "INSERT", "UPDATE", "DELETE", "TRUNCATE"}


def check_times(row: dict[str, Any], one: Stored) -> None:
    sequence, moment = one.heads.get("change_seq"), one.heads.get("timestamp")
    digits = row["committed_at"] and f"{row['committed_at']:%Y%m%d%H%M%S}{row['committed_at'].microsecond // 10000:02d}"
    assert digits == (sequence and sequence[:16])
    known = None if moment is None else datetime.fromisoformat(moment).replace(tzinfo=UTC)
    assert row["changed_at"] == (None if known is not None and known.year == 1970 else known)
    name = one.heads.get("partition_name")
    if name:
        begin, end = (datetime.strptime(part, "%Y%m%dT%H%M%S").replace(tzinfo=UTC) for part in name.split("_"))
        assert begin <= row["committed_at"] < end
        assert end - begin == timedelta(minutes=1)
        assert one.folder.endswith(f"/{name}")


def check_mask(row: dict[str, Any], one: Stored, other: Stored | None, names: list[str], form: str) -> None:
    assert row["column_mask"] is row["present_columns"] is None
    differ = None if other is None else [name for name in names if one.data[name] != other.data[name]]
    if "change_mask" not in one.heads or one.operation == "TRUNCATE":
        assert row["change_mask"] == text(one.mask)
        assert (row["changed_columns"], row["change_source"]) == (differ, None if differ is None else "images")
        return
    header = len(one.heads)
    found = mask_bits(one, form)
    written = one.mask.hex().upper() if isinstance(one.mask, bytes) else one.mask
    assert row["change_mask"] == written
    assert min(found) >= header  # header columns are never set
    assert row["changed_columns"] == [names[bit - header] for bit in sorted(found)]
    assert row["change_source"] == "mask"
    if one.operation == "INSERT":
        assert found == set(range(header, header + len(names)))
    elif one.operation == "DELETE":
        assert row["changed_columns"] == [names[0]]
    elif differ is not None:
        assert row["changed_columns"] == differ
        assert differ  # an update that changes nothing is not written


@pytest.mark.parametrize("workload", WORKLOADS)
def test_transactions_are_those_of_the_changes(made: Made, workload: str) -> None:
    folder = made(**WORKLOADS[workload])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in truth(folder, "changes"):
        if row["transaction_id"] is not None:
            groups.setdefault(row["transaction_id"], []).append(row)
    told = {row["transaction_id"]: row for row in truth(folder, "transactions")}
    assert told.keys() == groups.keys()
    for name, rows in groups.items():
        one = told[name]
        assert dict(one["changes"]) == Counter(row["operation"] for row in rows)
        assert one["bytes"] == sum(event["length"] for row in rows for event in row["source_events"])
        assert one["begin_position"] == min(row["position"] for row in rows)
        assert one["end_position"] == max(row["position"] for row in rows)
        assert one["began_at"] == min((row["changed_at"] for row in rows if row["changed_at"]), default=None)
        assert one["ended_at"] == rows[0]["committed_at"]
        assert (one["completeness"], one["outcome"]) == ("unknown", "committed")
        assert one["tables"] == sorted({f"{row['schema_name']}.{row['table_name']}" for row in rows})


def test_a_dfm_describes_its_file(made: Made) -> None:
    folder = made(**WORKLOADS["CSV with every sort of mask as 0x, small files, partitions"])
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    rows = Counter(event["file_index"] for row in truth(folder, "changes") for event in row["source_events"])
    names = {row["file_index"]: row["file"] for row in truth(folder, "changes")}
    seen = set()
    for index, name in names.items():
        path = folder / "capture" / name
        one = json.loads(path.with_name(path.name.split(".")[0] + ".dfm").read_text())
        assert one["fileInfo"]["recordCount"] == rows[index] <= 40
        assert (one["fileInfo"]["name"], one["fileInfo"]["extension"]) == (path.name.removesuffix(".gz"), "gz")
        assert one["formatInfo"]["format"] == "delimited"
        data = one["dataInfo"]
        seen.add((data["sourceTable"], data["tableVersion"]))
        version = versions[f"{data['sourceSchema']}.{data['sourceTable']}@{data['tableVersion']}"]
        is_change = data["targetTable"].endswith("__ct")
        headers = [column for column in data["columns"] if column["name"].startswith("header__")]
        assert len(headers) == (8 if is_change else 0)
        assert [column["ordinal"] for column in data["columns"]] == [*range(1, len(data["columns"]) + 1)]
        for column, known in zip(data["columns"][len(headers) :], version["columns"], strict=True):
            assert (column["name"], column["type"]) == (known["name"], known["type"])
            assert (column["length"] or None, column["primaryKeyPos"] or None) == (
                known["length"],
                known["key_position"],
            )
    told = {row["table_version"]: row["origin"] for row in versions.values()}
    assert {name for name, origin in told.items() if origin == "side file"} == {f"shop.{t}@{n}" for t, n in seen}
    assert len(seen) > 6


def test_files_are_named_by_their_time_and_stand_in_natural_order(made: Made) -> None:
    folder = made(**WORKLOADS["Parquet with binary masks, repeated sequences"])
    rows = truth(folder, "changes")
    names = [str(p.relative_to(folder / "capture")) for p in (folder / "capture").rglob("*.parquet")]
    names += [str(p.relative_to(folder / "capture")) for p in (folder / "capture").rglob("*.csv")]
    order = {name: at for at, name in enumerate(sorted(names, key=lambda n: n.replace("__ct/", "~/")))}
    for row in rows:
        assert row["file_index"] == order[row["file"]]
    sequences = Counter((row["file"].rpartition("/")[0], row["position"]) for row in rows if row["position"])
    assert max(sequences.values()) > 1
    over = [row for row in rows if len({event["file_index"] for event in row["source_events"]}) > 1]
    assert over  # the halves of an update in two files


def test_the_ddl_history_tells_every_schema_change_by_old_names(made: Made) -> None:
    folder = made()
    (path,) = (folder / "capture" / "attrep_ddl_history").glob("*.csv")
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    kinds = Counter(row["DDL_TYPE"] for row in rows)
    assert (kinds["CREATE_TABLE"], kinds["ALTER_TABLE"]) == (6, 7)
    assert kinds["TRUNCATE_TABLE"] == sum(row["operation"] == "TRUNCATE" for row in truth(folder, "changes")) > 0
    assert [row["CHANGE_SEQ"] for row in rows] == sorted(row["CHANGE_SEQ"] for row in rows)
    versions = {row["table_version"]: row for row in truth(folder, "table_versions")}
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        details = json.loads(row["DETAILS"])
        table = dict(tables.get(row["TABLE_NAME"], {}))
        for name, facts in details["columns"].items():
            if facts["action"] != "ADD":
                del table[name]
        for name, facts in details["columns"].items():
            if facts["action"] != "DROP":
                table[facts["columnNewName"] or name] = facts
        tables[row["TABLE_NAME"]] = table
        version = versions.get(f"{row['TABLE_OWNER']}.{row['TABLE_NAME']}@{row['TABLE_VERSION']}")
        if version is not None and row["DDL_TYPE"] != "TRUNCATE_TABLE":
            kept = {c["name"]: (c["type"], c["length"] or 0) for c in version["columns"]}
            assert {n: (f["type"], f["length"]) for n, f in table.items()} == kept
            told = {n: f["ordinal"] for n, f in details["columns"].items() if f["action"] != "DROP"}
            ordinals = {c["name"]: c["ordinal"] for c in version["columns"]}
            assert all(ordinals[details["columns"][n]["columnNewName"] or n] == o for n, o in told.items())
    assert {f["action"] for row in rows for f in json.loads(row["DETAILS"])["columns"].values()} == {
        "ADD",
        "DROP",
        "ALTER",
    }
    assert any(f["columnNewName"] for row in rows for f in json.loads(row["DETAILS"])["columns"].values())


def test_a_version_without_rows_is_that_of_the_ddl_history(made: Made) -> None:
    told = [row for row in truth(made(), "table_versions") if row["origin"] == "DDL"]
    (path,) = (made() / "capture" / "attrep_ddl_history").glob("*.csv")
    data, used = path.read_bytes(), {row["table_version"] for row in truth(made(), "changes")}
    assert told
    for row in told:
        event = row["first_event"]
        line = data[event["offset"] : event["offset"] + event["length"]].decode()
        (fields,) = csv.reader(io.StringIO(line))
        assert f"{fields[2]}.{fields[3]}@{fields[6]}" == row["table_version"]
        assert fields[8] == row["schema_text"]
        assert row["table_version"] not in used
        assert {column["nullable"] for column in row["columns"]} == {True, False}


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("binary", b"\x20\x02"),
        ("number", "0220"),
        ("hex", "2002"),
        ("0x", "0x2002"),
        ("\\x", "\\x2002"),
        ("base64", "IAI="),
    ],
)
def test_masks_are_those_of_the_documentation(form: str, wanted: str | bytes) -> None:
    """docs/formats/qlik-change-table.md §4.2: five header columns, the first and fifth data column, bits 5 and 9."""
    assert spelled_mask(1 << 5 | 1 << 9, form)[0] == wanted


def test_zeros_at_the_end_of_a_mask_are_left_out() -> None:
    assert mask_bytes(0) == b""
    assert mask_bytes(1 << 7) == b"\x80"
    assert mask_bytes(1 << 8) == b"\x00\x01"
    assert len(mask_bytes(1 << 1023)) == 128


def test_the_truth_has_exactly_the_columns_of_the_model(made: Made) -> None:
    for name in ("changes", "transactions", "table_versions"):
        assert pq.read_schema(made() / "truth" / f"{name}.parquet").equals(model.TABLES[name])
