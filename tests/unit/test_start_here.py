"""The digits in the lessons of the notebook ``start_here`` are those of the captures in ``data/``."""

from __future__ import annotations

import base64
import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import Any, Final

import pytest

from cdcwb.local_tables import LocalTables
from cdcwb.opening import open_small
from tests.made import DATA, IN_DATA
from tests.walkthrough import CODE, RECORDS, SECTIONS

Row = dict[str, Any]
Claims = list[tuple[str, tuple[object, ...]]]
"""Patterns of a lesson, and the values of their groups."""

LESSONS: Final = {
    "gbase8s": "GBase 8s",
    "qlik-kafka": "Qlik Replicate on Kafka",
    "qlik-change-table": "Qlik change tables",
    "goldengate": "Oracle GoldenGate trails",
    "goldengate-export": "Oracle GoldenGate exports",
    "idm-event-log": "Identity Manager event log",
    "debezium": "Debezium",
    "sqlserver-ct": "SQL Server change tables",
    "maxwell": "Maxwell",
    "canal": "Canal",
}
_BYTES: Final = re.compile(r"[0-9a-f]{2}( [0-9a-f]{2})*")


@cache
def capture(name: str) -> LocalTables:
    small = open_small(DATA / name)
    assert small is not None
    return small


@cache
def rows(name: str, table: str = "changes") -> list[Row]:
    """The rows of a table in the order of positions, maps as dictionaries."""
    found = capture(name).table(table).to_pylist()
    for row in found:
        row |= {column: dict(row[column] or ()) for column in ("key", "before", "after") if column in row}
    return sorted(found, key=lambda row: (row.get("position") or "", row["file_index"], row["offset"]))


def updates(name: str, table: str | None = None) -> list[Row]:
    return [row for row in rows(name) if row["operation"] == "UPDATE" and table in (None, row["table_name"])]


def record(name: str) -> Row:
    """The record of a lesson."""
    ((file, offset),) = [(file, offset) for file, offset in RECORDS if file.startswith(f"{name}/")]
    return next(r for r in rows(name, "events") if r["file"].endswith(file) and r["offset"] == offset)


def before(event: Row) -> bytes:
    """The bytes of the record before a record."""
    return next(r["raw"] for r in rows(event["format"], "events") if _ends_at(r, event))


def _ends_at(row: Row, event: Row) -> bool:
    return row["file"] == event["file"] and row["offset"] + row["length"] == event["offset"]


def integer(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def bits(digits: str) -> str:
    """Hex digits as bits, in groups of four."""
    return " ".join(f"{int(digit, 16):04b}" for digit in digits.removeprefix("0x"))


def set_bits(digits: str) -> list[int]:
    number = int(digits, 16)
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def joined(values: list[Any]) -> str:
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


def quoted(names: list[str]) -> str:
    return joined([f"`{name}`" for name in names])


def day(days: int, epoch: date = date(1970, 1, 1)) -> str:
    found = epoch + timedelta(days)
    return f"{found.day} {found:%B %Y}"


def gbase8s() -> Claims:
    event = record("gbase8s")
    raw, old = event["raw"], before(event)
    start, full = integer(raw[:4]), updates("gbase8s")
    assert event["record_type"] == "CDC_REC_UPDAFT"
    assert raw[start : start + 8] == old[start : start + 8]
    assert raw[start + 10 :] == old[start + 10 :]  # all but the rating
    assert event["after"]["customer_id"] == "1"
    return [
        (r"row after an update, (\d+) bytes", (len(raw),)),
        (r"`([^`]+)` is the size of the header: 2 × 16 \+ 12 = (\d+) bytes", (raw[:4].hex(" "), start)),
        (r"`([^`]+)` is the size of the row: (\d+) bytes", (raw[4:8].hex(" "), len(raw) - start)),
        (r"2\. `([^`]+)` is (\d+): `CDC_REC_UPDAFT`", (raw[12:16].hex(" "), integer(raw[12:16]))),
        (r"has `([^`]+)`, (\d+): `CDC_REC_UPDBEF`", (old[12:16].hex(" "), integer(old[12:16]))),
        (r"3\. `([^`]+)` is (\d+), the number of the table", (raw[28:32].hex(" "), integer(raw[28:32]))),
        (r"`([^`]+)` is the transaction (\d+)", (raw[24:28].hex(" "), integer(raw[24:28]))),
        (r"The row begins at byte (\d+)", (start,)),
        (r"come first: `([^`]+)` is `customer_id` 1", (raw[start : start + 4].hex(" "),)),
        (
            r"`([^`]+)` is ([\d,]+) days after 31 December 1899: (.+?)\.",
            (
                raw[start + 4 : start + 8].hex(" "),
                f"{integer(raw[start + 4 : start + 8]):,}",
                day(integer(raw[start + 4 : start + 8]), date(1899, 12, 31)),
            ),
        ),
        (r"has `([^`]+)` there, which is NULL", (old[start + 8 : start + 10].hex(" "),)),
        (
            r"This one has `([^`]+)`: 2 × 256 \+ 107 = (\d+)",
            (raw[start + 8 : start + 10].hex(" "), event["after"]["rating"]),
        ),
        (r"from NULL to (\d+)", (event["after"]["rating"],)),
        (
            r"`[^`]+\.count\(\)` is (\d+), of (\d+) updates",
            (sum(not row["changed_columns"] for row in full), len(full)),
        ),
    ]


def qlik_kafka() -> Claims:
    event = record("qlik-kafka")
    mask, old, new = event["change_mask"], event["before"], event["after"]
    assert [bit + 1 for bit in set_bits(mask)] == [2, 4]
    assert event["changed_columns"] == ["full_name", "rating"]
    assert {name for name in new if new[name] != old[name]} == {"full_name", "rating"}
    assert new["is_member"] is None
    (later,) = [row for row in updates("qlik-kafka") if row["change_mask"] == "0084"]
    assert set_bits("0084") == [2, 7]
    return [
        (r"`changeMask` is `(\w+)`\. As bits: `([01 ]+)`", (mask, bits(mask))),
        (r"schema version `(\w+)`", (event["table_version"],)),
        (
            r"images: `([^`]+)` became `([^`]+)`, (\d+) became (\d+)",
            (old["full_name"], new["full_name"], old["rating"], new["rating"]),
        ),
        (r"`columnMask` is `(\w+)`, as bits `([01 ]+)`", (event["column_mask"], bits(event["column_mask"]))),
        (
            r"`0084` is `([01 ]+)`: bits 2 and 7, so columns 3 and 8: (.+?)\.",
            (bits("0084"), quoted(later["changed_columns"])),
        ),
    ]


def change_table() -> Claims:
    event = record("qlik-change-table")
    mask = event["change_mask"]
    headers = next(r["value"] for r in rows_of_detected("qlik-change-table") if r["setting"] == "mask_offset")
    found = set_bits(mask)
    data = [bit - int(headers) for bit in found]
    assert event["changed_columns"] == ["is_member", "discount", "city"]
    lines = [",".join(raw.decode().strip().split(",")[-3:]) for raw in (before(event), event["raw"])]
    third = updates("qlik-change-table", "customer")[2]
    assert (third["change_mask"], [bit - 7 for bit in set_bits("1A00")]) == ("1A00", [2, 4, 5])
    return [
        (r"`change_mask` is `(\w+)`\. As bits: `([01 ]+)`", (mask, bits(mask))),
        (r"from the right, bits (.+?) are set", (joined(found),)),
        (r"There are (\d+) header columns", (headers,)),
        (r"Subtract them: (.+?) remain", (joined(data),)),
        (
            r"columns (.+?) of `customer`: (.+?)\.",
            (joined([bit + 1 for bit in data]), quoted(event["changed_columns"])),
        ),
        (r"line before: `(.+?)` became `(.+?)`", tuple(lines)),
        (r"`1A00` is `([01 ]+)`: bits 9, 11 and 12", (bits("1A00"),)),
        (r"so columns 3, 5 and 6: (.+?)\.", (quoted(third["changed_columns"]),)),
    ]


def rows_of_detected(name: str) -> list[Row]:
    found: list[Row] = capture(name).table("detected").to_pylist()
    return found


def printed_data(text: str) -> bytes:
    """The data of a record as Logdump prints them below its images."""
    lines = text[text.index("After  Image:") : text.index("Column 0")].splitlines()[1:]
    return bytes.fromhex("".join(line.split("|")[0] for line in lines))


def goldengate() -> Claims:
    event = record("goldengate")
    data = printed_data(event["raw"].decode())
    assert event["after"] == {"customer_id": "3", "full_name": data[18:].decode()}
    other = next(r for r in rows("goldengate", "events") if r["offset"] == 5328 and r["file"].endswith("42.txt"))
    null = printed_data(other["raw"].decode())
    assert list(other["after"].items())[1] == ("city", None)
    return [
        (r"data are (\d+) bytes, after the line \*After Image\*: `([^`]+)`", (len(data), data.hex(" "))),
        (r"1\. `([^`]+)` is column 0", (data[:2].hex(" "),)),
        (r"`([^`]+)` is 6: six bytes follow", (data[2:4].hex(" "),)),
        (
            r"`([^`]+)` is the null indicator: not NULL. `([^`]+)` is the value 3",
            (data[4:6].hex(" "), data[6:10].hex(" ")),
        ),
        (r"`([^`]+)` is column 1: `full_name`", (data[10:12].hex(" "),)),
        (r"`([^`]+)` is (\d+): so many bytes follow", (data[12:14].hex(" "), int.from_bytes(data[12:14], "little"))),
        (
            r"4\. `([^`]+)`: not NULL. `([^`]+)` is the length of the text, (\d+)",
            (data[14:16].hex(" "), data[16:18].hex(" "), len(data) - 18),
        ),
        (r"the text itself: `([^`]+)` is `([^`]+)`", (data[18:].hex(" "), event["after"]["full_name"])),
        (r"The data are `([^`]+)`", (null.hex(" "),)),
        (r"`([^`]+)` is column 6, `city`; `([^`]+)` is its length, 2", (null[10:12].hex(" "), null[12:14].hex(" "))),
        (r"`([^`]+)` is the null indicator for NULL", (null[14:16].hex(" "),)),
    ]


def goldengate_export() -> Claims:
    event = record("goldengate-export")
    message, old, new = json.loads(event["raw"]), event["before"], event["after"]
    assert (message["after"]["since"], message["after"]["since_isMissing"]) == (None, True)
    assert [name for name in new if new[name] != old[name]] == ["full_name", "rating"]
    first = updates("goldengate-export")[0]
    assert "city" not in first["before"] | first["after"]
    return [
        (r"`op_type` is `(\w)`: an update", (message["op_type"],)),
        (r"the key: `customer_id`, which is (\d+)", (new["customer_id"],)),
        (
            r"images: `([^`]+)` became `([^`]+)`, (\d+) became (\d+)",
            (old["full_name"], new["full_name"], old["rating"], new["rating"]),
        ),
        (r"the token `6` the transaction, `L` the commit sequence number: (\d+)", (message["tokens"]["L"],)),
    ]


def event_log() -> Claims:
    event = record("idm-event-log")
    (line,) = csv.reader([event["raw"].decode()])
    number, key, status, kind, _, _, table, column, old, new = line
    types = Counter(r["record_type"] for r in rows("idm-event-log", "events") if r["kind"] == "change")
    queried = [types[kind] for kind in "5678"]
    return [
        (r"how many changes are (\d+) rows", (sum(types.values()),)),
        (r"`event_type` is `(\d)`", (kind,)),
        (r"`table_key` is `([^`]+)`: the row of `(\w+)`", (key, table)),
        (r"`column_name` is `(\w+)`: no mask is needed. `(\d+)` became `(\d+)`", (column, old, new)),
        (r"`status` is `(\w)`", (status,)),
        (r"`record_id` (\d+) is its place", (number,)),
        (r"`capture.changes.count\(\)` is (\d+)", (len(rows("idm-event-log")),)),
        (r"types 5 to 8: (\d+) \+ (\d+) \+ (\d+) \+ (\d+) = (\d+)", (*queried, sum(queried))),
    ]


def debezium() -> Claims:
    event = record("debezium")
    message = json.loads(event["raw"])
    payload = message["payload"]
    image = next(field for field in message["schema"]["fields"] if field["field"] == "after")["fields"]
    (discount,) = [field for field in image if field["field"] == "discount"]
    old, new = payload["before"], payload["after"]
    raw, scale = base64.b64decode(new["discount"]), discount["parameters"]["scale"]
    assert [name for name in new if new[name] != old[name]] == ["since", "city"]
    assert discount["name"] == "org.apache.kafka.connect.data.Decimal"
    assert {field["name"] for field in image if field["field"] == "since"} == {"io.debezium.time.Date"}
    value, unscaled = event["after"]["discount"], integer(raw)
    return [
        (r"what are `(\d+)` and `\"([^`]+)\"`", (new["since"], new["discount"])),
        (r"`op` is `(\w)`", (payload["op"],)),
        (r"does, too: (\d+) became (\d+)", (old["since"], new["since"])),
        (r"1 January 1970, so (.+?) became (.+?)\.", (day(old["since"]), day(new["since"]))),
        (r"`discount` is `([^`]+)` in both", (new["discount"],)),
        (r"has its scale, (\d)", (scale,)),
        (
            r"is the bytes `([^`]+)`: 1 × 256 \+ 53 = (\d+), so the value is ([\d.]+\d)",
            (raw.hex(" "), unscaled, value),
        ),
        (r"number of the change in its transaction: (\d+)", (payload["transaction"]["total_order"],)),
        (r"(\d+)\. With the scale (\d) it is ([\d.]+\d)\. ", (unscaled, scale, value)),
        (r"could be the price (\d+) or ([\d.]+\d)", (unscaled, value)),
    ]


def sqlserver() -> Claims:
    event = record("sqlserver-ct")
    mask = event["change_mask"]
    old, new = (next(csv.reader([raw.decode()])) for raw in (before(event), event["raw"]))
    assert event["changed_columns"] == ["since", "city"]
    assert {
        row["change_mask"]
        for row in rows("sqlserver-ct")
        if row["table_name"] == "customer" and row["operation"] == "INSERT"
    } == {"0x7F"}
    return [
        (r"which columns does `(\w+)` name", (mask,)),
        (r"is `(0x\w+)`\. As bits: `([01 ]+)`", (mask, bits(mask))),
        (r"Bits (.+?) are set", (joined(set_bits(mask)),)),
        (
            r"Add 1: columns (.+?): (.+?)\.",
            (joined([bit + 1 for bit in set_bits(mask)]), quoted(event["changed_columns"])),
        ),
        (r"line before: `(.+?)` became `(.+?)`", (f"{old[7]} … {old[11]}", f"{new[7]} … {new[11]}")),
        (r"`7F` is `([01 ]+)`", (bits("7F"),)),
    ]


def maxwell() -> Claims:
    message = json.loads(record("maxwell")["raw"])
    old, new = message["old"], message["data"]
    first = updates("maxwell")[0]
    assert first["changed_columns"] == ["since"]
    assert first["after"]["since"] is None
    assert list(old) == ["rating", "discount", "city"]
    return [
        (r"`type` is `(\w+)`", (message["type"],)),
        (r"values before: `(.+?)`\.", (json.dumps(old, ensure_ascii=False, separators=(",", ":")),)),
        (r"changed\*\*: (\d+) became (\d+)", (old["rating"], new["rating"])),
        (
            r", ([\d.]+) became ([\d.]+), `(\w+)` became `(\w+)`",
            (old["discount"], new["discount"], old["city"], new["city"]),
        ),
        (r"`xid` (\d+) is the transaction, `xoffset` (\d+)", (message["xid"], message["xoffset"])),
        (r"the byte in it: `([^`]+)`", (message["position"],)),
        (r"`\"old\":\{\"since\":\"([\d-]+)\"\}`", (first["before"]["since"],)),
        (r"set to NULL: (.+?) before", (day((date.fromisoformat(first["before"]["since"]) - date(1970, 1, 1)).days),)),
    ]


def canal() -> Claims:
    message = json.loads(record("canal")["raw"])
    (old,), (new,) = message["old"], message["data"]
    first, second = updates("canal")[12:14]
    assert first["position"] == second["position"]
    assert list(old) == ["full_name"]
    return [
        (r"`type` is `(\w+)`", (message["type"],)),
        (r"`old` has one item: `(.+?)`\.", (json.dumps(message["old"], ensure_ascii=False, separators=(",", ":")),)),
        (r"from `(.+?)` to `(.+?)`", (old["full_name"], new["full_name"])),
        (
            r"the text `\"(\d+)\"`; that it is a number is in `mysqlType`: `(\w+)`",
            (new["rating"], message["mysqlType"]["rating"]),
        ),
        (r"`id` (\d+) numbers", (message["id"],)),
        (r"the same position, `(\d+)`", (second["position"],)),
        (r"message with `id` (\d+) has two items", (int(second["position"]),)),
        (
            r"([\d,]+) \+ (\d+) = ([\d,]+)\.",
            (f"{first['offset']:,}", first["length"], f"{second['offset']:,}"),
        ),
    ]


CLAIMS: Final[dict[str, Callable[[], Claims]]] = {
    "gbase8s": gbase8s,
    "qlik-kafka": qlik_kafka,
    "qlik-change-table": change_table,
    "goldengate": goldengate,
    "goldengate-export": goldengate_export,
    "idm-event-log": event_log,
    "debezium": debezium,
    "sqlserver-ct": sqlserver,
    "maxwell": maxwell,
    "canal": canal,
}


def test_every_format_has_a_lesson_with_the_same_parts() -> None:
    assert set(LESSONS) == set(CLAIMS) == set(IN_DATA)
    names = list(SECTIONS)
    assert names[names.index("GBase 8s") :] == [*LESSONS.values(), "All formats side by side"]
    for name, title in LESSONS.items():
        parts = re.findall(r"^### (.+)|^(\*\*Question|\*\*Try it|<details>)", SECTIONS[title], re.MULTILINE)
        assert [one or other for one, other in parts] == [
            *("**Question", "The record", "Decode it by hand", "Hands-on", "**Try it", "<details>")
        ]
        assert f'cdcwb.load(f"{{data}}/{name}")' in CODE[title]


@pytest.mark.parametrize("name", LESSONS)
def test_what_a_lesson_states_is_in_its_capture(name: str) -> None:
    text = SECTIONS[LESSONS[name]]
    for pattern, values in CLAIMS[name]():
        found = re.search(pattern, text)
        assert found, pattern
        assert found.groups() == tuple(map(str, values)), pattern


@pytest.mark.parametrize("name", LESSONS)
def test_the_offset_in_the_text_is_that_of_the_record(name: str) -> None:
    text, event = SECTIONS[LESSONS[name]], record(name)
    assert re.search(r"(?:at )byte ([\d,]+)", text)[1] == f"{event['offset']:,}"  # type: ignore[index]


@pytest.mark.parametrize("name", LESSONS)
def test_no_bytes_are_in_the_text_that_no_claim_has(name: str) -> None:
    spans = {span for span in re.findall(r"`([^`]+)`", SECTIONS[LESSONS[name]]) if _BYTES.fullmatch(span)}
    claimed = {str(value) for _, values in CLAIMS[name]() for value in values}
    assert spans - claimed <= {"0084"}


def test_the_examples_before_the_lessons_are_true() -> None:
    text = SECTIONS["How to read a change mask"]
    digits = dict(re.findall(r"`([0-9A-F])` \| `([01]{4})`", text))
    assert digits == {f"{number:X}": f"{number:04b}" for number in range(16)}
    for mask, shown, columns in (("0B", "0000 1011", [1, 2, 4]), ("0A", "0000 1010", [2, 4])):
        assert (bits(mask), [bit + 1 for bit in set_bits(mask)]) == (shown, columns)
        assert f"`{mask}` is `{shown}`" in text
    history = [
        row for row in rows("qlik-kafka") if (row["table_name"], row["key"]) == ("customer", {"customer_id": "18"})
    ]
    assert [row["operation"] for row in history] == ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE"]
    answer = re.search(r"`(\d+)` before, `(\d+)` after: the second update", SECTIONS["Change data capture"])
    assert answer
    assert answer.groups() == (history[2]["before"]["rating"], history[2]["after"]["rating"])
    assert history[2]["changed_columns"] == ["rating"]
