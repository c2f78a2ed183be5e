"""Captures of records (GBase 8s, Logdump text, exports, messages) whose content ended the process, or took for ever."""

from __future__ import annotations

import gzip
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.cli.app import main
from cdcwb.formats import inspect
from cdcwb_synth import generate
from tests.mutate import mutate


def summary(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``cdcwb summary --json`` says; every byte must be accounted for."""
    code = main(["summary", str(path), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    assert found["ledger"] == "closes"
    return found


def limited(*arguments: str | Path, seconds: int = 40) -> subprocess.CompletedProcess[str]:
    """The command line with a limit of processor time."""
    return subprocess.run(
        [sys.executable, "-m", "cdcwb.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
    )


# --- Logdump ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logdump(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a trail in which Logdump printed the columns one by one."""
    folder = tmp_path_factory.mktemp("logdump")
    generate("goldengate", changes=8, seed=4, to=folder, tables=1, all_types=False, lobs=False)
    return next((folder / "capture").rglob("*.txt")).read_text("latin-1")


@pytest.mark.parametrize(
    "line",
    [
        "Column 1 (0x0001), Length -1 (0xffff).",
        "Column 70000 (0x11170), Length 6 (0x0006).",
        "Column -1, Length 6 (0x0006).",
        "Column 9223372036854775807, Length 6 (0x0006).",
        "Column 1 (0x0001), Length 99999999999999999999.",
        "Column 1, LOB fragment 1 of 4",
        "Column 1, LOB fragment 99999999999999999999 of 4",
    ],
)
def test_a_column_that_no_record_has_does_not_end_the_load(
    logdump: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = logdump.split("\n")
    columns = [at for at, one in enumerate(lines) if one.startswith("Column ")]
    assert len(columns) > 8
    path = tmp_path / "trail.txt"
    path.write_text(logdump, "latin-1")
    events = summary(path, capsys)["events"]
    lines[columns[len(columns) // 2]] = line
    path.write_text("\n".join(lines), "latin-1")
    assert summary(path, capsys)["events"] == events


@pytest.mark.full
@pytest.mark.spark
def test_compressed_text_of_more_than_two_gigabytes_is_read(logdump: str, tmp_path: Path) -> None:
    path = tmp_path / "trail.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(129):
            file.write(logdump.encode("latin-1"))
            file.write(b"\n" * (1 << 24))
        file.write(logdump.encode("latin-1"))
    done = limited("summary", path, "--json", seconds=3600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ledger"] == "closes"


# --- long runs of white space -----------------------------------------------------------------------------------------


def test_a_file_of_line_ends_is_refused_soon(tmp_path: Path) -> None:
    path = tmp_path / "topic.bin"
    path.write_bytes(b"\n" * 300_000)
    assert limited("summary", path).returncode == 2


def test_a_file_of_line_ends_in_a_binary_message_is_refused_soon(tmp_path: Path) -> None:
    path = tmp_path / "topic.bin"
    path.write_bytes(b"field\x02\x00\x9e\x10" + b"\n" * 800_000 + b"\x02\xff\x00" * 50)
    assert limited("summary", path).returncode == 2


def test_line_ends_in_a_stream_of_records_are_read_soon(tmp_path: Path) -> None:
    generate("gbase8s", changes=60, seed=2, to=tmp_path, tables=1)
    data = next((tmp_path / "capture").iterdir()).read_bytes()
    path = tmp_path / "stream.bin"
    path.write_bytes(data[:600] + b"\n\r" * 2_000_000 + data[600:])
    done = limited("summary", path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ledger"] == "closes"


# --- damage of every kind ---------------------------------------------------------------------------------------------

CAPTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {}),
    "gbase8s xxd": ("gbase8s", {"shape": "xxd"}),
    "gbase8s hex": ("gbase8s", {"shape": "hex"}),
    "gbase8s buffers": ("gbase8s", {"shape": "buffers", "buffer_size": 512}),
    "Logdump": ("goldengate", {}),
    "FORMATXML": ("goldengate", {"form": "formatxml"}),
    "operation JSON": ("goldengate", {"form": "json"}),
    "qlik-kafka": ("qlik-kafka", {"layout": "stream"}),
    "qlik-kafka kcat": ("qlik-kafka", {"layout": "stream", "container": "kcat"}),
    "qlik-kafka documents": ("qlik-kafka", {"layout": "stream", "container": "documents"}),
    "qlik-kafka Avro": ("qlik-kafka", {"layout": "stream", "form": "avro-envelope", "container": "avro"}),
    "debezium": ("debezium", {}),
}
TOKENS = (
    *(b"\\ud800", b"1e999999999", b"9" * 5000, b"-1", b"[" * 3000, b'{"a":' * 3000, b"\0" * 64, b"\xff" * 16),
    *(
        b"\n" * 500,
        b"<a>" * 500,
        b"&#xD800;",
        b"Column 70000",
        b"\x7f\xff\xff\xff",
        b"\x80\x00\x00\x00",
        b"99999-99-99",
    ),
    *(b"\xef\xbb\xbf", b"null", b"}", b'"', b"'", b"(0x", b"Len -1", b"25:61:61.999999999999"),
)


def spliced(data: bytes, rng: random.Random) -> bytes:
    """Damage: one of the tokens somewhere, or what :func:`mutate` does."""
    if rng.random() < 0.5:
        return mutate(data, rng, rng.randint(1, 4))
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at + rng.choice((0, 0, 1, 8)) :]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """The bytes of a small capture in one file."""

    def made(name: str) -> bytes:
        form, options = CAPTURES[name]
        folder = tmp_path_factory.mktemp("sound")
        given = {"tables": 1, "all_types": form == "gbase8s", **options}
        generate(form, changes=12, seed=7, to=folder, **given)
        return max(
            (one for one in (folder / "capture").rglob("*") if one.is_file()), key=lambda one: one.stat().st_size
        ).read_bytes()

    return made


@pytest.mark.parametrize("name", CAPTURES)
def test_damage_of_any_kind_is_read_or_refused(
    name: str, sound: Callable[[str], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, rng = sound(name), random.Random(11)
    form = CAPTURES[name][0]
    for number in range(6):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(spliced(data, rng))
        code = main(["summary", str(path), "--json", "--format", form])
        out, err = capsys.readouterr()
        assert code in (0, 2), err
        if code == 0:
            assert json.loads(out)["ledger"] != "open"
        for at in (0, path.stat().st_size // 2):
            try:
                inspect(path, at, form)
            except cdcwb.CaptureError:
                continue
