"""The fast reader and the field tree say the same of every message, clean or damaged, and the ledger closes."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.containers.message_files import read as messages_of
from cdcwb.formats.dissector import Field, Wanted
from cdcwb.formats.qlik_kafka import tree as trees
from cdcwb.formats.qlik_kafka.versions import Version
from tests.containers import encoded
from tests.local import ledger, plan_of
from tests.mutate import mutate
from tests.qlik_trees import one_message

FORMAT = "qlik-kafka"
EPOCH = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
MAPS = ("key", "before", "after", "headers")
MASKS = {"changeMask": "changed", "columnMask": "captured"}


# --- what the tree says, as an event ----------------------------------------------------------------------------------


def is_object(field: Field) -> bool:
    """Is it an object or an array of JSON?"""
    return bool(field.children) and field.children[0].raw.rstrip().endswith((b"{", b"["))


def is_json(tree: Field) -> bool:
    return bool(tree.children) and tree.children[0].name == "opening"


def fields_of(field: Field | None) -> dict[str, Field]:
    """The fields inside a field: of an object in JSON, or of a record in Avro."""
    if field is None:
        return {}
    if is_object(field):
        return {child.name: child for child in field.children[1:-1]}
    return {child.name: child for child in field.children if child.name != "union index"}


def text_of(field: Field | None) -> str | None:
    """The text of a field, as a header or column has it."""
    return None if field is None else field.value


def texts_of(fields: Mapping[str, Field]) -> dict[str, str | None]:
    return {name: text_of(field) for name, field in fields.items()}


def image_of(field: Field | None) -> dict[str, str | None] | None:
    """The columns of ``data`` or ``beforeData``; None where there is no such image."""
    if field is None or (field.value is None and not fields_of(field) and not is_object(field)):
        return None
    return texts_of(fields_of(field))


class Parts:
    """The parts of a data message by its tree: what stands around it, its headers, its images."""

    def __init__(self, tree: Field) -> None:
        fields = fields_of(tree)
        while is_json(tree) and "magic" not in fields and {"schema", "payload"} <= fields.keys():
            fields = fields_of(fields["payload"])
        self.around: list[tuple[str, str | None]] = []
        self.masks: dict[str, Field] = {}
        if "magic" in fields:
            fields = self._envelope(fields)
        elif "schema id" in fields:
            self.around.append(("schemaId", fields.pop("schema id").value))
            del fields["magic byte"]
        fields.pop("record", None)
        headers = fields_of(fields.pop("headers", None))
        self.data, self.before = image_of(fields.pop("data", None)), image_of(fields.pop("beforeData", None))
        self.around += texts_of(fields).items()
        self.masks = {name: headers[name] for name in MASKS if name in headers}
        self.fields = headers
        self.headers = texts_of(headers)
        for name, field in self.masks.items():
            if any(child.name in ("bytes", "length") for child in field.children):
                self.headers[name] = (field.value or "").upper()

    def _envelope(self, fields: dict[str, Field]) -> dict[str, Field]:
        rest = dict(fields)
        message, extra = rest.pop("message"), rest.pop("headers", None)
        self.around = [("messageSchemaId", None), *texts_of(rest).items()]
        if rest.get("messageSchema") is None or rest["messageSchema"].value is None:
            self.around = [pair for pair in self.around if pair[0] != "messageSchema"]
        self.around = list(dict(self.around).items())
        if extra is not None:
            self.around += [(f"envelope.{name}", text) for name, text in envelope_headers(extra).items()]
        return {name: field for name, field in fields_of(message).items() if name != "length"}

    @property
    def all_headers(self) -> dict[str, str | None]:
        """Every header, those around the message first; one whose name is taken gets a number."""
        found: dict[str, str | None] = {}
        seen: dict[str, int] = {}
        for name, text in [*self.around, *self.headers.items()]:
            seen[name] = seen.get(name, 0) + 1
            found[name if seen[name] == 1 else f"{name}#{seen[name]}"] = text
        return found


def envelope_headers(field: Field) -> dict[str, str | None]:
    """What the envelope's own headers say: an object in JSON, a map in Avro."""
    if is_object(field) and field.children[0].raw.rstrip().endswith(b"{"):
        return texts_of(fields_of(field))
    if is_object(field) or field.value is not None:
        return {"headers": text_of(field)}
    return {part.name: part.value for part in field.children if any(one.name == "key" for one in part.children)}


def marked(parts: Parts, name: str, columns: Sequence[str]) -> list[str] | None:
    """The columns that a mask names; None where there is no mask, or it is none."""
    field = parts.masks.get(name)
    if field is None or field.value is None:
        return None
    words = {MASKS[name]: True, f"not {MASKS[name]}": False}
    bits = [words[child.value] for child in field.children if child.length == 0 and child.value in words]
    if not bits and field.problem == "mask" and "bits beyond" not in field.meaning:
        return None
    if not field.value or not columns:  # an empty mask has no bit
        return []
    assert len(bits) == len(columns)
    return [column for column, is_set in zip(columns, bits, strict=True) if is_set and column]


def whole_number(field: Field | None, text: str | None) -> int | None:
    return int(text) if field is not None and text and field.problem is None else None


def moment(field: Field | None, text: str | None) -> dt.datetime | None:
    if field is None or not text or field.problem is not None:
        return None
    found = dt.datetime.fromisoformat(text)
    found = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return found if found >= EPOCH else None


def change(tree: Field, version: Version | None) -> dict[str, Any]:
    """The event of a data message, by its tree."""
    parts = Parts(tree)
    headers = {name: text or None for name, text in parts.headers.items()}
    columns = list(parts.data or parts.before or ()) if version is None else version.bits
    changed, present = (marked(parts, name, columns) for name in MASKS)
    operation = parts.headers.get("operation")
    said = parts.fields.get("operation")
    if said is not None and said.problem is not None:
        operation = f"UNKNOWN({operation or ''})"
    images = [image for image in (parts.data, parts.before) if image is not None]
    absent = {
        name
        for name in columns
        if present is not None and name not in present and all(image.get(name) is None for image in images)
    }
    before, after = parts.before, parts.data
    if operation == "DELETE":
        is_empty = after is None or (before is not None and all(value is None for value in after.values()))
        before, after = before if is_empty else after, None
    row = after if after is not None else before
    keys = [] if version is None else version.key
    is_keyed = row is not None and keys and set(keys) <= row.keys()
    last = headers.get("transactionLastEvent")
    sequence = parts.fields.get("changeSequence")
    position = headers.get("changeSequence") if sequence is None or sequence.problem is None else None
    return {
        "record_type": "" if tree.name == "message" and parts.headers.get("operation") == "" else tree.name,
        "kind": "change",
        "operation": operation,
        "position": position,
        "commit_position": position if last is not None and last.lower() == "true" else None,
        "transaction_id": headers.get("transactionId"),
        "event_no": whole_number(parts.fields.get("transactionEventCounter"), headers.get("transactionEventCounter")),
        "last_in_transaction": None if last is None else last.lower() == "true",
        "changed_at": moment(parts.fields.get("timestamp"), headers.get("timestamp")),
        "change_mask": parts.headers.get("changeMask"),
        "column_mask": parts.headers.get("columnMask"),
        "changed_columns": changed,
        "present_columns": present,
        "key": {name: row[name] for name in keys} if is_keyed and row is not None else None,
        "before": _without(before, absent),
        "after": _without(after, absent),
        "headers": parts.all_headers,
    }


def _without(image: dict[str, str | None] | None, absent: set[str]) -> dict[str, str | None] | None:
    return None if image is None else {name: value for name, value in image.items() if name not in absent}


def schema(tree: Field) -> dict[str, Any]:
    """The event of a metadata message, by its tree: what is more than its headers."""
    fields = fields_of(tree)
    while is_json(tree) and "magic" not in fields and {"schema", "payload"} <= fields.keys():
        fields = fields_of(fields["payload"])
    body = fields_of(fields["message"]) if "magic" in fields else fields
    lineage = fields_of(body["lineage"]) if "lineage" in body and fields_of(body["lineage"]) else body
    found: dict[str, Any] = {"record_type": "MD", "kind": "schema"}
    for name, of, key in (
        ("schema_name", lineage, "schema"),
        ("table_name", lineage, "table"),
        ("table_version", body, "schemaId"),
    ):
        field = of.get(key)
        is_text = field is not None and (not is_json(tree) or field.raw.rstrip(b" \t\r\n,").endswith(b'"'))
        found[name] = (field.value or None) if field is not None and is_text else None
    return found


def told(tree: Field, version: Version | None) -> dict[str, Any]:
    """The event that a tree describes, with the codes of its problems."""
    codes = {str(field.problem) for field in tree.walk() if field.problem is not None}
    if tree.name == "tombstone":
        return {"kind": "tombstone", "record_type": None, "headers": {}, "codes": codes}
    if codes & {"malformed", "truncated"}:
        return {"kind": "malformed", "record_type": None, "headers": {}, "codes": codes, "before": None, "after": None}
    return {**(schema(tree) if tree.name == "MD" else change(tree, version)), "codes": codes}


# --- comparison -------------------------------------------------------------------------------------------------------


def states_of(plan: Any) -> dict[tuple[int, int], int]:
    """What the container says of each segment, by its file and place."""
    found = {}
    for index, container in enumerate(plan.containers):
        for batch in messages_of(container, 0, container.extent):
            found.update({(index, int(at)): int(state) for at, state in zip(batch.offset, batch.state, strict=True)})
    return found


def compare(row: Mapping[str, Any], plan: Any) -> None:
    """Holds an event to the tree of its message."""
    by_name = {version.table_version: version for version in plan.versions}
    schema = plan.containers[row["file_index"]].schema
    version = by_name.get(row["table_version"]) if row["record_type"] != "MD" else None
    tree = trees.dissect(one_message(row["raw"]), plan.settings, plan.lookup(), schema, row)
    expected = told(tree, version)
    found: dict[str, Any] = {**row, "codes": {problem["code"] for problem in row["problems"] or ()}}
    for name in MAPS:
        pairs = found[name]
        assert pairs is None or len(dict(pairs)) == len(pairs), f"{name} has a key twice"
        found[name] = None if pairs is None else dict(pairs)
    found["headers"] = {name: text for name, text in (found["headers"] or {}).items() if not name.startswith("kafka.")}
    place = (row["file"], row["offset"], row["raw"])
    for name, value in expected.items():
        assert found[name] == value, (name, found[name], value, place)
    if version is not None and version.table_name:
        assert (row["schema_name"], row["table_name"]) == (version.schema_name, version.table_name), place


def table_of(plan: Any, wanted: Wanted = Wanted()) -> pa.Table:  # noqa: B008  (it is frozen)
    form = get_format(FORMAT)
    batches = [batch for split in range(len(plan.splits)) for batch in form.read(plan, split, wanted)]
    return pa.Table.from_batches(batches, schema=model.EVENTS)


def check(path: Path, **options: Any) -> tuple[list[str], int]:
    """Compares every event of a capture with its tree, and its places with the ledger; returns the kinds of all events
    and how many of them have problems."""
    plan = plan_of(path, FORMAT, **options)
    table = table_of(plan)
    closed = ledger(table)
    for container in plan.containers:
        assert closed.get(container.path, 0) == (container.extent if container.count is None else container.count)
    states = states_of(plan)
    assert len(states) == table.num_rows
    rows = table.to_pylist()
    for row in rows:
        state = states[row["file_index"], row["offset"]]
        if state:
            assert row["kind"] == ("filler", "malformed", "malformed")[state - 1]
            assert row["kind"] == "filler" or row["problems"], "every gap has a reason"
        else:
            compare(row, plan)
    bare = table_of(plan, Wanted(images=False))
    same = [name for name in table.column_names if name not in ("key", "before", "after", "raw", "problems")]
    whole = pc.not_equal(table.column("kind"), "malformed")  # what is wrong inside an image is not seen without it
    assert bare.select(same).filter(whole).equals(table.select(same).filter(whole)), "headers only are the same events"
    return [row["kind"] for row in rows], sum(row["problems"] is not None for row in rows)


# --- clean captures ---------------------------------------------------------------------------------------------------

FORMS = ("json-envelope", "json", "avro-envelope", "confluent")
AVRO = ("avro-envelope", "confluent")


def made(to: Path, form: str, **options: Any) -> tuple[Path, dict[str, str]]:
    """A small capture with schema changes, columns that were not captured, and all column types; and the options that
    it is read with."""
    given: dict[str, Any] = {
        "changes": 50,
        "seed": 21,
        "container": "kcat" if form in AVRO else "lines",
        "tables": 2,
        "refresh_rows": 2,
        "column_mask": 0.4,
        "all_types_share": 0.2,
        "schema_changes": 3,
        "layout": "stream",
    }
    synth.generate(FORMAT, to=to, form=form, **(given | options))
    beside = {name: str(to / name) for name in ("registry", "metadata") if (to / name).exists()}
    return to / "capture", beside


CAPTURES: list[tuple[str, dict[str, Any]]] = [
    ("json-envelope", {"all_types_share": 0.5, "changes": 80}),
    ("json-envelope", {"metadata": "late", "container": "console", "naming": "message", "generation": "2018"}),
    ("json-envelope", {"metadata": "none", "generation": "external", "naming": "headers", "container": "kcat"}),
    ("json-envelope", {"metadata": "separate", "container": "documents", "compression": "gzip"}),
    ("json", {"generation": "external", "container": "parquet", "tombstone_share": 0.5}),
    ("json", {"generation": "2018", "container": "kcat", "naming": "message", "delete_row": "beforeData"}),
    ("json", {"container": "console", "naming": "none", "tombstone_share": 0.5}),
    ("avro-envelope", {"all_types_share": 0.5, "changes": 80}),
    ("avro-envelope", {"metadata": "late", "mask_order": "little", "logical": False, "container": "kcat"}),
    ("avro-envelope", {"metadata": "separate", "container": "avro", "generation": "external", "compression": "zstd"}),
    ("confluent", {"all_types_share": 0.5, "changes": 80, "delete_row": "beforeData"}),
    ("confluent", {"mask_order": "little", "container": "kcat", "generation": "2018"}),
    ("confluent", {"logical": False, "container": "parquet", "generation": "external", "tombstone_share": 0.5}),
    ("confluent", {"container": "console", "encoding": "base64", "columns": 300}),
]


@pytest.mark.parametrize(("form", "options"), CAPTURES, ids=[f"{at}-{form}" for at, (form, _) in enumerate(CAPTURES)])
def test_reader_and_tree_agree_on_every_message(tmp_path: Path, form: str, options: dict[str, Any]) -> None:
    path, beside = made(tmp_path, form, **options)
    kinds, problems = check(path, **beside)
    assert kinds.count("malformed") == problems == 0
    assert kinds.count("change") == json.loads((tmp_path / "synth.json").read_text())["captured_changes"]
    assert ("schema" in kinds) == (form.endswith("envelope") and options.get("metadata") not in ("none", "separate"))
    assert ("tombstone" in kinds) == ("tombstone_share" in options)


@pytest.mark.parametrize("form", AVRO)
def test_they_agree_where_schemas_are_missing(tmp_path: Path, form: str) -> None:
    path, _ = made(tmp_path, form, **({"metadata": "separate"} if form == "avro-envelope" else {}))
    kinds, problems = check(path)
    assert kinds == ["change"] * len(kinds)
    assert problems == len(kinds)


def test_they_agree_where_metadata_is_not_in_the_capture(tmp_path: Path) -> None:
    kinds, problems = check(made(tmp_path, "json-envelope", metadata="separate")[0])
    assert problems == len(kinds)


@pytest.mark.parametrize("form", AVRO)
def test_they_agree_where_the_order_of_masks_is_wrong(tmp_path: Path, form: str) -> None:
    path, beside = made(tmp_path, form)
    kinds, problems = check(path, mask_order="little", **beside)
    assert "malformed" not in kinds
    assert problems > 0


# --- damaged messages -------------------------------------------------------------------------------------------------

WORDS = (
    b"null", b"{}", b"[]", b"5", b'"x"', b"true", b'""', b'"MERGE"', b'"00"', b'"07"', b'"FF01"', b'"zz"', b'"DELETE"',
    b"1.5", b'"NULL"', b'"2026-13-01T00:00:00"', b'"1970-01-01T00:00:00"', b'[{"a":1.50,"b":null}]', b'"\\ud83d"',
    b'{"id":1}', b"-1", b"12345678901234567890123", b'"0x10"', b"false", b'"AQ=="', b'"UPDATE"',
    b'"20260203040506780000000000000000042"',
)  # fmt: skip


def values_of(path: Path, **options: Any) -> list[bytes]:
    """The values of all messages of a capture."""
    rows = table_of(plan_of(path, FORMAT, **options)).to_pylist()
    return [row["raw"] for row in rows if row["raw"] is not None]


def reworded(value: bytes, rng: random.Random) -> bytes:
    """JSON with some values exchanged for others, or a field repeated or taken out: mostly still JSON."""
    for _ in range(rng.randint(1, 3)):
        colon = value.find(b":", rng.randrange(len(value)))
        comma = value.find(b",", colon)
        if colon < 0 or comma < 0:
            continue
        kind, word = rng.random(), rng.choice(WORDS)
        if value[:colon].endswith(b'"op"') and word == b"1.5":
            continue  # the reader keeps it as text, so it takes it for an operation
        if kind < 0.7:
            value = value[: colon + 1] + word + value[comma:]
        else:
            first = max(0, value.rfind(b",", 0, colon))
            value = value[:first] + value[comma:] if kind < 0.85 else value[:comma] + value[first:]
    return value


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, str]]]:
    """A small capture in every form."""
    return {form: made(tmp_path_factory.mktemp(form), form) for form in FORMS}


def damaged_values(sample: tuple[Path, dict[str, str]], rng: random.Random, to: Path, count: int) -> None:
    """Checks a capture of which so many values are damaged, each on its own."""
    path, options = sample
    values = values_of(path, **options)
    metadata = [value for value in values if b'"MD"' in value[:60] or b"\x04MD" in value[:8]]
    metadata = [value for value in metadata if rng.random() < 0.8]
    data = [value for value in values if value not in metadata]
    damaged = []
    for _ in range(count):
        value = rng.choice(data if rng.random() < 0.9 or not metadata else metadata)
        is_text = value.startswith(b"{") and rng.random() < 0.8
        damaged.append(reworded(value, rng) if is_text else mutate(value, rng, 1))
    to.write_bytes(encoded(*metadata, *damaged, None))
    check(to, container="lines", encoding="base64", **options)


CONTAINERS = ("lines", "console", "documents", "kcat", "avro")


def held(form: str) -> list[str]:
    """The containers that hold messages of a form as they are."""
    text = {"lines", "console", "documents"}
    return [name for name in CONTAINERS if form not in AVRO or name not in text]


def files_of(to: Path, form: str) -> dict[str, tuple[list[bytes], dict[str, str]]]:
    """The bytes of small captures of a form, by what holds its messages, and the options that they are read with.

    Parquet is not among them: Arrow ends the process at some damage.
    """
    found = {}
    for name in held(form):
        path, beside = made(to / name, form, container=name, changes=8, tables=1, all_types=False)
        found[name] = [one.read_bytes() for one in sorted(path.rglob("*"))[:20] if one.is_file()], beside
    return found


def damaged_files(files: dict[str, tuple[list[bytes], dict[str, str]]], rng: random.Random, to: Path) -> None:
    """Checks a damaged capture, in one file or in two, read in parts of any size."""
    name = rng.choice(list(files))
    contents, beside = files[name]
    damaged = mutate(rng.choice(contents), rng)
    cut = rng.randrange(len(damaged) + 1) if rng.random() < 0.2 else len(damaged)
    to.mkdir()
    for number, part in enumerate((damaged[:cut], damaged[cut:])):
        (to / f"{number}").write_bytes(part)
    options = {"split_size": rng.choice((64, 500, 1 << 20)), **beside}
    options.update({"container": name} if rng.random() < 0.5 and name != "console" and name != "kcat" else {})
    try:
        check(to, **options)
    except CaptureError:
        if name != "avro":
            raise
    except Exception as reason:
        raise AssertionError(f"a damaged capture of {name} with {options}, in {to}") from reason


@pytest.mark.parametrize("form", FORMS)
def test_they_agree_on_damaged_messages(
    captures: dict[str, tuple[Path, dict[str, str]]], tmp_path: Path, form: str
) -> None:
    for seed in range(3):
        damaged_values(captures[form], random.Random(f"{form} {seed}"), tmp_path / f"{seed}.bin", 40)


@pytest.mark.parametrize("form", FORMS)
def test_they_agree_on_damaged_files_and_nothing_is_lost(tmp_path: Path, form: str) -> None:
    files = files_of(tmp_path / "clean", form)
    for seed in range(12):
        damaged_files(files, random.Random(f"{form} {seed}"), tmp_path / f"{seed}")


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_they_agree_on_many_damaged_captures(
    captures: dict[str, tuple[Path, dict[str, str]]], tmp_path: Path, form: str
) -> None:
    files = files_of(tmp_path / "clean", form)
    for seed in range(300):
        rng = random.Random(f"{form} full {seed}")
        damaged_values(captures[form], rng, tmp_path / "values.bin", 20)
        damaged_files(files, rng, tmp_path / f"{seed}")
