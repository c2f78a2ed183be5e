"""Every option of the command line, and what methods of a capture return: exit codes, what is printed, and the content
of the files that are written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cdcwb
from tests.face.cases import DATA
from tests.face.face import Face, as_json, digest_of, saved_rows, summed, without
from tests.limits import outputs, run

__all__ = ["CALLS", "COMMANDS", "LEFT_OUT", "Command", "call_of", "command_of", "commands_of", "long_options"]

LEFT_OUT: Final = {
    "capture": "copies from a Kafka cluster or a database; tests/live runs it",
    "doctor": "its output is that of the machine",
}
"""Commands and options that are not run here."""


@dataclass(frozen=True)
class Command:
    """A command line in a folder where ``data`` is that of the project. ``first``: commands that are run before."""

    line: str
    first: tuple[str, ...] = ()
    spark: bool = False


_SAVE: Final = "save data/debezium --to saved"
_DOCUMENTS: Final = "xds data/debezium --to documents --batch-size 50"

COMMANDS: Final = (
    Command("identify data"),
    Command("identify data/gbase8s"),
    Command("identify data/gbase8s --format gbase8s -o byte_order=little --json"),
    Command("inspect data/gbase8s/stream-1.bin --offset 4000"),
    Command("inspect data/debezium/messages.txt --offset 5000 --json"),
    Command("inspect data/idm-event-log/eventlog.csv --offset 0x200 --format idm-event-log -o time_zone=+02:00 --all"),
    Command("inspect data/goldengate/logdump-000000042.txt --offset 9400"),
    Command("summary data/debezium"),
    Command("summary data/qlik-kafka --json"),
    Command("summary data/qlik-change-table --strict"),
    Command("summary data/gbase8s --format gbase8s -o labels=none"),
    Command("summary saved", first=(_SAVE,)),
    Command(
        "summary data/gbase8s --table shop.orders --table shop.customer --transaction 23@0000000B03FE0018 "
        "--from 2025-03-23T08:00 --until 2025-03-23T08:01:00Z",
    ),
    Command(
        "export data/gbase8s --view changes --to changes.csv --exact --table shop.orders "
        "--from 2025-03-23T08:01:00Z --until 2025-03-23T08:01:30Z",
    ),
    Command(
        "export data/gbase8s --view events --to - --as csv --strict --transaction 23@0000000B03FE0018 "
        "--format gbase8s -o labels=none",
    ),
    Command("export saved --view transactions --to transactions.parquet", first=(_SAVE,)),
    Command("export saved --view problems --to problems.jsonl", first=(_SAVE,)),
    Command("continuity data/qlik-kafka --strict"),
    Command(
        "continuity data/sqlserver-ct --table shop.orders --format sqlserver-ct -o keys=shop.orders:order_id --json"
    ),
    Command("history data/qlik-kafka --table shop.customer --key customer_id=18"),
    Command(
        "history data/qlik-kafka --table shop.customer --key customer_id=18 --where 'before.rating != missing'",
    ),
    Command("summary data/qlik-kafka --where \"operation == 'DELETE'\" --json"),
    Command("export data/qlik-kafka --view changes --to big.jsonl --where 'after.rating > 4900'"),
    Command(
        "history data/gbase8s --table shop.customer --key customer_id=1 --transaction 23@0000000B03FE0018 "
        "--from 2025-03-23T08:00 --until 2025-03-23T08:01 --format gbase8s -o byte_order=little --json",
    ),
    Command(
        "history data/idm-event-log --table order_line --key line_id=10 --key 'branch=high street' --to row.jsonl",
    ),
    Command(
        "xds data/idm-event-log --to documents.xml --decisions decisions.jsonl --driver-user IDM_DRIVER "
        "--batch-size 20 --snapshot customer=data/idm-event-log.snapshot/customer.csv --format idm-event-log "
        "-o schema=shop -o types=photo:octet",
    ),
    Command(
        "xds data/idm-event-log --to documents.xds --no-snapshot --as-of 2026-11-09T07:20 -o future_events=true",
    ),
    Command("xds data/gbase8s --to customers.xml --infer-keys"),
    Command("xds data/debezium --to documents --batch-size 50 --overwrite", first=(_DOCUMENTS,)),
    Command("save data/debezium --to saved --format debezium -o unavailable=none"),
    Command("save data/idm-event-log --to saved --overwrite", first=(_SAVE,)),
    Command(
        "save yesterday data/gbase8s --to today", first=("save data/gbase8s/stream-1.bin --to yesterday",), spark=True
    ),
    Command("open data/gbase8s --no-lab --to workbench --page transactions --format gbase8s -o labels=none"),
    Command("synth gbase8s --changes 20 --seed 7 --to made -o files=2 -o shape=xxd"),
    Command("synth debezium --changes 20 --seed 7 --to made -o form=avro -o container=parquet"),
    Command(
        "report replay_and_reconcile data/qlik-kafka --with data/qlik-change-table --to compared.html --infer-keys "
        '-p table shop.customer -p rules \'{"late_after": "30s"}\' --table shop.customer '
        "--table shop.orders --from 2026-02-03T08:00 --until 2026-02-03T08:02 --time-zone Europe/Berlin "
        "--redact shop.customer.full_name --fail-if 'changes > 1' --strict --format auto -o mode=PERMISSIVE",
        spark=True,
    ),
)

CALLS: Final[dict[str, tuple[str, Callable[[cdcwb.Capture], Any]]]] = {
    "history": ("qlik-kafka", lambda capture: capture.history("shop.customer", {"customer_id": "18"})),
    "continuity": ("qlik-kafka", lambda capture: capture.continuity()),
    "state": ("qlik-kafka", lambda capture: capture.state("shop.customer", time="2026-02-03T08:01:00Z")),
    "state at a position": (
        "qlik-kafka",
        lambda capture: capture.state("shop.orders", position="20260203080025020000000000000000054"),
    ),
    "table": ("qlik-kafka", lambda capture: capture.table("shop.customer", columns=["rating", "since"])),
    "latest schema": ("qlik-kafka", lambda capture: capture.table("shop.orders", images="after", schema="latest")),
    "some columns": ("qlik-kafka", lambda capture: capture.select_events("kind", "position", "table_name")),
    "filter": ("qlik-kafka", lambda capture: capture.filter(tables=["orders"], time_to="2026-02-03T08:00:30Z").changes),
    "selected": ("qlik-kafka", lambda capture: _selected(capture).changes),
    "reconcile": (
        "qlik-kafka",
        lambda capture: _facts(capture.view.reconcile(cdcwb.load(DATA / "qlik-change-table"))),
    ),
}
"""Calls that return a DataFrame or facts, each with the capture of ``data/`` that it is made on."""


def _selected(capture: cdcwb.Capture) -> cdcwb.Capture:
    capture.selection.update(tables=["shop.orders"], operations=["UPDATE"])
    return capture.selected()


def _facts(page: Any) -> Face:
    facts: Face = {}
    for panel in page.panels():
        facts |= getattr(page, panel)().facts
    return facts


def long_options(command: str) -> list[str]:
    """The long options in the help of a command."""
    code, text = run([command, "--help"])
    assert code == 0
    return sorted(
        set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text.partition("\nOptions:")[2], re.MULTILINE)) - {"--help"}
    )


def command_of(command: Command, folder: Path) -> Face:
    """What a command prints, and what it writes below ``folder``."""
    with _there(folder):
        (folder / "data").symlink_to(DATA)
        for line in command.first:
            assert outputs(shlex.split(line))[0] == 0
        before = {path: path.stat().st_mtime_ns for path in _files(folder)}
        code, out, err = outputs(shlex.split(command.line))
        if command.line.startswith("export "):  # its size depends on the folder, which is in each row
            out = re.sub(r"[\d.,]+ (?:bytes|kB)$", "… bytes", out, flags=re.MULTILINE)
        face = summed(code, without(folder, out))
        if err:
            face["error"] = without(folder, err).splitlines()
        written = [path for path in _files(folder) if before.get(path) != path.stat().st_mtime_ns]
        return face | ({"files": _contents(written, folder)} if written else {})


def commands_of(commands: Sequence[Command], folder: Path) -> Face:
    """The faces of commands, and of all calls."""
    faces = {one.line: command_of(one, folder / str(number)) for number, one in enumerate(commands)}
    return faces | {name: call_of(name, folder) for name in CALLS}


def call_of(name: str, folder: Path) -> Face:
    """The rows or the facts that a call returns."""
    data, call = CALLS[name]
    found = call(cdcwb.load(DATA / data))
    if isinstance(found, dict):
        return as_json(found, folder)
    rows = [as_json(row.asDict(recursive=True), DATA.parent) for row in found.collect()]
    rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return {"columns": found.columns, "rows": len(rows), "digest": _digest(rows), "first": rows[:2]}


@contextlib.contextmanager
def _there(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        yield


def _files(folder: Path) -> list[Path]:
    return sorted(Path(path, name) for path, _, names in os.walk(folder) for name in names)


_TEXTS: Final = (".json", ".jsonl", ".csv", ".xml", ".xds", ".xxd", ".avsc")


def _contents(written: list[Path], folder: Path) -> Face:
    """The content of files by their names. Of notebooks and pages, which tests of their own compare, and of what is not
    for users, there is only the name."""
    found: Face = {}
    for path in written:
        table = path.parent if path.name.startswith("part-") else path  # Spark invents the names of its files
        name = without(folder, str(table))
        if name in found or path.name.startswith((".", "_")):
            continue
        if path.suffix == ".parquet":
            rows = saved_rows(table, folder)
            found[name] = f"{len(rows)} rows, {_digest(rows)}"
        elif path.suffix not in _TEXTS or path.name == "cdcwb.json":
            found[name] = "not compared"
        elif path.with_suffix(".html") in written:
            facts = json.loads(without(folder, path.read_text(encoding="utf-8")))
            found[name] = {fact: value for fact, value in facts.items() if fact != "made_at"}
        else:
            text = without(folder, path.read_text(encoding="utf-8"))
            found[name] = summed(0, text.replace(f'version="{cdcwb.__version__}"', 'version="…"'), 3)
    return found


def _digest(rows: Any) -> str:
    return digest_of(json.dumps(rows, sort_keys=True))
