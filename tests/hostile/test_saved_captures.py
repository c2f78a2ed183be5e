"""A saved capture may come from anyone: whatever its files hold, it is opened, or refused with one sentence."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import cdcwb
from cdcwb.analysis.summary import summarize
from cdcwb.cli.app import main
from cdcwb.errors import CaptureError
from cdcwb.explore import explore
from cdcwb.report import check_parameters
from cdcwb.report.opening import look_at

DATA = Path(__file__).parents[2] / "data"
TABLES = ("events", "changes", "transactions", "table_versions", "problems", "detected")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capture") / "saved"
    assert main(["save", str(DATA / "gbase8s"), "--to", str(folder)]) == 0
    return folder


@pytest.fixture
def forged(capture: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(capture, tmp_path / "forged"))


def use(path: Path) -> None:
    """Everything that the explorer does without Spark."""
    explorer = explore(path).explorer
    for row in {0, explorer.index.records // 2, explorer.index.records - 1}:
        explorer.choose(row)
        explorer.detail()
        explorer.copy("json")
    explorer.page(0, 500)
    for line in (
        'operation == "UPDATE"',
        'outcome == "committed" and user != "x"',
        "after.state == 1",
        'time > "2020-01-01"',
    ):
        explorer.apply(line)
        explorer.advance()
        explorer.page(0, 10)
    explorer.apply("")
    explorer.problem(1)


def is_opened_or_refused(path: Path) -> str:
    """The sentence of the error; empty if it was opened."""
    try:
        use(path)
    except CaptureError as refused:
        sentence = refused.sentence
    else:
        return ""
    assert "\n" not in sentence
    return sentence


# --- cdcwb.json -------------------------------------------------------------------------------------------------------

NEVER: tuple[Any, ...] = (None, -1, 1.5, "x", [], {}, [None], True, 10**30)


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values."""
    if path:
        yield path
    if isinstance(content, (dict, list)):
        for key in content if isinstance(content, dict) else range(min(1, len(content))):
            yield from leaves(content[key], (*path, key))


def changed(content: Json, path: tuple[Any, ...], value: Any) -> Json:
    """The same content with another value; ... removes it."""
    content = copy.deepcopy(content)
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return content


MUST_BE_REFUSED: dict[str, Callable[[Json], Any]] = {
    "a list": lambda about: [about],
    "a number": lambda about: 5,
    "no version": lambda about: changed(about, ("version",), ...),
    "a later version": lambda about: changed(about, ("version",), 99),
    "a version that is a list": lambda about: changed(about, ("version",), [3]),
    "a version that is true": lambda about: changed(about, ("version",), True),
    "no format": lambda about: changed(about, ("format",), ...),
    "an unknown format": lambda about: changed(about, ("format",), "nowhere"),
    "a format that is a path": lambda about: changed(about, ("format",), "../../etc/passwd"),
    "a format that is a list": lambda about: changed(about, ("format",), ["gbase8s"]),
    "no files": lambda about: changed(about, ("files",), ...),
    "files that are a text": lambda about: changed(about, ("files",), "/etc/passwd"),
    "a file that is a text": lambda about: changed(about, ("files", 0), "/etc/passwd"),
    "a file without a path": lambda about: changed(about, ("files", 0, "file"), ...),
    "a path that leads up": lambda about: changed(about, ("files", 0, "file"), "../../etc/passwd"),
    "a path that leads up, later": lambda about: changed(about, ("files", 0, "file"), "/tmp/../etc/passwd"),
    "a path with a zero": lambda about: changed(about, ("files", 0, "file"), "/etc/passwd\0.bin"),
    "a long path": lambda about: changed(about, ("files", 0, "file"), "/a" * 10_000),
    "a negative index": lambda about: changed(about, ("files", 0, "file_index"), -1),
    "a huge index": lambda about: changed(about, ("files", 0, "file_index"), 1 << 40),
    "an index twice": lambda about: changed(about, ("files", 0, "file_index"), 1),
    "a size that is a text": lambda about: changed(about, ("files", 0, "size"), "big"),
    "a huge size": lambda about: changed(about, ("files", 0, "size"), 1 << 80),
    "facts that are a list": lambda about: changed(about, ("facts",), []),
    "records that are a text": lambda about: changed(about, ("facts", "records"), "many"),
    "continue that is a list": lambda about: changed(about, ("continue",), [1]),
    "options that are a list": lambda about: changed(about, ("continue", "options"), []),
    "a file to continue that leads up": lambda about: changed(about, ("continue", "files", 0), "../../etc/passwd"),
}

TEXTS = {
    "nothing": "",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "deep objects": '{"version":' * 50_000,
    "a number of 10,000 digits": '{"version": ' + "9" * 10_000 + "}",
    "no UTF-8": b"\xff\xfe{",
}

COMMANDS = {
    "summary": ["summary", "{}"],
    "summary as JSON": ["summary", "{}", "--json"],
    "identify": ["identify", "{}"],
    "export": ["export", "{}", "--view", "changes", "--to", "-"],
    "history": ["history", "{}", "--table", "customer", "--key", "customer_id=1"],
    "save elsewhere": ["save", "{}", "--to", "{}-copy"],
    "append": ["save", "{}", str(DATA / "gbase8s"), "--to", "{}-more"],
    "report": ["report", "{}", "--to", "{}-report"],
    "open": ["open", "{}", "--no-lab", "--to", "{}-workbench"],
    "xds": ["xds", "{}", "--to", "{}-xds"],
}


def is_refused(path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main([argument.replace("{}", str(path)) for argument in command])
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    (line,) = [line for line in err.splitlines() if line and not line.startswith("Try ")]
    assert line.startswith("cdcwb: ")
    assert len(line) < 1000


@pytest.mark.parametrize("name", MUST_BE_REFUSED)
def test_a_forged_description_is_refused(name: str, forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = forged / "cdcwb.json"
    about.write_text(json.dumps(MUST_BE_REFUSED[name](json.loads(about.read_text()))))
    is_refused(forged, COMMANDS["summary"], capsys)
    assert is_opened_or_refused(forged)


@pytest.mark.parametrize("name", TEXTS)
def test_a_description_that_is_not_json_is_refused(name: str, forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXTS[name]
    (forged / "cdcwb.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    is_refused(forged, COMMANDS["identify"], capsys)
    assert is_opened_or_refused(forged)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_forged_description(
    command: str, forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = forged / "cdcwb.json"
    about.write_text(json.dumps(changed(json.loads(about.read_text()), ("files",), [["/etc/passwd"]])))
    is_refused(forged, COMMANDS[command], capsys)


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_or_foreign_table_is_refused(
    table: str, capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(folder: Path) -> None:
        shutil.rmtree(folder)

    def cut(folder: Path) -> None:
        (file,) = folder.glob("*.parquet")
        file.write_bytes(file.read_bytes()[:-10])

    def emptied(folder: Path) -> None:
        next(folder.glob("*.parquet")).write_bytes(b"")

    def foreign(folder: Path) -> None:
        pq.write_table(pa.table({"x": [1]}), next(folder.glob("*.parquet")))

    def types(folder: Path) -> None:
        (file,) = folder.glob("*.parquet")
        rows = pq.read_table(file)
        columns = {name: pa.array([1.5] * len(rows)) for name in rows.column_names}
        pq.write_table(pa.table(columns), file)

    for number, damage in enumerate((without, cut, emptied, foreign, types)):
        copied = Path(shutil.copytree(capture, tmp_path / str(number)))
        damage(copied / table)
        is_refused(copied, COMMANDS["summary"], capsys)
        is_opened_or_refused(copied)


Values = Callable[[pa.Table], pa.Table]


def with_column(name: str, values: Any) -> Values:
    def forge(rows: pa.Table) -> pa.Table:
        column = pa.array([values] * len(rows), rows.schema.field(name).type)
        return rows.set_column(rows.column_names.index(name), name, column)

    return forge


FAR = pa.scalar((1 << 62), pa.timestamp("us", "UTC"))
FORGED_VALUES: dict[str, tuple[str, Values]] = {
    "records of no file": ("events", with_column("file_index", None)),
    "records of a negative file": ("events", with_column("file_index", -5)),
    "records of an unknown file": ("events", with_column("file_index", (1 << 31) - 1)),
    "records at no offset": ("events", with_column("offset", None)),
    "records at a negative offset": ("events", with_column("offset", -(1 << 63))),
    "records far behind the file": ("events", with_column("offset", (1 << 63) - 1)),
    "records without a file": ("events", with_column("file", None)),
    "records of no length": ("events", with_column("length", None)),
    "records that are huge": ("events", with_column("length", (1 << 63) - 1)),
    "records of no kind": ("events", with_column("kind", None)),
    "records of an unknown kind": ("events", with_column("kind", "\x1b[31m<b>")),
    "records at a far time": ("events", with_column("changed_at", FAR)),
    "records in an unknown unit": ("events", with_column("offset_unit", "miles")),
    "records of no version": ("events", with_column("table_version", None)),
    "changes of no record": ("changes", with_column("offset", 1)),
    "changes of no file": ("changes", with_column("file_index", None)),
    "changes of no events": ("changes", with_column("source_events", None)),
    "changes of huge events": ("changes", with_column("source_events", [{"length": (1 << 63) - 1}] * 3)),
    "changes of null events": ("changes", with_column("source_events", [None])),
    "changes without an operation": ("changes", with_column("operation", None)),
    "changes committed at a far time": ("changes", with_column("committed_at", FAR)),
    "changed columns that are null": ("changes", with_column("changed_columns", [None])),
    "transactions without a name": ("transactions", with_column("transaction_id", None)),
    "transactions that began at a far time": ("transactions", with_column("began_at", FAR)),
    "transactions without an outcome": ("transactions", with_column("outcome", None)),
    "transactions of an unknown outcome": ("transactions", with_column("outcome", "gone")),
    "transactions without completeness": ("transactions", with_column("completeness", None)),
    "transactions without changes": ("transactions", with_column("changes", None)),
    "transactions of null tables": ("transactions", with_column("tables", [None])),
    "versions without a name": ("table_versions", with_column("table_version", None)),
    "versions without columns": ("table_versions", with_column("columns", None)),
    "versions of null columns": ("table_versions", with_column("columns", [None])),
    "versions of columns without a name": ("table_versions", with_column("columns", [{"type": "int"}])),
    "problems without a code": ("problems", with_column("code", None)),
    "problems without a sentence": ("problems", with_column("sentence", None)),
    "problems of an unknown severity": ("problems", with_column("severity", "fatal")),
    "problems at a negative offset": ("problems", with_column("offset", -1)),
    "settings without a value": ("detected", with_column("value", None)),
    "settings of no scope": ("detected", with_column("scope", None)),
    "no events": ("events", lambda rows: rows.slice(0, 0)),
    "no changes": ("changes", lambda rows: rows.slice(0, 0)),
    "no transactions": ("transactions", lambda rows: rows.slice(0, 0)),
    "events twice": ("events", lambda rows: pa.concat_tables([rows, rows])),
    "changes twice": ("changes", lambda rows: pa.concat_tables([rows, rows])),
    "transactions twice": ("transactions", lambda rows: pa.concat_tables([rows, rows])),
}


@pytest.mark.parametrize("name", FORGED_VALUES)
def test_forged_values_are_shown_or_refused(name: str, forged: Path) -> None:
    table, forge = FORGED_VALUES[name]
    (file,) = (forged / table).glob("*.parquet")
    pq.write_table(forge(pq.read_table(file)), file)
    is_opened_or_refused(forged)
    assert main(["summary", str(forged)]) in (0, 2)


def test_a_setting_names_no_host_that_is_asked(forged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = (forged / "detected").glob("*.parquet")
    rows = pq.read_table(file).slice(0, 1).to_pylist()
    rows[0] |= {"scope": "capture", "setting": "labels", "value": "http://nowhere.invalid/labels", "overridden": True}
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    assert "labels" not in explore(forged).explorer.source.options


def test_a_page_believes_no_file_in_the_folder_about_what_was_counted(forged: Path) -> None:
    counted = {"path": "/data/shop", "summary": {"healthy": True, "changes": 9}, "answers": {}}
    (forged / "prepared.json").write_text(json.dumps(counted))
    asked, capture = check_parameters(str(forged)), cdcwb.load(forged)
    assert asked.shown == str(forged)
    assert look_at(capture, capture, asked).summary == summarize(cdcwb.load(forged))


# --- mutations --------------------------------------------------------------------------------------------------------


def mutate(folder: Path, seed: int) -> str:
    """Changes one file of a saved capture; returns what was changed."""
    chance = random.Random(seed)
    file = chance.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    if file.suffix == ".json" and chance.random() < 0.8:
        about = json.loads(file.read_text())
        path, value = chance.choice([*leaves(about)]), chance.choice([*NEVER, ...])
        file.write_text(json.dumps(changed(about, path, value)))
        return f"{path} is {value}"
    data = bytearray(file.read_bytes())
    how = chance.choice(["flip", "flips", "cut", "zeros", "doubled"])
    if how == "cut":
        del data[chance.randrange(len(data)) :]
    elif how == "zeros":
        at = chance.randrange(len(data))
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif how == "doubled":
        at = chance.randrange(len(data))
        data[at:at] = data[at : at + 100]
    for _ in range({"flip": 1, "flips": 30}.get(how, 0)):
        # in the footer as often as in the data
        at = (
            chance.randrange(len(data))
            if chance.random() < 0.5
            else len(data) - 1 - chance.randrange(min(len(data), 8000))
        )
        data[at] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    return f"{file.parent.name}/{file.name}: {how}"


@pytest.mark.parametrize("seed", range(40))
def test_a_mutated_capture_is_opened_or_refused(seed: int, forged: Path) -> None:
    mutate(forged, seed)
    is_opened_or_refused(forged)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many_mutated_captures_are_opened_or_refused(seed: int, forged: Path) -> None:
    mutate(forged, seed)
    is_opened_or_refused(forged)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["records of an unknown file", "transactions without completeness", "no events"])
def test_views_show_or_refuse_forged_values(name: str, forged: Path, spark: SparkSession) -> None:
    table, forge = FORGED_VALUES[name]
    (file,) = (forged / table).glob("*.parquet")
    pq.write_table(forge(pq.read_table(file)), file)
    try:
        opened = cdcwb.load(forged)
        opened.selection.update(operations=["UPDATE"])
        _ = opened.view.bench.selected.mask()
    except CaptureError:
        pass


@pytest.mark.spark
def test_damage_that_only_spark_finds_is_one_sentence(
    forged: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = (forged / "events").glob("*.parquet")
    data, chance = bytearray(file.read_bytes()), random.Random(1)
    for _ in range(200):
        data[chance.randrange(4, len(data) * 3 // 4)] ^= 0xFF
    file.write_bytes(data)
    is_refused(forged, COMMANDS["summary"], capsys)
