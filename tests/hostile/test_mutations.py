"""Damaged captures of every format: each is read, with every byte accounted for, or refused with a sentence, within
limits of time and memory.

A child process of its own reads each damaged capture: a summary, all tables (``save``) and one record (``inspect``).
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.limits import in_child, refusal, run
from tests.mutate import mutate

SECONDS = 20  # of processor time
MEMORY = 1500  # MB
A_FORMAT = 500  # damaged captures of each format in the full test
CAPTURES: dict[str, tuple[str, dict[str, str]]] = {
    "gbase8s": ("gbase8s", {}),
    "gbase8s-hex": ("gbase8s", {"shape": "hex"}),
    "gbase8s-xxd": ("gbase8s", {"shape": "xxd"}),
    "gbase8s-reads": ("gbase8s", {"shape": "reads", "byte_order": "big"}),
    "qlik-kafka": ("qlik-kafka", {}),
    "qlik-kafka-console": ("qlik-kafka", {"container": "console"}),
    "qlik-kafka-documents": ("qlik-kafka", {"form": "json", "container": "documents"}),
    "qlik-kafka-avro": ("qlik-kafka", {"form": "avro-envelope", "container": "avro"}),
    "qlik-kafka-confluent": ("qlik-kafka", {"form": "confluent", "container": "parquet"}),
    "debezium": ("debezium", {}),
    "debezium-parquet": ("debezium", {"container": "parquet"}),
    "goldengate": ("goldengate", {}),
    "goldengate-json": ("goldengate", {"form": "json"}),
    "goldengate-formatxml": ("goldengate", {"form": "formatxml"}),
    "qlik-change-table": ("qlik-change-table", {}),
    "qlik-change-table-json": ("qlik-change-table", {"container": "json"}),
    "qlik-change-table-parquet": ("qlik-change-table", {"container": "parquet"}),
    "idm-event-log": ("idm-event-log", {}),
    "idm-event-log-sql": ("idm-event-log", {"container": "sql"}),
    "idm-event-log-jsonl": ("idm-event-log", {"container": "jsonl"}),
    "idm-event-log-xlsx": ("idm-event-log", {"container": "xlsx"}),
    "idm-event-log-parquet": ("idm-event-log", {"container": "parquet"}),
}
NASTY = [
    b"\x00",
    b"\xff" * 8,
    b"\n" * 3000,
    b" " * 3000,
    b"\r\n" * 500,
    b'"',
    b"'",
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 1000,
    b"/*" * 500,
    b"(" * 500,
    b"::text" * 300,
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"-1",
    b"9" * 5000,
    b"1e999999999",
    b"-0",
    b"NaN",
    b"null",
    b"70000",
    b"2147483648",
    b"9223372036854775808",
    b"0x",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
    b"&b;",
    b"]]>",
    b"99999-99-99 99:99:99",
    "\u202e\u0000\u2028".encode(),
]


@cache
def capture(name: str) -> Path:
    """The folder of an undamaged capture; read once, so that all is imported and compiled."""
    format, options = CAPTURES[name]
    folder = Path(tempfile.mkdtemp(prefix="cdcwb-mutations-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    chosen = [argument for key, value in options.items() for argument in ("-o", f"{key}={value}")]
    code, text = run(["synth", format, "--changes", "60", "--seed", "7", "--to", str(folder), *chosen])
    assert code == 0, text
    code, text = run(["summary", str(folder / "capture"), "--json", *registry(folder)])
    assert code == 0, text
    assert json.loads(text)["ledger"] == "closes"
    return folder


def registry(folder: Path) -> list[str]:
    """The options that name a registry, where the capture has one."""
    return ["-o", f"registry={folder / 'registry'}"] if (folder / "registry").is_dir() else []


def damaged(name: str, seed: int, folder: Path) -> Path:
    """A copy of a capture with one file damaged."""
    rng = Random(f"{name} {seed}")
    target = folder / "capture"
    shutil.copytree(capture(name) / "capture", target)
    file = rng.choice(sorted(path for path in target.rglob("*") if path.is_file()))
    data = file.read_bytes()
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(NASTY) + data[at + rng.choice((0, 0, 1, 8, 40)) :]
    if rng.random() < 0.7:
        data = mutate(data, rng)
    file.write_bytes(data)
    return file


def verdict(name: str, seed: int, folder: Path) -> str | None:
    """What is wrong with how a damaged capture is read; None if nothing is."""
    options = registry(capture(name))
    file = damaged(name, seed, folder)
    whole = str(folder / "capture")
    code, text = run(["summary", whole, "--json", *options])
    if code == 0:
        about = json.loads(text)
        if about["ledger"] != "closes":
            return f"summary: {about['ledger']}"
        code, text = run(["save", whole, "--to", str(folder / "saved"), *options])
        if code != 0:
            return f"save: exit code {code}: {text[-2000:]}"
    elif wrong := refusal(code, text):
        return f"summary: {wrong}"
    code, text = run(["inspect", str(file), "--offset", str(Random(seed).randrange(file.stat().st_size + 1)), *options])
    wrong = refusal(code, text) if code else None
    return f"inspect: {wrong}" if wrong else None


def failures(name: str, seeds: range, folder: Path) -> Iterator[str]:
    capture(name)
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        wrong = in_child(lambda: verdict(name, seed, place), SECONDS, MEMORY)  # noqa: B023 - called at once
        shutil.rmtree(place)
        if wrong is not None:
            yield f"{name}, seed {seed}: {wrong}"


@pytest.mark.parametrize("name", CAPTURES)
def test_damage_ends_in_records_or_a_sentence(name: str, tmp_path: Path) -> None:
    assert "\n".join(failures(name, range(2), tmp_path)) == ""


@pytest.mark.full
@pytest.mark.parametrize("name", CAPTURES)
def test_much_damage_ends_in_records_or_a_sentence(name: str, tmp_path: Path) -> None:
    format = CAPTURES[name][0]
    share = sum(one == format for one, _ in CAPTURES.values())
    assert "\n".join(failures(name, range(1000, 1000 + -(-A_FORMAT // share)), tmp_path)) == ""
