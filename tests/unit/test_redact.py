"""What the notebooks of a suite open: the same capture, read once, and without the values that are to stay inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb import model
from cdcwb.capture import Capture
from cdcwb.errors import OptionError
from cdcwb.opening import open_small
from cdcwb.report.opening import PREPARED, check_parameters
from cdcwb.report.redact import REDACTED, RedactedColumn, Redaction, save_captures, targets

DATA = Path(__file__).parents[2] / "data"
OPTIONS = {"gbase8s": {"labels": str(DATA / "gbase8s.labels.json")}}
FORMATS = ["debezium", "gbase8s", "goldengate", "idm-event-log", "qlik-change-table", "qlik-kafka"]
REDACTABLE = [name for name in FORMATS if name != "idm-event-log"]
SECRET = "full_name"
KAFKA = {f"kafka.{name}" for name in ("offset", "partition", "timestamp", "timestamp_type", "topic")}

Row = dict[str, Any]
Kept = Callable[..., Path]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A capture of ``data/`` as it is kept for reports, without the columns named; each is made once."""
    made: dict[tuple[str, ...], Path] = {}

    def keeping(name: str, *hidden: str) -> Path:
        if (name, *hidden) not in made:
            place = str(tmp_path_factory.mktemp("kept"))
            (saved,) = save_captures([(str(DATA / name), "auto", OPTIONS.get(name, {}))], hidden, place, place)
            made[(name, *hidden)] = Path(saved)
        return made[(name, *hidden)]

    return keeping


def opened(name: str) -> Capture:
    return cdcwb.load(DATA / name, **OPTIONS.get(name, {}))


def rows_of(folder: Path, table: str) -> list[Row]:
    names = model.TABLES[table].names
    found = pq.read_table(folder / table, columns=names, coerce_int96_timestamp_unit="us")
    rows: list[Row] = found.cast(model.TABLES[table]).to_pylist()
    return rows


def images(rows: list[Row]) -> list[tuple[str | None, str, str]]:
    """Table, column and value of everything in the images and keys of rows; NULLs apart."""
    return [
        (row["table_name"], column, value)
        for row in rows
        for name in ("key", "before", "after")
        for column, value in row[name] or ()
        if value is not None
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_kept_is_the_capture_row_for_row(kept: Kept, name: str) -> None:
    folder = kept(name)
    read = open_small(DATA / name, options=OPTIONS.get(name, {}))
    assert read is not None
    for table in model.TABLES:
        assert sorted(map(repr, rows_of(folder, table))) == sorted(map(repr, read.table(table).to_pylist())), table
    again, live = cdcwb.load(folder), opened(name)
    assert (again.format, again.files, again.facts) == (live.format, live.files, live.facts)


def test_a_page_speaks_of_the_files_and_opens_what_was_kept(kept: Kept) -> None:
    asked = check_parameters(str(kept("gbase8s")))
    assert asked.shown == str(DATA / "gbase8s")
    assert asked.path == str(kept("gbase8s"))


@pytest.mark.parametrize("name", REDACTABLE)
def test_a_column_that_is_taken_out_is_nowhere(kept: Kept, name: str) -> None:
    secrets = {value for _, column, value in images(rows_of(kept(name), "changes")) if column == SECRET}
    secrets = {value for value in secrets if len(value) > 5}
    assert len(secrets) > 20
    folder = kept(name, f"customer.{SECRET}")
    for table in model.TABLES:
        for row in rows_of(folder, table):
            text = repr({key: value for key, value in row.items() if not isinstance(value, bytes)})
            binary = b"".join(value for value in row.values() if isinstance(value, bytes)) + bytes.fromhex(
                row.get("first_bytes") or ""
            )
            for secret in secrets:
                assert secret not in text, table
                assert secret.encode() not in binary, table


@pytest.mark.parametrize("name", REDACTABLE)
def test_everything_else_stays_as_it_is(kept: Kept, name: str) -> None:
    same = ("position", "operation", "transaction_id", "table_name", "outcome", "change_mask", "column_mask")
    same += ("changed_columns", "present_columns", "committed_at", "source_events")

    def told(rows: list[Row]) -> list[str]:
        return sorted(
            repr([row[column] for column in same])
            + repr([(t, c, v) for t, c, v in images([row]) if c != SECRET])
            + repr([[name for name, _ in row[image] or ()] for image in ("key", "before", "after")])
            for row in rows
        )

    whole, without = kept(name), kept(name, f"customer.{SECRET}")
    assert told(rows_of(whole, "changes")) == told(rows_of(without, "changes"))
    for table in ("transactions", "table_versions"):
        assert sorted(map(repr, rows_of(whole, table))) == sorted(map(repr, rows_of(without, table)))
    codes = [Counter((row["code"], row["table"]) for row in rows_of(one, "problems")) for one in (whole, without)]
    assert codes[0] == codes[1]


@pytest.mark.parametrize("name", REDACTABLE)
def test_equal_values_share_a_mark_and_others_do_not(kept: Kept, name: str) -> None:
    def values(folder: Path) -> dict[tuple[str, int, str], str | None]:
        return {
            (row["file"], row["offset"], image): dict(row[image]).get(SECRET)
            for row in rows_of(folder, "changes")
            for image in ("before", "after")
            if row["table_name"] == "customer" and SECRET in dict(row[image] or ())
        }

    whole, without = values(kept(name)), values(kept(name, f"customer.{SECRET}"))
    assert whole.keys() == without.keys()
    pairs = {(whole[place], without[place]) for place in whole}
    assert len(pairs) == len({value for value, _ in pairs}) == len({mark for _, mark in pairs})
    assert all((value is None) is (mark is None) for value, mark in pairs)
    assert all(mark.startswith(f"{REDACTED} ") for _, mark in pairs if mark is not None)


@pytest.mark.parametrize("name", REDACTABLE)
def test_bytes_become_hashes_and_header_fields_are_left_out_but_those_of_kafka(kept: Kept, name: str) -> None:
    events = rows_of(kept(name, f"customer.{SECRET}"), "events")
    assert {len(row["raw"]) for row in events if row["raw"]} == {32}
    for row in events:
        assert set(dict(row["headers"] or ())) <= KAFKA


def test_an_event_log_is_refused_because_its_header_fields_are_its_rows() -> None:
    with pytest.raises(OptionError, match="an event log has the values of all columns in the same fields"):
        targets([opened("idm-event-log")], [f"customer.{SECRET}"])


def test_only_the_named_columns_are_replaced() -> None:
    row = {"offset": 0, "kind": "change", "schema_name": "HR", "headers": {"TKN-NAME": "Piet Holm"}}
    image = {"NAME": "Piet Holm", "CITY": "Graben"}
    rows = [row | {"table_name": "EMP", "after": image}, row | {"table_name": "DEPT", "after": image}]
    batch = pa.RecordBatch.from_pylist(rows, model.EVENTS)
    found = Redaction([RedactedColumn("HR.EMP", "NAME")]).rows(batch).to_pylist()
    assert dict(found[0]["after"])["NAME"].startswith(REDACTED)
    assert dict(found[0]["after"])["CITY"] == "Graben"
    assert dict(found[1]["after"]) == image
    assert [row["headers"] for row in found] == [[], []]


@pytest.mark.parametrize("name", ["ΟΔΟΣ", "İD"])
def test_letters_whose_lower_case_depends_on_the_library_are_redacted(name: str) -> None:
    row = {"offset": 0, "kind": "change", "table_name": name, "after": {name: "Piet Holm"}}
    found = Redaction([RedactedColumn(name, name)]).rows(pa.RecordBatch.from_pylist([row], model.EVENTS))
    assert "Piet Holm" not in str(found.to_pylist())


def test_columns_are_found_whatever_their_case_and_with_or_without_schema() -> None:
    live = opened("goldengate")
    wanted = [RedactedColumn("shop.customer", SECRET)]
    assert targets([live], ["SHOP.Customer.FULL_NAME"]) == targets([live], ["customer.full_name"]) == [wanted]


def test_a_column_that_is_not_there_is_refused_with_the_nearest_and_all_are_named() -> None:
    with pytest.raises(OptionError) as caught:
        targets([opened("goldengate")], ["shop.customer.ful_name", "customer.city", "nothing.at_all"])
    message = str(caught.value)
    assert (
        "there is no column 'shop.customer.ful_name' in the capture. Did you mean 'shop.customer.full_name'?" in message
    )
    assert "there is no column 'nothing.at_all' in the capture." in message
    assert "'customer.city'" not in message


def test_what_is_prepared_for_pages_names_the_capture_and_no_redacted_value(kept: Kept) -> None:
    path, answers = PREPARED[str(kept("gbase8s", f"customer.{SECRET}"))]
    text = repr(answers)
    assert path == str(DATA / "gbase8s")
    shown = images(rows_of(kept("gbase8s"), "changes"))
    secrets = {value for _, column, value in shown if column == SECRET and len(value) > 5}
    assert len(secrets) > 20
    assert not [value for value in secrets if repr(value)[1:-1] in text]
