"""A reader that is asked for some columns of events gives these as it gives them among all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, Plan, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.options import event_columns
from tests.made import generate

CAPTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {"schema_changes": 2, "undo_share": 0.3}),
    "kafka": ("qlik-kafka", {"schema_changes": 2, "column_mask": 0.4, "lost_share": 0.05}),
    "kafka-2018": ("qlik-kafka", {"generation": "2018", "column_mask": 0.4}),
    "kafka-avro": ("qlik-kafka", {"form": "avro-envelope", "container": "avro"}),
    "debezium": ("debezium", {"connector": "mysql"}),
    "change-table": ("qlik-change-table", {"schema_changes": 2}),
    "goldengate": ("goldengate", {"schema_changes": 2, "abends": 2}),
    "goldengate-json": ("goldengate-export", {"form": "json"}),
    "goldengate-xml": ("goldengate-export", {"form": "formatxml"}),
    "idm": ("idm-event-log", {}),
}
CHOSEN = [
    *([name] for name in model.EVENTS.names),
    ["headers", "before", "after"],
    ["problems", "kind"],
    ["position", "operation"],
]


def damaged(path: Path) -> None:
    """Puts bytes that are no record into the middle of every file of a folder."""
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.suffix in (".bin", ".txt", ".jsonl", ".json", ".csv", ".xml"):
            text = file.read_bytes()
            file.write_bytes(text[: len(text) // 2] + b"\x07{]<\x07" + text[len(text) // 2 :])


@pytest.fixture(scope="module", params=CAPTURES)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Plan]:
    form, options = CAPTURES[request.param]
    made = generate(form, changes=80, seed=5, to=tmp_path_factory.mktemp("made"), **options)
    damaged(made / "capture")
    fmt = get_format(form)
    found = fmt.plan(list_files([str(made / "capture")]), {}, lambda work, tasks: [work(task) for task in tasks])
    return form, found


def read(plan: tuple[str, Plan], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    for split in range(len(plan[1].splits)):
        yield from get_format(plan[0]).read(plan[1], split, wanted)


def test_each_column_alone_is_as_among_all(plan: tuple[str, Plan]) -> None:
    everything = list(read(plan, EVERYTHING))
    assert sum(batch.num_rows for batch in everything) > 50
    for columns in CHOSEN:
        some = list(read(plan, Wanted(columns=frozenset(columns))))
        assert [one.select(columns) for one in some] == [one.select(columns) for one in everything], columns


def test_names_of_columns_are_checked() -> None:
    assert event_columns(["after", "kind", "after"]) == ["after", "kind"]
    with pytest.raises(
        OptionError, match=r"events have no column 'heders'\. Did you mean 'headers'\? There are: format"
    ):
        event_columns(["after", "heders"])
    with pytest.raises(OptionError, match="expected a column of events"):
        event_columns([])
