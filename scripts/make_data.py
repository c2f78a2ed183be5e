"""Makes the small captures in ``data/``, the same bytes every time: ``python scripts/make_data.py``.

``--to FOLDER`` writes them elsewhere (a test compares the two). Beside them lies ``expected.json``: what has to be
counted in each, from the truth that was written down while it was made and from the damage that was done to it here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from cdcwb_synth import generate

DATA = Path(__file__).resolve().parent.parent / "data"

NOISE_BYTES = 41
"""Bytes that are not a record, put between two records of the second file: what a recorder with a bug leaves behind."""

STORY: dict[str, Any] = {
    "changes": 360,
    "seed": 20260211,
    "start": "2026-02-03T08:00:00Z",
    "tables": 4,
    "all_types_share": 0.02,
    "rate": 3.0,
    "concurrency": 5,
    "transaction_size": 5.0,
    "schema_changes": 2,
    "schema_kinds": "add,rename",
    "refresh_rows": 8,
    "truncates": 1,
    "clock_back": 1,
    "clock_back_seconds": 6.0,
}
"""What happens in the shop, told once over Kafka and once in change tables."""

_SMALL: dict[str, Any] = {
    "changes": 80,
    "tables": 3,
    "all_types": False,
    "rate": 1.0,
    "concurrency": 3,
    "transaction_size": 4.0,
    "update_share": 0.4,
    "delete_share": 0.15,
    "schema_changes": 1,
    "schema_kinds": "add",
}

UNKNOWN_TABLE = "stock_move"
"""The table of the event log whose contents nobody exported."""

REFUSED = (
    "TASK_NAME,TABLE_OWNER,TABLE_NAME,ERROR_TIME,STATEMENT,ERROR\n"
    'shop-load,shop,orders,2026-02-03 08:01:15.102000,"UPDATE ""shop"".""orders"" SET ""state"" = \'PACKED\' '
    'WHERE ""order_id"" = 32","no row was affected: the order is not in the target"\n'
)
"""The control table ``attrep_apply_exceptions``: a change that the target rejected."""


Rows = list[dict[str, Any]]
Expected = dict[str, Any]
"""What has to be counted in a capture, under the names of ``cdcwb summary --json``."""


def make_gbase8s(to: Path) -> Expected:
    """``gbase8s/`` (three files that continue one stream) and ``gbase8s.labels.json``."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "gbase8s",
            changes=900,
            seed=20250323,
            to=Path(place) / "made",
            files=3,
            cut_records=True,
            rate=3.0,
            concurrency=6,
            transaction_size=7.0,
            rollback_share=0.08,
            all_types_share=0.03,
            schema_changes=1,
            truncates=1,
            errors=1,
            reversed_updates=0.01,
        )
        rows = _truth(made, "changes")
        places = [row["offset"] for row in rows if row["file_index"] == 1 and row["operation"] == "INSERT"]
        damaged = made / "capture" / "stream-2.bin"
        data, at = damaged.read_bytes(), places[len(places) // 2]
        damaged.write_bytes(data[:at] + Random(1).randbytes(NOISE_BYTES) + data[at:])
        _replace(made / "capture", to / "gbase8s")
        shutil.copyfile(made / "labels.json", to / "gbase8s.labels.json")
        return _expected(made, to / "gbase8s", rows, malformed=NOISE_BYTES)


def make_kafka(to: Path) -> Expected:
    """``qlik-kafka/``: what a console consumer printed of ten partitions, one message lost and one line cut off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "qlik-kafka",
            to=Path(place) / "made",
            metadata="late",
            container="console",
            partitions=2,
            tombstone_share=0.06,
            duplicate_share=0.004,
            **STORY,
        )
        files = sorted((made / "capture").iterdir())
        rows = _truth(made, "changes")
        lost = next(row for row in rows if row["event_no"] == 3 and not row["last_in_transaction"])
        cut, left = (files[-1].name, 0), 0
        for path in files:
            data = path.read_bytes()
            if path.name == Path(lost["file"]).name:
                data = data[: lost["offset"]] + data[lost["offset"] + lost["length"] :]
            if path is files[-1]:
                last = data.rindex(b"\n", 0, -1) + 1
                data = data[: (last + len(data)) // 2]
                cut, left = (path.name, last), len(data) - last
            path.write_bytes(data)
        _replace(made / "capture", to / "qlik-kafka")
        gone = {_place(lost), cut}
        kept = [row for row in rows if _place(row) not in gone]
        return _expected(made, to / "qlik-kafka", kept, malformed=left, lacking=_lacking(rows, gone))


def make_change_tables(to: Path) -> Expected:
    """``qlik-change-table/``: the folders of a file target, with the control tables."""
    with tempfile.TemporaryDirectory() as place:
        made = generate("qlik-change-table", to=Path(place) / "made", unknown_times=0.01, **STORY)
        refused = made / "capture" / "attrep_apply_exceptions"
        refused.mkdir()
        (refused / "20260203-080115102.csv").write_text(REFUSED, encoding="utf-8")
        _replace(made / "capture", to / "qlik-change-table")
        return _expected(made, to / "qlik-change-table", _truth(made, "changes"))


def make_goldengate(to: Path) -> Expected:
    """``goldengate/``: Logdump's text of three trail files; a record is missing, one came twice, the end is cut."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "goldengate",
            to=Path(place) / "made",
            changes=160,
            seed=20260714,
            start="2026-07-14T06:30:00Z",
            tables=3,
            all_types=False,
            rate=2.0,
            concurrency=4,
            transaction_size=4.0,
            schema_changes=1,
            schema_kinds="add",
            truncates=1,
            trail="./dirdat/lt",
            trail_files=3,
            first_sequence=41,
            capture_files="trail",
            zone="Europe/Berlin",
            restarts=1,
            abends=1,
            prompts=0.05,
            lobs=False,
            null_share=0.1,
        )
        rows = _truth(made, "changes")
        inside = [dict(row["headers"])["TransInd"] == "1" for row in rows]
        _, second, third = sorted((made / "capture").iterdir())
        lost = next(row for row, is_inside in zip(rows, inside, strict=True) if is_inside and row["file_index"] == 1)
        data = second.read_bytes()
        second.write_bytes(data[: lost["offset"]] + data[lost["offset"] + lost["length"] :])
        twice = [row for row in rows if row["file_index"] == 2][2]
        data = third.read_bytes()
        again = data[twice["offset"] : twice["offset"] + twice["length"]]
        data = data[: twice["offset"]] + again + data[twice["offset"] :]
        third.write_bytes(data[: data.rindex(b"Partition x0c   G") + 60])
        _replace(made / "capture", to / "goldengate")
        kept = [row for row in rows if row is not lost]
        # The record that is cut off has lost values and tokens; it still says that it is the last of its transaction.
        return _expected(made, to / "goldengate", kept, lacking={lost["transaction_id"]: "gaps"})


def make_event_log(to: Path) -> Expected:
    """``idm-event-log/``: rows that triggers logged, and ``idm-event-log.snapshot/``: what the tables held then, of all
    of them but one. The last row is cut off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "idm-event-log",
            to=Path(place) / "made",
            changes=270,
            seed=20261296,
            start="2026-11-09T07:15:00Z",
            tables=5,
            rate=0.5,
            concurrency=4,
            transaction_size=3.0,
            rows_before=6,
            update_share=0.35,
            delete_share=0.2,
            null_share=0.12,
            special_keys=0.12,
            special_values=0.12,
            loopback_share=0.06,
            processed_share=0.06,
            odd_status_share=0.01,
            future_share=0.04,
            damaged_share=0.015,
            spelling_share=0.04,
            interleaved_share=0.05,
        )
        (log,) = (made / "capture").iterdir()
        data = log.read_bytes()
        begin = data.rindex(b"\n", 0, -1) + 1
        data = data[: data.rindex(b",", 0, data.rindex(b",") - 3)]
        log.write_bytes(data)
        _replace(made / "capture", to / "idm-event-log")
        (made / "truth" / "snapshot" / f"{UNKNOWN_TABLE}.csv").unlink()
        _replace(made / "truth" / "snapshot", to / "idm-event-log.snapshot")
        rows = _truth(made, "changes")
        kept = [row for row in rows if any(part["offset"] != begin for part in row["source_events"])]
        return _expected(made, to / "idm-event-log", kept, malformed=len(data) - begin)


def make_debezium(to: Path) -> Expected:
    """``debezium/``: what a console consumer printed of all topics of a connector, one message lost and one line cut
    off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "debezium",
            to=Path(place) / "made",
            changes=78,
            seed=20261123,
            start="2026-11-23T09:30:00Z",
            tables=3,
            all_types=False,
            rate=1.0,
            concurrency=3,
            transaction_size=4.0,
            update_share=0.4,
            delete_share=0.15,
            schema_changes=1,
            schema_kinds="add",
            truncates=1,
            refresh_rows=3,
            heartbeats=8,
            unavailable_share=1.0,
        )
        (messages,) = (made / "capture").iterdir()
        data, rows = messages.read_bytes(), _truth(made, "changes")
        lost = next(row for row in rows if row["event_no"] == 2 and row["offset"] > len(data) // 2)
        last = data.rindex(b"\n", 0, -1) + 1
        cut = (last + len(data)) // 2
        messages.write_bytes(data[: lost["offset"]] + data[lost["offset"] + lost["length"] : cut])
        _replace(made / "capture", to / "debezium")
        kept = [row for row in rows if row is not lost]
        final = _truth(made, "transactions")[-1]["transaction_id"]  # whose END is the line that is cut off
        lacking = {lost["transaction_id"]: "gaps", final: "no_end"}
        return _expected(made, to / "debezium", kept, malformed=cut - last, lacking=lacking)


def make_sqlserver_ct(to: Path) -> Expected:
    """``sqlserver-ct/``: change tables of SQL Server, exported as CSV. Nothing is wrong with them."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "sqlserver-ct",
            to=Path(place) / "made",
            changes=90,
            seed=20261127,
            start="2026-11-27T10:00:00Z",
            tables=3,
            all_types=False,
            rate=1.0,
            concurrency=3,
            transaction_size=4.0,
            update_share=0.45,
            delete_share=0.15,
            schema_changes=1,
            schema_kinds="add",
            deferred_share=0.08,
        )
        _replace(made / "capture", to / "sqlserver-ct")
        return _expected(made, to / "sqlserver-ct", _truth(made, "changes"))


def make_maxwell(to: Path) -> Expected:
    """``maxwell/``: rows of a bootstrap, and what followed; a row in the middle of a transaction is lost."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "maxwell", to=Path(place) / "made", seed=20261128, start="2026-11-28T11:00:00Z", refresh_rows=2, **_SMALL
        )
        (messages,) = (made / "capture").iterdir()
        data, rows = messages.read_bytes(), _truth(made, "changes")
        third = {row["transaction_id"] for row in rows if row["event_no"] == 3}  # else a gap before the end
        lost = next(row for row in rows if row["event_no"] == 2 and row["transaction_id"] in third)
        messages.write_bytes(data[: lost["offset"]] + data[lost["offset"] + lost["length"] :])
        _replace(made / "capture", to / "maxwell")
        kept = [row for row in rows if row is not lost]
        return _expected(made, to / "maxwell", kept, lacking={lost["transaction_id"]: "gaps"})


def make_canal(to: Path) -> Expected:
    """``canal/``: flat messages, some of several rows; the last one is cut off."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "canal", to=Path(place) / "made", seed=20261130, start="2026-11-29T12:00:00Z", truncates=1, **_SMALL
        )
        (messages,) = (made / "capture").iterdir()
        data, rows = messages.read_bytes(), _truth(made, "changes")
        last = data.rindex(b"\n", 0, -1) + 1
        cut = (last + len(data)) // 2
        messages.write_bytes(data[:cut])
        _replace(made / "capture", to / "canal")
        kept = [row for row in rows if row["offset"] < last]
        return _expected(made, to / "canal", kept, malformed=cut - last)


def make_goldengate_export(to: Path) -> Expected:
    """``goldengate-export/``: JSON messages of the operation model, a line each, with a flag for absent columns."""
    with tempfile.TemporaryDirectory() as place:
        made = generate(
            "goldengate",
            to=Path(place) / "made",
            seed=20261202,
            start="2026-11-30T09:00:00Z",
            form="json",
            updates="unified",
            is_missing=True,
            **_SMALL,
        )
        _replace(made / "capture", to / "goldengate-export")
        return _expected(made, to / "goldengate-export", _truth(made, "changes"))


def _truth(made: Path, name: str) -> Rows:
    """A table of the truth; empty if the format has no such thing."""
    path = made / "truth" / f"{name}.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return Path(row["file"]).name, row["offset"]


def _lacking(rows: Rows, gone: Collection[tuple[str, int]]) -> dict[str, str]:
    """What is missing of the transactions whose events at the places ``gone`` are lost."""

    def what(row: dict[str, Any]) -> str:
        if row["event_no"] == 1:
            return "no_begin"
        return "no_end" if row["last_in_transaction"] else "gaps"

    lost = [row for row in rows if _place(row) in gone and row["transaction_id"] is not None]
    return {row["transaction_id"]: what(row) for row in lost}


def _expected(
    made: Path, capture: Path, changes: Rows, malformed: int = 0, lacking: dict[str, str] | None = None
) -> Expected:
    """What has to be counted in a capture: ``changes`` are those that are left in it, ``lacking`` the transactions of
    which something was taken away, with what that makes of them."""
    transactions, versions = _truth(made, "transactions"), _truth(made, "table_versions")
    left = lacking or {}
    files = [path for path in capture.rglob("*") if path.is_file() and path.suffix != ".dfm"]  # which only describe
    whole = [left.get(row["transaction_id"], row["completeness"]) for row in transactions]
    return {
        "bytes": sum(path.stat().st_size for path in files),
        "malformed_bytes": malformed,
        "tables": len({(row["schema_name"], row["table_name"]) for row in versions}),
        "table_versions": len(versions),
        "changes": len(changes),
        "changes_by_operation": _counts([row["operation"] for row in changes]),
        "changes_by_outcome": _counts([row["outcome"] for row in changes]),
        "transactions": len(transactions),
        "transactions_by_outcome": _counts([row["outcome"] for row in transactions]),
        "transactions_by_completeness": _counts(whole),
    }


def _counts(names: list[str | None]) -> dict[str, int]:
    counted = Counter(name for name in names if name is not None)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _replace(made: Path, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(made, folder)


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=DATA, help="folder to write into")
    to: Path = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    expected = {
        "gbase8s": make_gbase8s(to),
        "qlik-kafka": make_kafka(to),
        "qlik-change-table": make_change_tables(to),
        "goldengate": make_goldengate(to),
        "idm-event-log": make_event_log(to),
        "debezium": make_debezium(to),
        "sqlserver-ct": make_sqlserver_ct(to),
        "maxwell": make_maxwell(to),
        "canal": make_canal(to),
        "goldengate-export": make_goldengate_export(to),
    }
    (to / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
