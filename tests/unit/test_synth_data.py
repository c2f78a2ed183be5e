"""The captures in data/ are small, made by the script that is said to make them, and are what their README says."""

from __future__ import annotations

import csv
import json
import re
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.xds import Settings, Snapshot
from tests.reference.xds_rows import publish
from tests.xds_rows import rows_of_log

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
README = (DATA / "README.md").read_text(encoding="utf-8")
LARGEST = 400_000  # bytes of a capture


def content(folder: Path) -> dict[str, bytes]:
    made = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "README.md")
    return {str(p.relative_to(folder)): p.read_bytes() for p in made}


def test_the_script_makes_the_captures_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "make_data.py", "--to", tmp_path], check=True, cwd=ROOT)
    assert content(tmp_path) == content(DATA)


@pytest.mark.parametrize(
    "capture",
    [
        *("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log"),
        *("debezium", "sqlserver-ct", "maxwell", "canal"),
    ],
)
def test_the_captures_are_small(capture: str) -> None:
    assert 0 < sum(map(len, content(DATA / capture).values())) < LARGEST
    assert f"## {capture}/\n" in README
    assert f"cdcwb summary data/{capture}" in README


def test_the_readme_says_what_is_in_the_record_stream() -> None:
    readme = README.split("\n## ")[1]
    data = b"".join((DATA / "gbase8s" / f"stream-{number}.bin").read_bytes() for number in (1, 2, 3))
    counts: Counter[int] = Counter()
    noise = at = 0
    while at < len(data):
        header, payload, scheme, number = struct.unpack_from(">4I", data, at)
        if scheme != 66:
            at, noise = at + 1, noise + 1
            continue
        counts[number] += 1
        at += header + payload
    assert at == len(data)
    assert f"{counts.total():,} records" in readme
    assert f"{round(len(data) / 1000)} kB" in readme
    changes = counts[40] + counts[41] + counts[43] + counts[119]
    assert (
        f"{changes}: {counts[40]} inserts, {counts[43]} updates, {counts[41]} deletes, {counts[119]} truncate" in readme
    )
    ended = f"{counts[2]} committed, {counts[3]} rolled back, {counts[1] - counts[2] - counts[3]} without an end"
    assert re.search(rf"{counts[1]}, up to .*{ended}", readme)
    assert f"by {counts[62]} rollbacks to a savepoint" in readme
    assert f"{noise} bytes of noise" in readme
    labels = json.loads((DATA / "gbase8s.labels.json").read_text(encoding="utf-8"))
    assert all(name.removeprefix("shop.") in readme for name in labels.values())
    assert counts[200] == 7
    assert counts[201] == 2
    assert counts[202] == 1


def console_lines() -> dict[str, list[tuple[int, Any]]]:
    """Offset and value of every line of the messages, by file; what is cut off has the value ``...``."""
    found: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for path in sorted((DATA / "qlik-kafka").iterdir()):
        for line in path.read_bytes().splitlines():
            _, _, offset, _, value = line.split(b"\t", 4)
            try:
                found[path.name].append((int(offset.removeprefix(b"Offset:")), json.loads(value)))
            except ValueError:
                found[path.name].append((int(offset.removeprefix(b"Offset:")), ...))
    return found


def test_the_readme_says_what_is_in_the_messages() -> None:
    readme = README.split("\n## ")[2]
    lines = console_lines()
    values = [value for file in lines.values() for _, value in file]
    size = sum((DATA / "qlik-kafka" / name).stat().st_size for name in lines)
    assert len(lines) == 10
    assert f"{round(size / 1000)} kB and {len(values)} messages" in readme
    messages = [value for value in values if value not in (None, ...)]
    of_type = Counter(value["type"] for value in messages)
    tombstones, cut = values.count(None), values.count(...)
    assert (
        f"{of_type['DT']} data messages, {of_type['MD']} metadata messages, {tombstones} tombstones, "
        f"{cut} that is cut off"
    ) in readme
    assert lines["shop.stock_move-1.txt"][-1][1] is ...
    heads = [value["message"]["headers"] for value in messages if value["type"] == "DT"]
    operations = Counter(head["operation"] for head in heads)
    assert (
        f"{operations['INSERT']} inserts, {operations['UPDATE']} updates, {operations['DELETE']} deletes, "
        f"{operations['REFRESH']} of the full load"
    ) in readme
    idle = sum(head["operation"] == "UPDATE" and int(head["changeMask"], 16) == 0 for head in heads)
    assert f"{idle} of the updates change nothing" in readme
    changes = len(heads) - operations["REFRESH"]
    assert f"{changes}, and {operations['REFRESH']} rows of a full load" in README
    missing = {name: set(range(file[-1][0])) - {offset for offset, _ in file} for name, file in lines.items() if file}
    assert {name: offsets for name, offsets in missing.items() if offsets} == {"shop.orders-1.txt": {5}}
    again = [position for position, times in Counter(head["changeSequence"] for head in heads).items() if times == 2]
    assert len(again) == 1
    twice = [
        value
        for _, value in lines["shop.order_line-0.txt"]
        if value and value["type"] == "DT" and value["message"]["headers"]["changeSequence"] in again
    ]
    assert len(twice) == 2
    transactions: dict[str, set[int]] = defaultdict(set)
    for head in heads:
        if head["transactionId"]:
            transactions[head["transactionId"]].add(head["transactionEventCounter"])
    lacking = [numbers for numbers in transactions.values() if numbers != set(range(1, len(numbers) + 1))]
    assert f"{len(transactions)}, of which {len(transactions) - len(lacking)} are complete" in readme
    assert lacking == [{1, 2, 4, 5}, {2, 3, 4}]


def test_metadata_comes_late_and_to_one_partition() -> None:
    lines = console_lines()
    described = {
        name: [number for number, (_, value) in enumerate(file) if value not in (None, ...) and value["type"] == "MD"]
        for name, file in lines.items()
    }
    assert all(not places for name, places in described.items() if name.endswith("-1.txt"))
    assert all(places and places[0] > 0 for name, places in described.items() if name.endswith("-0.txt"))
    assert f"| table versions | {sum(map(len, described.values()))}:" in README.split("\n## ")[2]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_readme_says_what_is_in_the_change_tables() -> None:
    readme = README.split("\n## ")[3]
    folder = DATA / "qlik-change-table"
    files = sorted(folder.rglob("*.csv"))
    size = sum(path.stat().st_size for path in files)
    counted = sum(len(rows_of(path)) for path in files)
    assert f"{len(files)} `.csv` files with together {round(size / 1000)} kB and {counted} rows" in readme
    changes = [row for path in sorted(folder.glob("*__ct/*.csv")) for row in rows_of(path)]
    of_letter = Counter(row["header__change_oper"] for row in changes)
    loaded = sum(len(rows_of(path)) for path in folder.glob("*/LOAD*.csv"))
    assert (
        f"{of_letter['I']} `I`, {of_letter['U']} `U` with {of_letter['B']} `B` before them, {of_letter['D']} `D`, "
        f"{of_letter['T']} TRUNCATE, {loaded} rows of the full load"
    ) in readme
    assert f"{sum(of_letter.values()) - of_letter['B']}, and {loaded} rows of a full load" in README
    times = [row for row in changes if row["header__timestamp"].startswith("1970-01-01")]
    assert f"{len(times)} rows of changes with the timestamp 1970-01-01" in readme
    assert f"| transactions | {len({row['header__transaction_id'] for row in changes})};" in readme
    masked = next(row for row in changes if row["header__change_mask"] == "0800" and "state" in row)
    assert list(masked).index("state") == 11  # as the README reads the mask
    versions = [row for row in rows_of(next(folder.glob("attrep_ddl_history/*.csv"))) if "TRUNC" not in row["DDL_TYPE"]]
    assert f"| table versions | {len(versions)}," in readme
    (refused,) = rows_of(next(folder.glob("attrep_apply_exceptions/*.csv")))
    assert "UPDATE" in refused["STATEMENT"]


def event_log() -> list[dict[str, str]]:
    """The rows of the event log; the last of them is cut off."""
    return rows_of(DATA / "idm-event-log" / "eventlog.csv")


def test_the_readme_says_what_is_in_the_event_log() -> None:
    readme = README.split("\n## ")[5]
    size = (DATA / "idm-event-log" / "eventlog.csv").stat().st_size
    *rows, last = event_log()
    assert f"{round(size / 1000)} kB and {len(rows) + 1} rows" in readme
    assert last["old_value"] is None
    types = Counter(row["event_type"] for row in rows)
    assert (
        ", ".join(f"{types[kind]} of {kind}" for kind in "12345678") + ", and 1 of type 12, which does not exist"
    ) in readme
    assert types.total() - types["12"] == sum(types[kind] for kind in "12345678")
    statuses = Counter(row["status"] for row in rows)
    done = statuses["S"] + statuses["E"]
    odd = len(rows) - done - statuses["N"]
    assert (
        f"{done} rows with status S or E; {odd} with a value that is not a status: `N `, `s`, `P`, `n` and `X`"
        in readme
    )
    assert statuses.keys() == {"N", "S", "E", "N ", "s", "P", "n", "X"}
    users = Counter(row["perpetrator"] for row in rows)
    assert f"{users['IDM_DRIVER']} rows by `IDM_DRIVER`; {users['idm_driver']} by `idm_driver`" in readme
    future = [row for row in rows if "2026-11-09 08:00" < row["event_time"] < "3"]
    assert f"{len(future)} rows with an event_time after 08:00, up to a year later" in readme
    assert [row["event_time"] for row in rows if not row["event_time"].startswith("202")] == ["", "soon"]
    numbers = [row["record_id"] for row in rows]
    assert sorted(number for number in numbers if not number.isdigit()) == ["-17", "12a"]
    assert sorted(Counter(numbers) - Counter(set(numbers))) == ["2", "309"]
    spellings: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        spelled = row["table_key"].lower().replace("= ", "=").replace('"', "")
        spellings[row["table_name"], spelled].add(row["table_key"])
    twice = [found for found in spellings.values() if len(found) > 1]
    assert {"customer_id=13", "customer_id= 13"} in twice
    assert f"| {len(twice)} keys, such as `customer_id=13` and `customer_id= 13` |" in readme
    assert 'order_id=", ; \' + \\" = \\\\ < > 18"' in {row["table_key"] for row in rows}
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        kinds[row["table_name"]].add(row["event_type"])
    assert kinds["view_reading"] | kinds["customer"] - {"12"} == {*"1234"}
    assert (kinds["orders"], kinds["stock_move"], kinds["order_line"]) == ({*"456"}, {*"478"}, {*"12345678"})
    known = {path.stem for path in (DATA / "idm-event-log.snapshot").iterdir()}
    assert kinds.keys() - known == {"", "stock_move"}
    left = rows_of(DATA / "idm-event-log.snapshot" / "view_reading.csv")
    gone = sum(row["event_type"] == "4" and row["table_name"] == "view_reading" for row in rows)
    came = {row["table_key"] for row in rows if row["table_name"] == "view_reading" and row["event_type"] == "1"}
    counts = f"has {len(left)} rows left, and the log has the inserts of {len(came)} and the deletes of {gone}"
    assert f"`view_reading` {counts}" in readme


@pytest.mark.parametrize("as_of", [None, "2026-11-09T08:00:00Z"])
def test_the_readme_says_what_becomes_of_the_event_log(as_of: str | None) -> None:
    readme = README.split("\n## ")[5]
    *rows, _ = event_log()
    texts = {name: [row[name] or None for row in rows] for name in rows[0]}
    log = pa.RecordBatch.from_pydict(texts, schema=LOG)
    files = {path.stem: str(path) for path in (DATA / "idm-event-log.snapshot").iterdir()}
    given = {"driver_user": "IDM_DRIVER", "schema": "shop", "types": "photo:octet"}
    waiting = {"future_events": True, "as_of": as_of} if as_of else {}
    made = publish(rows_of_log(log), Settings.parse(given | waiting), Snapshot.read(files))
    counts = Counter(made.decisions["decision"].to_pylist())
    if as_of:
        assert f"with `-o future_events=true --as-of {as_of}` {counts['waiting']} rows wait" in readme.replace("W", "w")
        return
    assert f"would publish {counts['published']} rows as {made.events.num_rows} events" in readme
    assert (
        f"{counts['needs_snapshot']} need the contents of `stock_move`, {counts['skipped']} are skipped,\n"
        f"{counts['overridden']} are overridden, {counts['no_effect']} have no effect and {counts['invalid']} are "
        "invalid"
    ) in readme


JULIAN_DAY_0 = 210_866_760_000_000_000  # microseconds before 1970


class TrailRecord(NamedTuple):
    """A record as Logdump printed it. ``size``: bytes in the trail; ``trans``: TransInd; ``utc``: microseconds since
    1970 by the header's bytes, ``printed`` the same by the record line."""

    file: str
    operation: str
    rba: int
    size: int
    trans: int | None
    utc: int | None
    printed: int
    text: str


def printed_trail() -> list[TrailRecord]:
    """The records of the trail in the order in which they stand in the texts."""
    found = []
    for path in sorted((DATA / "goldengate").iterdir()):
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"^(?=TokenID x47 'G'|\S+ \S+ FileHeader )", text, flags=re.MULTILINE)[1:]:
            line = re.search(r"^(\S+ \S+)\.(\d{3}) (\w+) +Len +\d+ RBA (\d+)$", part, re.MULTILINE)
            assert line is not None
            size = re.search(r"^TokenID x47 'G'.* (\d+)$", part, re.MULTILINE)
            trans = re.search(r"^TransInd +: .*?\(x(\d\d)\)", part, re.MULTILINE)
            shown = re.search(r"^TokenID x48 'H'.*\n ([0-9a-f ]+) \|", part, re.MULTILINE)
            header = bytes.fromhex(shown[1]) if shown else b""
            moment = datetime.strptime(line[1], "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC)
            found.append(
                TrailRecord(
                    path.name,
                    line[3],
                    int(line[4]),
                    int(size[1]) if size else 0,
                    int(trans[1]) if trans else None,
                    int.from_bytes(header[8:16], "little") - JULIAN_DAY_0 if header else None,
                    round(moment.timestamp() * 1_000_000) + int(line[2]),
                    part,
                )
            )
    return found


@pytest.fixture(scope="module")
def trail() -> list[TrailRecord]:
    return printed_trail()


def test_the_readme_says_what_is_in_the_trail(trail: list[TrailRecord]) -> None:
    readme = README.split("\n## ")[4]
    texts = content(DATA / "goldengate")
    size = sum(map(len, texts.values()))
    assert f"together {round(size / 1000)} kB and {len(trail)} records" in readme
    assert all(f"`{name}`" in readme for name in (min(texts), max(texts)))
    counts = Counter(record.operation for record in trail)
    assert (
        f"{counts['Insert']} `Insert`, one of them twice; {counts['FieldComp']} `FieldComp`, "
        f"{counts['Delete']} `Delete`, {counts['GGSPurgedata']} `GGSPurgedata` (TRUNCATE), {counts['DDLOP']} `DDLOP`"
    ) in readme
    assert (
        f"{counts['Metadata']} `Metadata`, {counts['FileHeader']} `FileHeader`, {counts['RestartOK']} `RestartOK`, "
        f"{counts['RestartAbend']} `RestartAbend`"
    ) in readme
    changes = sum(counts[name] for name in ("Insert", "FieldComp", "Delete", "GGSPurgedata", "DDLOP")) - 1
    assert f"| {changes} |\n" in README
    versions = sum(record.operation == "Metadata" and "Definition for table" in record.text for record in trail)
    assert f"| table versions | {versions}:" in readme
    prompts = sum(text.count(b"Logdump ") for text in texts.values()) - len(texts)  # each text begins with one
    assert prompts == 4
    assert "four prompts" in readme
    assert sum(text.count(b"note to self") for text in texts.values()) == 1


def test_the_readme_says_what_became_of_the_trails_transactions(trail: list[TrailRecord]) -> None:
    readme = README.split("\n## ")[4]
    files: list[set[str]] = []
    sizes: list[int] = []
    inside = metadata_inside = 0
    voided = []
    for record, before in zip(trail, [None, *trail], strict=False):
        if record.operation == "RestartAbend":
            voided.append((files.pop(), sizes.pop()))
            inside = 0
        elif record.operation == "Metadata":
            metadata_inside += inside
        elif record.trans is not None and record.operation != "RestartOK" and not same(record, before):
            if record.trans in (0, 3):
                files.append(set())
                sizes.append(0)
            files[-1].add(record.file)
            sizes[-1] += 1
            inside = int(record.trans in (0, 1))
    assert not inside
    assert metadata_inside > 0
    transactions = len(files) + len(voided)
    assert f"| transactions | {transactions}, of which {transactions - 1} are complete;" in readme
    assert [sorted(some) for some in files if len(some) > 1] == [["logdump-000000042.txt", "logdump-000000043.txt"]]
    assert [size for _, size in voided] == [4]
    assert f"its {voided[0][1]} changes are rolled back" in readme


def same(record: TrailRecord, other: TrailRecord | None) -> bool:
    """Is it the record that was printed just before?"""
    return other is not None and (record.file, record.rba) == (other.file, other.rba)


def test_the_readme_says_what_is_missing_and_what_came_twice_in_the_trail(trail: list[TrailRecord]) -> None:
    readme = README.split("\n## ")[4]
    twice = [record for record, before in zip(trail[1:], trail, strict=False) if same(record, before)]
    assert [(record.file[-6:-4], f"RBA {record.rba} of the third file" in readme) for record in twice] == [("43", True)]
    gaps = [
        (one.file[-6:-4], one.rba + one.size, other.rba - one.rba - one.size)
        for one, other in pairwise(trail)
        if one.file == other.file and one.size and not same(other, one) and one.rba + one.size != other.rba
    ]
    assert len(gaps) == 1
    assert gaps[0][0] == "42"
    assert f"the record at RBA {gaps[0][1]} of the second file, {gaps[0][2]} bytes" in readme
    last = trail[-1]
    shown = bytes.fromhex(re.sub(r"\s", "", last.text.split("G  e\n")[1])[:-1])
    length = int(re.findall(r"RecLength +: +(\d+)", last.text)[0])
    assert f"of which {len(shown)} of {length} are left" in readme
    assert "TRANID" not in last.text
    assert last.trans == 2


def test_printed_times_of_the_trail_are_two_hours_ahead_and_do_not_rise(trail: list[TrailRecord]) -> None:
    known = [record for record in trail if record.utc is not None]
    assert {record.printed - (record.utc or 0) for record in known} == {2 * 3600 * 1_000_000}
    assert "+02:00" in README.split("\n## ")[4]
    assert any(other.printed < one.printed for one, other in pairwise(known))
