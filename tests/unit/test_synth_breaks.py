"""Generated captures with breaks: in every format with images, continuity finds exactly those that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb.analysis.continuity import continuity
from cdcwb.analysis.positions import positions
from cdcwb_synth import SynthError, generate

KEYS = [
    *("shop.customer:customer_id", "shop.orders:order_id", "shop.order_line:line_id", "shop.stock_move:move_id"),
    *("shop.reading:reading_id", "shop.everything:id"),
]
MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {"table_names": True}),
    "qlik-kafka": ("qlik-kafka", {}),
    "qlik-change-table": ("qlik-change-table", {}),
    "goldengate": ("goldengate", {"updates": "unified", "deletes": "full", "late": 0}),
    "goldengate-export": ("goldengate", {"form": "json", "updates": "unified", "deletes": "full"}),
    "debezium": ("debezium", {"unavailable_share": 0}),
    "sqlserver-ct": ("sqlserver-ct", {"deferred_share": 0}),
    "maxwell": ("maxwell", {}),
    "canal": ("canal", {"late": 0}),
    # the triggers of the first table log all values, but a DELETE has the key alone
    "idm-event-log": ("idm-event-log", {"tables": 1, "damaged_share": 0, "spelling_share": 0, "phantom": 0}),
}
BREAKS = {"lost": "gap", "repeated": "repeat", "late": "late", "revived": "revived", "phantom": "phantom"}


def found(name: str, folder: Path) -> list[tuple[Any, ...]]:
    options = {"keys": KEYS} if name == "gbase8s" else {"keys": KEYS[:5]} if name == "sqlserver-ct" else {}
    rows = continuity(cdcwb.load(folder / "capture", **options)).listed
    return [(row["kind"], row["table"], row["key"], row["position"], row["file_index"], row["offset"]) for row in rows]


@pytest.mark.parametrize("name", MADE)
def test_continuity_finds_exactly_the_breaks_that_were_asked_for(tmp_path: Path, name: str) -> None:
    format, made = MADE[name]
    wanted = {option: made.get(option, number) for number, option in enumerate(BREAKS, 2)}
    folder = generate(format, changes=1500, seed=3, to=tmp_path, **(wanted | made))
    rows = pq.read_table(folder / "truth" / "breaks.parquet").to_pylist(maps_as_pydicts="strict")
    kinds = [row["kind"] for row in rows]
    assert {kind: kinds.count(kind) for kind in BREAKS.values()} == {BREAKS[name]: wanted[name] for name in BREAKS}
    columns = ("kind", "table", "key", "position", "file_index", "offset")
    assert found(name, folder) == [tuple(row[column] for column in columns) for row in rows]


def test_late_changes_of_gbase8s_are_positions_out_of_order(tmp_path: Path) -> None:
    folder = generate("gbase8s", changes=1500, seed=3, to=tmp_path, late=4, table_names=True)
    result = positions(cdcwb.load(folder / "capture", keys=KEYS))
    rows = pq.read_table(folder / "truth" / "breaks.parquet").to_pylist()
    assert result.contradictions == len(rows) == 4
    for row, one in zip(rows, result.listed, strict=True):  # the first of the two records of an update
        assert one["offset"] < row["offset"] < one["offset"] + 200


@pytest.mark.parametrize("seed", range(4, 7))
def test_event_logs_with_several_inserts_of_one_row_have_exactly_their_breaks(tmp_path: Path, seed: int) -> None:
    made = MADE["idm-event-log"][1] | {"lost": 3, "repeated": 3, "late": 6, "revived": 3}
    folder = generate("idm-event-log", changes=2500, seed=seed, to=tmp_path, **made)
    rows = pq.read_table(folder / "truth" / "breaks.parquet").to_pylist(maps_as_pydicts="strict")
    columns = ("kind", "table", "key", "position", "file_index", "offset")
    assert found("idm-event-log", folder) == [tuple(row[column] for column in columns) for row in rows]


@pytest.mark.parametrize("name", MADE)
def test_without_these_options_nothing_is_found(tmp_path: Path, name: str) -> None:
    format, made = MADE[name]
    folder = generate(format, changes=1500, seed=3, to=tmp_path, **{k: v for k, v in made.items() if k not in BREAKS})
    assert found(name, folder) == []
    assert not (folder / "truth" / "breaks.parquet").exists()


def test_breaks_are_in_the_capture_and_not_in_its_other_changes(tmp_path: Path) -> None:
    sane = generate("maxwell", changes=500, seed=3, to=tmp_path / "sane")
    broken = generate("maxwell", changes=500, seed=3, to=tmp_path / "broken", revived=4)
    changes = [pq.read_table(folder / "truth" / "changes.parquet").to_pylist() for folder in (sane, broken)]
    sane_rows, broken_rows = ([(row["operation"], row["before"], row["after"]) for row in rows] for rows in changes)
    assert len(broken_rows) == len(sane_rows) + 4
    assert [row for row in broken_rows if row in sane_rows] == sane_rows


def test_breaks_that_a_format_cannot_have_are_refused(tmp_path: Path) -> None:
    for format, option in (("canal", "late"), ("goldengate", "late"), ("idm-event-log", "phantom")):
        with pytest.raises(SynthError, match=option):
            generate(format, changes=10, seed=1, to=tmp_path, **{option: 1})
