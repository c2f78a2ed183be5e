"""The real messages of public sources, one file each, with the values that stand in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcwb.errors import UnknownFormatError
from cdcwb.formats import get_format, identify, inspect
from tests.local import ledger, plan_of, read

pytestmark = pytest.mark.samples


def sample(samples: Path, number: str) -> Path:
    (found,) = (samples / "qlik").glob(f"{number}-*")
    return found


def the_event(samples: Path, number: str) -> dict[str, Any]:
    path = sample(samples, number)
    assert identify(path).format == "qlik-kafka"
    table = read(path, format="qlik-kafka")
    assert ledger(table) == {str(path): path.stat().st_size}
    (row,) = table.to_pylist()
    return {**row, **{name: dict(row[name] or ()) for name in ("before", "after", "headers")}}


def test_the_metadata_message(samples: Path) -> None:
    plan = plan_of(sample(samples, "01"), format="qlik-kafka")
    (version,) = plan.versions
    assert (version.table_version, version.full_name) == ("8FB9D3C10EA4B25751DF9CC8318F0A02", "employees.salaries")
    assert [(c.ordinal, c.name, c.type, c.length, c.key_position, c.nullable) for c in version.columns] == [
        (1, "emp_no", "INT4", 10, 1, False),
        (2, "salary", "INT4", 10, None, False),
        (3, "from_date", "DATE", None, 2, False),
        (4, "to_date", "DATE", None, None, False),
    ]
    assert version.lineage["task"] == "mysql-to-kafka"
    assert version.lineage["tableVersion"] == "1"
    assert version.text is not None
    assert version.text.startswith('{"type":"record","name":"DataRecord"')


def test_a_full_load_waits_for_its_metadata_and_finds_it(samples: Path) -> None:
    alone = the_event(samples, "03")
    assert [problem["code"] for problem in alone["problems"]] == ["no_schema"]
    assert (alone["operation"], alone["position"], alone["transaction_id"]) == ("REFRESH", None, None)
    row = {"emp_no": "14472", "salary": "49592", "from_date": "1993-11-25", "to_date": "1994-11-25"}
    assert alone["after"] == row
    both = read(sample(samples, "03"), format="qlik-kafka", metadata=str(sample(samples, "01"))).to_pylist()[0]
    assert (both["schema_name"], both["table_name"], both["problems"]) == ("employees", "salaries", None)
    assert both["table_version"] == "8FB9D3C10EA4B25751DF9CC8318F0A02"
    assert dict(both["key"]) == {"emp_no": "14472", "from_date": "1993-11-25"}


@pytest.mark.parametrize("number", ["06", "07"])
def test_the_change_masks_of_real_updates_are_what_their_images_say(samples: Path, number: str) -> None:
    row = the_event(samples, number)
    assert row["operation"] == "UPDATE"
    differing = [name for name in row["after"] if row["after"][name] != row["before"][name]]
    assert row["changed_columns"] == differing == ({"06": ["item_desc", "load_date_time"], "07": []}[number])
    assert "mask_images" not in {problem["code"] for problem in row["problems"] or ()}


def test_an_update_of_sixteen_columns(samples: Path) -> None:
    row = the_event(samples, "06")
    assert row["position"] == row["commit_position"] == "20230321213416580000000000000000017"
    assert row["transaction_id"] == "0000000066DA0202A903000000000000"
    assert row["changed_at"].isoformat() == "2023-03-21T21:34:19.511000+00:00"
    assert (row["event_no"], row["last_in_transaction"]) == (1, True)
    assert row["before"]["load_date_time"] is None
    assert row["after"]["load_date_time"] == "2023-03-21 14:34:21.000000"
    assert row["present_columns"] == list(row["after"])
    assert len(row["after"]) == 16


def test_a_column_that_was_not_captured_is_no_null(samples: Path) -> None:
    row = the_event(samples, "07")
    assert row["present_columns"] == ["CUSTOMER_ID", "LAST_NAME"]
    assert row["after"] == row["before"] == {"CUSTOMER_ID": "14", "LAST_NAME": "test2"}


def test_the_form_of_attunity_5_is_refused_with_its_cure(samples: Path) -> None:
    (row,) = read(sample(samples, "12"), format="qlik-kafka").to_pylist()
    (problem,) = row["problems"]
    assert (row["kind"], row["raw"], problem["code"]) == (
        "malformed", sample(samples, "12").read_bytes().rstrip(), "malformed"
    )  # fmt: skip
    assert "publish the table with Replicate 6 or later" in problem["detail"]
    assert identify(sample(samples, "12")).format == "qlik-kafka"


def test_a_message_that_is_cut_off_is_malformed_and_kept(samples: Path) -> None:
    path = sample(samples, "11")
    (row,) = read(path, format="qlik-kafka").to_pylist()
    assert row["kind"] == "malformed"
    assert row["raw"] == path.read_bytes().rstrip()
    (problem,) = row["problems"]
    assert problem["code"] == "truncated"
    assert problem["detail"] == f"the JSON message is cut off after byte {len(row['raw'])}"
    assert (row["record_type"], row["operation"], row["after"]) == (None, None, None)
    found = get_format("qlik-kafka").recognise([str(path)], {})
    assert found.confidence > 0.9


@pytest.mark.parametrize("number", ["04", "05", "13", "14", "15", "20"])
def test_schemas_and_notes_are_no_captures(samples: Path, number: str) -> None:
    with pytest.raises(UnknownFormatError):
        identify(sample(samples, number))


@pytest.mark.parametrize("number", ["01", "03", "06", "07"])
def test_every_byte_of_a_real_message_stands_in_its_tree(samples: Path, number: str) -> None:
    path = sample(samples, number)
    found = inspect(path, 100)
    leaves = [field for field in found.field.walk() if not field.children]
    assert (
        b"".join(field.raw for field in leaves) == path.read_bytes().rstrip()
        or sum(field.length for field in leaves) == found.field.length
    )
    assert not [field for field in leaves if field.problem == "malformed"]
