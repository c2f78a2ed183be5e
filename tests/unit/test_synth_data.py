"""The captures in data/ are small, made by the script that is said to make them, and are what their README says."""

from __future__ import annotations

import csv
import json
import re
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("capture", ["gbase8s", "qlik-kafka", "qlik-change-table"])
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
    assert f"{len(transactions)}, of which {len(transactions) - len(lacking)} are whole" in readme
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
