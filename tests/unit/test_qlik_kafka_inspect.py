"""One Kafka message by its place: what ``inspect`` says is what ``events`` say, in every container."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb_synth as synth
from cdcwb.errors import CaptureError
from cdcwb.formats import inspect, qlik_kafka
from tests.kafka import (
    AFTER,
    BEFORE,
    FORMAT,
    SCHEMA_ID,
    STOCK,
    WRITTEN,
    avro_envelope,
    avro_record,
    enveloped,
    framed,
    metadata,
    record,
    write,
)
from tests.local import read

COLUMNS = {"id": "INT4", "name": "STRING"}


def at(path: Path, offset: int, **options: Any) -> Any:
    return inspect(path, offset, FORMAT, **options)


# --- every byte of every container ------------------------------------------------------------------------------------

CAPTURES: dict[str, dict[str, Any]] = {
    "lines": {"form": "json-envelope", "compression": "gzip"},
    "console": {"form": "json", "tombstone_share": 0.5},
    "documents": {"form": "json-envelope"},
    "kcat": {"form": "avro-envelope", "tombstone_share": 0.5},
    "message": {"form": "json-envelope"},
    "avro": {"form": "avro-envelope"},
    "parquet": {"form": "confluent", "tombstone_share": 0.5, "mask_order": "little"},
}


@pytest.mark.parametrize("container", CAPTURES)
def test_every_place_leads_to_the_message_that_holds_it(tmp_path: Path, container: str) -> None:
    given = {"tables": 1, "all_types": False, "refresh_rows": 1, "schema_changes": 1, "layout": "stream"}
    given |= {"container": container} | CAPTURES[container]
    synth.generate(FORMAT, changes=12, seed=8, to=tmp_path, **given)
    beside = {"registry": str(tmp_path / "registry")} if (tmp_path / "registry").exists() else {}
    files = sorted(one for one in (tmp_path / "capture").rglob("*") if one.is_file())
    whole = read(tmp_path / "capture", format=FORMAT, **beside).to_pylist()
    for row in whole[:: max(1, len(whole) // 5)]:
        file = Path(row["file"])
        first, last = row["offset"], row["offset"] + row["length"] - 1
        for offset in sorted({first, (first + last) // 2, last}):
            found = at(file, offset, **beside)
            assert (found.file, found.offset, found.length) == (str(file), first, row["length"])
            expected = {name: value for name, value in row.items() if value is not None} | {"file_index": 0}
            if len(files) == 1:
                assert found.event == expected
            assert (found.record, found.event.get("raw", b"")) == (row["raw"] or b"",) * 2
            assert found.field.length == len(found.record)
            leaves = [field.raw for field in found.field.walk() if not field.children]
            assert b"".join(leaves) == found.record
            assert (found.field.name == row["record_type"]) or row["kind"] == "tombstone"
    size = len(whole) if container in ("avro", "parquet") else sum(
        row["length"] for row in whole if row["file"] == whole[-1]["file"]
    )  # fmt: skip
    for offset in (-1, size, size + 1):
        with pytest.raises(CaptureError, match=f"the file has {size} (bytes|rows)"):
            at(Path(whole[-1]["file"]), offset, **beside)


def test_every_byte_of_a_small_capture(tmp_path: Path) -> None:
    pieces = [json.dumps(enveloped(record(AFTER, BEFORE))), "", "{oops", json.dumps(metadata(COLUMNS))]
    path = tmp_path / "capture.json"
    path.write_text("\n".join(pieces) + "\n")
    kinds = ["change", "filler", "malformed", "schema"]
    start = 0
    for piece, kind in zip(pieces, kinds, strict=True):
        size = len(piece) + 1
        for offset in range(start, start + size, 1 if size < 10 else 97):
            found = at(path, offset)
            assert (found.offset, found.length, found.event["kind"]) == (start, size, kind)
        start += size
    packed = tmp_path / "capture.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert at(packed, 5).event | {"file": ""} == at(path, 5).event | {"file": ""}


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_message_is_taken_apart_with_its_version(tmp_path: Path) -> None:
    path = write(tmp_path, metadata(COLUMNS), enveloped(record(AFTER, BEFORE)))
    found = at(path, 1, **WRITTEN)
    assert found.note == f"decoded with table version {SCHEMA_ID} (record)"
    assert found.event["after"] == [("id", "7"), ("name", "quartz")]
    mask = next(field for field in found.field.walk() if field.name == "changeMask")
    assert mask.meaning == "columns that changed: name"
    assert [(bit.name, bit.value) for bit in mask.children if bit.length == 0] == [
        ("id", "not changed"), ("name", "changed")
    ]  # fmt: skip
    name = found.field.at(found.record.index(b"quartz"))
    assert name is not None
    assert name.meaning == "column 2, STRING: changed"


def test_the_order_of_masks_is_that_of_the_capture(tmp_path: Path) -> None:
    given = {"changeMask": b"\x02\0\0", "columnMask": b"\x03\0\0"}
    path = write(tmp_path, *(avro_envelope(avro_record(STOCK, AFTER, BEFORE, **given), None, messageSchema=STOCK),) * 2)
    for options, names in (({}, ["name"]), ({"mask_order": "big"}, [])):
        found = at(path, 0, **WRITTEN, **options)
        assert found.event["changed_columns"] == names
        mask = next(field for field in found.field.walk() if field.name == "changeMask")
        assert [bit.name for bit in mask.children if bit.value == "changed"] == names


def test_metadata_in_another_file_of_the_folder_is_found(tmp_path: Path) -> None:
    described = metadata(COLUMNS)
    described["message"]["dataSchema"] = STOCK
    message = avro_envelope(avro_record(STOCK, AFTER, BEFORE))
    path = write(tmp_path, message)
    alone = at(path, 0, **WRITTEN)
    assert alone.note.startswith("the metadata message of its schema was not found; give its location with")
    assert [problem["code"] for problem in alone.event["problems"]] == ["no_schema"]
    (tmp_path / "elsewhere").mkdir()
    elsewhere = tmp_path / "elsewhere" / "metadata.json"
    elsewhere.write_text(json.dumps(described))
    given = at(path, 0, metadata=str(elsewhere), **WRITTEN)
    assert given.note == f"decoded with table version {SCHEMA_ID} (side file)"
    (tmp_path / "another.json").write_text(json.dumps(described))
    beside = at(path, 0)
    assert beside.note == f"decoded with table version {SCHEMA_ID} (record)"
    assert (beside.event["table_name"], beside.event["after"]) == ("stock", given.event["after"])
    assert (beside.event["file"], beside.offset) == (str(path), 0)
    assert beside.field == given.field


def test_files_beside_that_cannot_be_read_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, avro_envelope(avro_record(STOCK, AFTER, BEFORE)))
    described = metadata(COLUMNS)
    described["message"]["dataSchema"] = STOCK
    (tmp_path / "metadata.json").write_text(json.dumps(described))
    (tmp_path / "notes.parquet").write_bytes(b"PAR1 this is none PAR1")
    (tmp_path / "some.avro").write_bytes(b"Obj\x01\xff\xff")
    (tmp_path / "empty").write_bytes(b"")
    assert at(path, 0).event["table_name"] == "stock"
    assert at(path, 0, mode="FAILFAST").event["table_name"] == "stock"
    monkeypatch.setattr(qlik_kafka, "_NEAR", 10)
    assert at(path, 0).note.startswith("the metadata message of its schema was not found")


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, framed(42, b"abc"), None, b"\x07\x07\x07", record(AFTER, BEFORE))
    found = [at(path, offset, **WRITTEN) for offset in range(4)]
    assert [one.event["kind"] for one in found] == ["change", "tombstone", "malformed", "change"]
    assert [one.event.get("problems", [{}])[0].get("code") for one in found] == ["no_registry", None, "malformed", None]
    assert [one.field.name for one in found] == ["DataRecord", "tombstone", "message", "DataRecord"]
    assert found[3].note == "decoded with table version unnamed@1 (inferred)"


def test_plain_avro_is_taken_apart_with_the_schema_of_an_option(tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text(STOCK)
    options = WRITTEN | {"avro_schema": str(tmp_path / "schema.avsc")}
    deleted = avro_record(STOCK, None, AFTER, operation="DELETE", changeMask=None)
    path = write(tmp_path, avro_record(STOCK, AFTER, BEFORE), deleted)
    for offset, image in ((0, "after"), (1, "before")):
        found = at(path, offset, **options)
        assert dict(found.event[image]) == {"id": "7", "name": "quartz"}
        names = [field.name for field in found.field.children]
        assert names == ["data", "beforeData", "headers"]
        assert not [field for field in found.field.walk() if field.problem]
