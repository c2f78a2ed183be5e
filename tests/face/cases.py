"""The captures whose face is frozen: those of ``data/``, and generated ones of other shapes, containers and byte
orders, some of them damaged. What the design withdraws is in none of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import cdcwb_synth as synth

__all__ = ["CASES", "DATA", "IN_DATA", "Case"]

DATA: Final = Path(__file__).resolve().parents[2] / "data"


@dataclass(frozen=True)
class Case:
    """A capture. ``made``: the options of its generator, for ``changes`` changes; None: it is in ``data/``. ``damage``
    changes the bytes of each file. ``options`` are those of its reader; the generated folder replaces ``{made}``."""

    name: str
    format: str
    made: dict[str, Any] | None = None
    changes: int = 80
    damage: Callable[[bytes], bytes] | None = None
    options: dict[str, str] = field(default_factory=dict)

    def make(self, folder: Path) -> tuple[Path, dict[str, str]]:
        """The capture, copied or generated below ``folder``, and the options of its reader."""
        if self.made is None:
            for side in DATA.glob(f"{self.format}*"):
                (shutil.copytree if side.is_dir() else shutil.copy)(side, folder / side.name)
            return folder / self.format, {}
        made = synth.generate(self.format, changes=self.changes, seed=19, to=folder / "made", **self.made)
        if self.damage is not None:
            for file in sorted(path for path in (made / "capture").rglob("*") if path.is_file()):
                file.write_bytes(self.damage(file.read_bytes()))
        return made / "capture", {name: value.format(made=made) for name, value in self.options.items()}


def _bytes_changed(data: bytes) -> bytes:
    """Three bytes changed, 50 inserted and 70 removed; the last record is cut."""
    changed = bytearray(data)
    for part in (3, 5, 7):
        changed[len(data) * part // 9] ^= 0x55
    place = len(data) * 4 // 9
    changed[place:place] = bytes(range(50))
    del changed[len(data) * 6 // 9 : len(data) * 6 // 9 + 70]
    return bytes(changed[:-5])


def _text_changed(data: bytes) -> bytes:
    """A line is cut in its middle, one is prose, one is given twice, the last is cut; an operation is none that is
    known, and a byte is in no character set."""
    half = len(data) // 2
    data = data[:half] + data[half:].replace(b"UPDATE", b"UPSERT", 1)
    lines = data.splitlines(keepends=True)
    third = len(lines) // 3
    text = lines[third // 2]
    lines[third // 2] = text[: len(text) // 2] + b"\xff" + text[len(text) // 2 :]
    lines[third] = lines[third][: len(lines[third]) // 2] + b"\n"
    lines[2 * third : 2 * third] = [b"The payment was rejected by the bank.\n", lines[2 * third]]
    lines[-1] = lines[-1][: len(lines[-1]) // 2]
    return b"".join(lines)


_TRANSACTIONS: Final = {"open_transactions": 2, "missing_begins": 1, "rollback_share": 0.2, "concurrency": 3}

CASES: Final = {
    case.name: case
    for case in (
        *(
            Case(name, name)
            for name in (
                "gbase8s",
                "qlik-kafka",
                "qlik-change-table",
                "goldengate",
                "debezium",
                "idm-event-log",
                "sqlserver-ct",
                "maxwell",
                "canal",
            )
        ),
        Case(
            "gbase8s-big-endian-gzip",
            "gbase8s",
            {"byte_order": "big", "prefix_width": 1, "files": 2, "cut_records": True, "compression": "gzip"}
            | _TRANSACTIONS,
        ),
        Case("gbase8s-xxd", "gbase8s", {"shape": "xxd", "table_names": True, "errors": 1}),
        Case("gbase8s-damaged", "gbase8s", {"undo_share": 0.2, **_TRANSACTIONS}, 160, _bytes_changed),
        Case(
            "qlik-kafka-confluent",
            "qlik-kafka",
            {"form": "confluent", "container": "parquet"},
            options={"registry": "{made}/registry"},
        ),
        Case("qlik-kafka-damaged", "qlik-kafka", {"container": "lines"}, 120, _text_changed),
        Case("qlik-change-table-parquet", "qlik-change-table", {"container": "parquet"}),
        Case("qlik-change-table-damaged", "qlik-change-table", {}, 120, _text_changed),
        Case("goldengate-11g", "goldengate", {"style": "11g", "compression": "zstd"}, 40),
        Case("goldengate-damaged", "goldengate", {}, 60, _bytes_changed),
        Case("goldengate-json", "goldengate", {"form": "json"}),
        Case("goldengate-xml", "goldengate", {"form": "formatxml"}),
        Case(
            "debezium-avro",
            "debezium",
            {"form": "avro", "container": "parquet"},
            options={"registry": "{made}/registry"},
        ),
        Case("debezium-damaged", "debezium", {"container": "lines"}, 120, _text_changed),
        Case("sqlserver-ct-parquet", "sqlserver-ct", {"container": "parquet", "schema_changes": 2}),
        Case("sqlserver-ct-damaged", "sqlserver-ct", {"all_types": False}, 120, _text_changed),
        Case("maxwell-damaged", "maxwell", {}, 60, _text_changed),
        Case("canal-damaged", "canal", {}, 60, _text_changed),
        Case("idm-event-log-sql", "idm-event-log", {"container": "sql"}),
        Case("idm-event-log-excel", "idm-event-log", {"container": "xlsx"}),
        Case("idm-event-log-damaged", "idm-event-log", {"container": "csv"}, 120, _text_changed),
    )
}

IN_DATA: Final = sorted(name for name, case in CASES.items() if case.made is None)
"""The captures of ``data/``, of which live views and reports are compared, too."""
