"""Plans of Kafka captures: parts, what is detected and overridden, modes, filters and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cdcwb_synth as synth
from cdcwb.errors import CaptureError, MalformedRecordError, OptionError
from cdcwb.formats import get_format, identify
from cdcwb.formats.dissector import Wanted
from tests.kafka import (
    AFTER,
    BEFORE,
    FORMAT,
    HEADERS,
    SCHEMA_ID,
    STOCK,
    WRITTEN,
    avro,
    avro_envelope,
    avro_record,
    data_schema,
    enveloped,
    framed,
    metadata,
    record,
    rows,
    versions,
    write,
)
from tests.local import allows, plan_of, read

CAPTURES: dict[str, dict[str, Any]] = {
    "lines": {"form": "json-envelope", "container": "lines", "metadata": "late"},
    "console": {"form": "json", "container": "console", "generation": "external"},
    "documents": {"form": "json", "container": "documents"},
    "kcat": {"form": "avro-envelope", "container": "kcat", "tombstone_share": 0.5},
    "parquet": {"form": "confluent", "container": "parquet", "tombstone_share": 0.5},
    "avro": {"form": "avro-envelope", "container": "avro"},
}

WHOLE = ("documents", "parquet", "avro")
"""Containers that are not cut, or only between blocks."""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """A small capture in every container, with the options that it is read with."""
    found = {}
    for name, options in CAPTURES.items():
        to = tmp_path_factory.mktemp(name)
        given = {"tables": 2, "schema_changes": 2, "all_types": False, "refresh_rows": 3, "partitions": 2} | options
        synth.generate(FORMAT, changes=40, seed=5, to=to, **given)
        found[name] = to / "capture", {"registry": str(to / "registry")} if (to / "registry").exists() else {}
    return found


def detected(path: Path, setting: str, **options: Any) -> list[dict[str, Any]]:
    return [row for row in plan_of(path, FORMAT, **options).detected if row["setting"] == setting]


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURES)
def test_parts_of_any_size_hold_the_same_events(captures: dict[str, tuple[Path, dict[str, Any]]], name: str) -> None:
    path, options = captures[name]
    whole = read(path, format=FORMAT, **options)
    assert whole.num_rows > 40
    for size in (97, 1000, 5001):
        plan = plan_of(path, FORMAT, split_size=size, **options)
        assert len(plan.splits) > len(plan.containers) or name in WHOLE or size > 1000
        assert read(path, format=FORMAT, split_size=size, **options).equals(whole), size


def test_metadata_that_comes_again_is_a_repeat_and_other_metadata_under_its_id_is_reported(tmp_path: Path) -> None:
    first, other = metadata({"id": "INT4", "name": "STRING"}), metadata({"id": "INT4", "price": "NUMERIC"})
    later = metadata({"id": "INT4", "name": "STRING"}, timestamp="y")  # sent again
    path = write(tmp_path, first, later, other, other, enveloped(record(AFTER, BEFORE)))
    plan = plan_of(path, FORMAT, **WRITTEN)
    assert [(one.table_version, [column.name for column in one.columns]) for one in plan.versions] == [
        (SCHEMA_ID, ["id", "name"])
    ]
    events = read(path, format=FORMAT, **WRITTEN).to_pylist()
    problems = [[one["code"] for one in row["problems"] or ()] for row in events]
    assert problems == [[], [], ["schema_mismatch"], ["schema_mismatch"], []]
    sentence = events[2]["problems"][0]["detail"]
    assert f"that the first metadata message with schema id {SCHEMA_ID} describes, found others" in sentence
    assert [row["kind"] for row in events] == ["schema"] * 4 + ["change"]
    assert dict(events[-1]["after"]) == {"id": "7", "name": "quartz"}


def test_what_is_not_resolved_is_counted(tmp_path: Path) -> None:
    schema = data_schema({"id": "int", "name": "string"})
    message = avro_record(schema, AFTER, BEFORE)
    path = write(
        tmp_path, enveloped(record(AFTER)), avro_envelope(message, "AB"), framed(1, message), framed(2, message)
    )
    plan = plan_of(path, FORMAT, **WRITTEN)
    assert (plan.facts["unresolved_schemas"], plan.facts["messages"]) == (4, 4)
    (row,) = detected(path, "metadata", **WRITTEN)
    assert row["evidence"] == "0 of 2 schema ids that data messages name have their metadata message"
    (row,) = detected(path, "registry", **WRITTEN)
    assert (row["value"], row["evidence"]) == (
        "none", "0 of 2 schema ids of the Confluent framing are in the registry"
    )  # fmt: skip


# --- byte order of masks ----------------------------------------------------------------------------------------------

WIDE = data_schema({f"c{at:02}": "int" for at in range(20)})


def wide(changed: list[int], present: list[int] | None, order: str, **headers: Any) -> bytes:
    """An update of a table of 20 columns, in which these columns change."""
    masks = {
        "changeMask": sum(1 << at for at in changed).to_bytes(3, order),  # type: ignore[arg-type]
        "columnMask": None if present is None else sum(1 << at for at in present).to_bytes(3, order),  # type: ignore[arg-type]
    }
    before = {f"c{at:02}": at for at in range(20)}
    after = {name: value + 100 if value in changed else value for name, value in before.items()}
    return avro_envelope(avro_record(WIDE, after, before, **(masks | headers)), None, messageSchema=WIDE)


@pytest.mark.parametrize("order", ["big", "little"])
def test_the_order_of_masks_is_told_by_column_masks(tmp_path: Path, order: str) -> None:
    everything = list(range(20))
    path = write(tmp_path, *(wide(everything, everything, order, operation="INSERT") for _ in range(3)))
    (row,) = detected(path, "mask_order", **WRITTEN)
    assert (row["value"], row["overridden"], row["scope"]) == (order, False, "capture")
    digits = "0FFFFF" if order == "big" else "FFFF0F"
    sentence = "of 6 masks, 6 have bits of columns only, in the other order 0"
    assert row["evidence"] == f"{sentence}; e.g. {digits} and {digits}"
    assert [one["present_columns"] for one in rows(path)] == [[f"c{at:02}" for at in everything]] * 3
    assert [one["problems"] for one in rows(path)] == [[]] * 3


@pytest.mark.parametrize("order", ["big", "little"])
def test_the_order_of_masks_is_told_by_images(tmp_path: Path, order: str) -> None:
    # bits 0 and 17 are bits 1 and 16 in the other order, which are columns as well: only the images tell
    path = write(tmp_path, wide([0, 17], None, order), wide([3], None, order), wide([9], None, order))
    (row,) = detected(path, "mask_order", **WRITTEN)
    assert row["value"] == order
    assert "3 against 1 of 3 agree with images, key or INSERT" in row["evidence"]
    assert [one["changed_columns"] for one in rows(path)] == [["c00", "c17"], ["c03"], ["c09"]]


def test_an_option_overrides_the_order_of_masks(tmp_path: Path) -> None:
    path = write(tmp_path, wide([0, 17], None, "big"))
    (row,) = detected(path, "mask_order", mask_order="little", **WRITTEN)
    assert (row["value"], row["overridden"], row["evidence"]) == ("little", True, "given as an option")
    (one,) = rows(path, mask_order="little")
    assert (one["changed_columns"], one["problems"]) == (["c01", "c16"], ["mask_images"])
    assert rows(path, mask_order="BIG")[0]["changed_columns"] == ["c00", "c17"]


def test_masks_that_say_nothing_are_read_as_json_writes_them(tmp_path: Path) -> None:
    path = write(tmp_path, wide([9], None, "big"))
    (row,) = detected(path, "mask_order", **WRITTEN)
    assert (row["value"], row["overridden"]) == ("big", False)
    assert "most significant byte first, is assumed" in row["evidence"]
    assert detected(write(tmp_path, record(AFTER, BEFORE)), "mask_order", **WRITTEN) == [], "JSON leaves no choice"


# --- names of tables --------------------------------------------------------------------------------------------------


def topic(folder: Path, *messages: tuple[str | None, str | None, Any]) -> Path:
    """Messages as kcat prints them: topic, key, message."""
    lines = [
        {
            "topic": name,
            "partition": 0,
            "offset": at,
            "tstype": "create",
            "ts": at,
            "key": key,
            "payload": json.dumps(one),
        }
        for at, (name, key, one) in enumerate(messages)
    ]
    path = folder / "topic.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def inserted(row: dict[str, Any], **headers: Any) -> dict[str, Any]:
    return record(row, **({"operation": "INSERT", "changeMask": None, "columnMask": None} | headers))


def tables(path: Path, **options: Any) -> list[str | None]:
    return read(path, format=FORMAT, **options).column("table_name").to_pylist()


def test_an_option_names_the_table_of_messages_without_metadata(tmp_path: Path) -> None:
    message = inserted({"id": 1, "__table": "added"})
    path = topic(tmp_path, ("shop.topic", "shop.key", message), ("shop.topic", "key", message))
    assert tables(path) == ["topic"] * 2
    assert tables(path, table="auto") == ["topic"] * 2
    assert tables(path, table="shop.given") == ["given"] * 2
    (row,) = detected(path, "table", table="shop.given")
    assert (row["value"], row["scope"], row["overridden"]) == ("shop.given", "shop.given", True)


def test_keys_and_columns_do_not_name_tables(tmp_path: Path) -> None:
    path = topic(tmp_path, *((None, f"AB.C{at}", inserted({"id": at, "table_name": f"t{at}"})) for at in range(4)))
    assert tables(path) == [None] * 4
    assert detected(path, "table") == []


def test_a_topic_of_several_tables_names_none(tmp_path: Path) -> None:
    one, other = inserted({"a": 1, "b": 2, "c": 3}), inserted({"x": 1, "y": 2})
    path = topic(tmp_path, ("shop.all", None, one), ("shop.all", None, other))
    assert tables(path) == [None, None]
    (row,) = detected(path, "table")
    assert (row["value"], row["evidence"]) == (
        "none", "rows under shop.all have different columns (a, b … and x, y …)"
    )  # fmt: skip
    assert [version.table_version for version in versions(path, container="auto")] == ["unnamed@1", "unnamed@2"]


@pytest.mark.parametrize("place", ["message", "headers", "several tables", "option"])
def test_a_topic_does_not_name_a_framed_message_that_names_its_table_or_shares_the_topic(
    tmp_path: Path, place: str
) -> None:
    columns = [
        {"a": "int", "b": "int"},
        {"x": "int", "y": "int"} if place == "several tables" else {"a": "int", "b": "int"},
    ]
    values = []
    for number, names in enumerate(columns):
        schema = json.loads(data_schema(names, None))
        named = {"table": f"t{number}", "schema": "shop"} if place != "several tables" else {}
        fields = schema["fields"] if place == "message" else schema["fields"][2]["type"]["fields"]
        fields += [{"name": name, "type": "string"} for name in named]
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
        masks = {"changeMask": b"\x02", "columnMask": b"\x03"}
        headers = HEADERS | masks | {"operation": "INSERT"} | ({} if place == "message" else named)
        body = {"data": dict.fromkeys(names, 1), "beforeData": None, "headers": headers} | named
        values.append(framed(number, avro(json.dumps(schema), body)))
    path = tmp_path / "topic.parquet"
    pq.write_table(
        pa.table({"value": pa.array(values, pa.binary()), "topic": ["shop.all"] * 2, "offset": [0, 1]}), path
    )
    options = {"registry": str(tmp_path)} | ({"table": "s.given"} if place == "option" else {})
    expected = {"several tables": [None, None], "option": ["given", "given"]}.get(place, ["t0", "t1"])
    assert tables(path, **options) == expected


@pytest.mark.parametrize("option", ["registry", "avro_schema"])
def test_avro_is_recognised_by_the_schemas_that_are_given(tmp_path: Path, option: str) -> None:
    (tmp_path / "schemas").mkdir()
    for number in range(8):
        (tmp_path / "schemas" / f"{number}.avsc").write_text(STOCK)
    message = avro_record(STOCK, AFTER, BEFORE)
    path = write(tmp_path, *(framed(number, message) if option == "registry" else message for number in range(8)))
    given = {"registry": tmp_path / "schemas", "avro_schema": tmp_path / "schemas" / "0.avsc"}[option]
    found = identify(path, **{option: str(given)})
    assert (found.format, found.confidence) == (FORMAT, 0.98)


def test_ordinals_that_are_the_order_of_keys_are_said_to_be(tmp_path: Path) -> None:
    path = write(tmp_path, record(AFTER, BEFORE), record({"name": "x", "id": 7}, {"name": "x", "id": 8}))
    assert [row["changed_columns"] for row in rows(path)] == [["name"], ["id"]]
    (row,) = detected(path, "ordinals", **WRITTEN)
    assert row["value"] == "key order"
    assert row["evidence"].startswith("no metadata: 2 table versions are the key orders of `data`")
    assert detected(write(tmp_path, metadata({"id": "INT4"}), enveloped(record(AFTER))), "ordinals", **WRITTEN) == []


# --- modes ------------------------------------------------------------------------------------------------------------


def test_failfast_names_file_and_offset_of_the_first_bad_message(tmp_path: Path) -> None:
    good = record(AFTER, BEFORE)
    path = write(tmp_path, good, good, b"{oops", good, b"hello")
    offset = 2
    for size in (64, 1 << 20):
        with pytest.raises(MalformedRecordError, match="expected a JSON document") as caught:
            plan_of(path, FORMAT, mode="FAILFAST", split_size=size, **WRITTEN)
        assert (caught.value.path, caught.value.offset) == (str(path), offset)
    clean = write(tmp_path, good, None)
    assert len(plan_of(clean, FORMAT, mode="failfast", **WRITTEN).splits) == 1


def test_malformed_messages_can_be_left_out(tmp_path: Path) -> None:
    good = record(AFTER, BEFORE)
    path = write(tmp_path, good, b"{oops", None, good)
    kept = read(path, Wanted(drop_malformed=True), format=FORMAT, **WRITTEN)
    assert kept.column("kind").to_pylist() == ["change", "tombstone", "change"]
    assert kept.equals(read(path, format=FORMAT, mode="DROPMALFORMED", **WRITTEN).filter(_not_malformed(path)))


def _not_malformed(path: Path) -> pa.Array:
    kinds = read(path, format=FORMAT, **WRITTEN).column("kind").to_pylist()
    return pa.array([kind != "malformed" for kind in kinds])


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURES)
def test_headers_only_are_the_same_events_without_images(
    captures: dict[str, tuple[Path, dict[str, Any]]], name: str
) -> None:
    path, options = captures[name]
    whole, bare = read(path, format=FORMAT, **options), read(path, Wanted(images=False), format=FORMAT, **options)
    gone = ("key", "before", "after", "raw", "problems")
    same = [column for column in whole.column_names if column not in gone]
    assert bare.select(same).equals(whole.select(same))
    for column in ("before", "after", "raw"):
        assert bare.column(column).null_count == bare.num_rows


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with every kind of event."""
    folder = tmp_path_factory.mktemp("mixed")
    schema = data_schema({"id": "int", "name": "string"})
    described = metadata({"id": "INT4", "name": "STRING"})
    other = metadata({"id": "INT4"}, "AB", schema="mart", table="sales")
    plain = {"transactionId": "", "timestamp": ""}
    return write(
        folder,
        described,
        enveloped(record(AFTER, BEFORE)),
        None,
        b"{oops",
        other,
        enveloped(record({"id": 1}, operation="INSERT", transactionId="T2", changeMask=None, columnMask=None), "AB"),
        enveloped(record({"id": 1}, operation="REFRESH", changeMask=None, columnMask=None, **plain), "AB"),
        avro_envelope(avro_record(schema, AFTER, BEFORE, transactionId="T2", timestamp="1970-01-01T00:00:00")),
        avro_envelope(b"", "missing"),
        record(AFTER, BEFORE, table="stock"),
        b"\x01\x02",
    )


some = st.none() | st.frozensets(
    st.sampled_from(["change", "schema", "tombstone", "malformed", "filler", "shop.stock", "stock", "mart.sales", "T2",
                     HEADERS["transactionId"], "nothing"])
)  # fmt: skip


@settings(max_examples=40)
@given(kinds=some, tables=some, transactions=some, timed=st.booleans(), dropped=st.booleans(), images=st.booleans())
def test_filters_are_those_of_the_events_themselves(
    mixed: Path, kinds: Any, tables: Any, transactions: Any, timed: bool, dropped: bool, images: bool
) -> None:
    wanted = Wanted(images, kinds, tables, transactions, timed, dropped)
    whole = read(mixed, Wanted(images=images), format=FORMAT, **WRITTEN)
    keep = [allows(wanted, row) for row in whole.to_pylist()]
    found = read(mixed, wanted, format=FORMAT, **WRITTEN)
    assert found.equals(whole.filter(pa.array(keep, pa.bool_())))


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"registy": "x"}, "unknown option 'registy' for qlik-kafka. Did you mean 'registry'?"),
        ({"mask-order": "big"}, "unknown option 'mask-order' for qlik-kafka. Did you mean 'mask_order'?"),
        ({"mask_order": "litle"}, "option mask_order: expected one of auto, big, little, found 'litle'. Did you mean"),
        ({"mode": "FAIL"}, "mode: expected one of PERMISSIVE, DROPMALFORMED, FAILFAST, found 'FAIL'. Did you mean"),
        ({"container": "line"}, "found 'line'. Did you mean 'lines'?"),
        ({"split_size": 10}, "option split_size: expected a whole number of at least 64, found 10"),
        ({"registry": "/nowhere/at/all"}, "option registry: expected a folder of <id>.avsc files"),
        ({"avro_schema": "/nowhere/at/all"}, "option avro_schema: '/nowhere/at/all' cannot be read"),
    ],
)  # fmt: skip
def test_wrong_options_say_what_is_wrong_and_what_is_near(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    path = write(tmp_path, record(AFTER, BEFORE))
    with pytest.raises(OptionError) as caught:
        plan_of(path, FORMAT, **given)
    assert sentence in str(caught.value)


def test_options_that_are_empty_are_not_given(tmp_path: Path) -> None:
    path = write(tmp_path, record(AFTER, BEFORE))
    empty = dict.fromkeys(get_format(FORMAT).options, "") | {"metadata": ()}
    assert plan_of(
        path,
        FORMAT,
        **empty,
    ) == plan_of(path, FORMAT)


# --- rows of a table --------------------------------------------------------------------------------------------------


def rows_plan(batches: list[pa.RecordBatch], **options: Any) -> tuple[Any, pa.Table]:
    """The plan of a table of rows, and its events, each batch being a partition."""
    form = get_format(FORMAT)
    plan = form.plan_rows(
        "topic", batches[0].schema, lambda function: [function(iter([one])) for one in batches], options
    )
    plan = form.plan_from_text(plan.to_text())
    found = [event for one in batches for event in form.read_rows(plan, iter([one]), Wanted())]
    return plan, pa.Table.from_batches(found)


def test_rows_with_topics_stand_in_their_partitions(tmp_path: Path) -> None:
    described, message = metadata({"id": "INT4", "name": "STRING"}), enveloped(record(AFTER, BEFORE))
    values = [json.dumps(one).encode() for one in (message, described, message)]
    batches = [
        pa.record_batch(
            {"value": values[:2], "topic": ["b", "a"], "partition": [1, 0], "offset": [7, 3], "_row": [0, 1]}
        ),
        pa.record_batch({"value": values[2:], "topic": ["a"], "partition": [0], "offset": [4], "_row": [2]}),
    ]
    plan, table = rows_plan(batches)
    assert plan.partitions == [("a", 0), ("b", 1)]
    found = table.select(["file", "file_index", "offset", "length", "offset_unit"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("b-1", 1, 7, 1, "message"), ("a-0", 0, 3, 1, "message"), ("a-0", 0, 4, 1, "message")
    ]  # fmt: skip
    assert table.column("table_name").to_pylist() == ["stock"] * 3
    assert table.column("problems").null_count == 3


def test_rows_without_topics_stand_by_their_numbers() -> None:
    value = json.dumps(record(AFTER, BEFORE))
    plan, table = rows_plan([pa.record_batch({"Value": [value, None, value], "_row": [0, 1, 2]})])
    found = table.select(["file", "offset", "length", "offset_unit", "kind"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("topic", 0, 1, "row", "change"), ("topic", 1, 1, "row", "tombstone"), ("topic", 2, 1, "row", "change")
    ]  # fmt: skip
    assert plan.partitions == []
    with pytest.raises(CaptureError, match="expected Kafka's columns, at least `value`, found key"):
        rows_plan([pa.record_batch({"key": ["x"], "_row": [0]})])


@pytest.mark.parametrize("order", ["big", "little"])
def test_the_order_of_masks_of_rows_is_detected(order: str) -> None:
    batch = pa.record_batch({"value": [wide([0, 17], None, order)], "_row": [0]})
    plan, table = rows_plan([batch])
    assert plan.settings.mask_order == order
    assert table.column("changed_columns").to_pylist() == [["c00", "c17"]]
