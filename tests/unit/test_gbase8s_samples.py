"""The real dump of the source document, in every input shape.

It holds five reads of a client: the schema of table 111, an idle marker, and a transaction with one insert; everything
behind each record is what earlier reads left in the buffer.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from cdcwb.formats import identify, inspect
from cdcwb_synth.gbase8s_files import hexdump, xxd
from tests.local import ledger, plan_of, read

pytestmark = pytest.mark.samples


def _fixed(reads: list[bytes]) -> bytes:
    """The reads as whole buffers, each over what the ones before left."""
    content = bytearray(max(map(len, reads)))
    out = b""
    for one in reads:
        content[: len(one)] = one
        out += content
    return out


FORMS: dict[str, Callable[[list[bytes], bytes], list[bytes]]] = {
    "stream": lambda reads, stream: [stream],
    "stream, gzip": lambda reads, stream: [gzip.compress(stream)],
    "stream, zstd": lambda reads, stream: [zstandard.compress(stream)],
    "stream, hex": lambda reads, stream: [stream.hex().encode()],
    "stream, xxd": lambda reads, stream: [xxd(stream).text],
    "stream, hexdump": lambda reads, stream: [hexdump(stream).text],
    "stream, three files": lambda reads, stream: [stream[:50], stream[50:140], stream[140:]],
    "buffers": lambda reads, stream: [_fixed(reads)],
    "buffers, gzip": lambda reads, stream: [gzip.compress(_fixed(reads))],
    "buffers, xxd": lambda reads, stream: [xxd(_fixed(reads)).text],
    "buffers, hexdump": lambda reads, stream: [hexdump(_fixed(reads)).text],
    "a file for each read": lambda reads, stream: reads,
    "a file for each read, hex": lambda reads, stream: [one.hex(" ", 4).encode() for one in reads],
    "a file for each read, hex, gzip": lambda reads, stream: [gzip.compress(one.hex(" ").encode()) for one in reads],
    "a file for each read, xxd": lambda reads, stream: [xxd(one).text for one in reads],
    "a line for each read": lambda reads, stream: [b"\n".join(one.hex(" ", 4).encode() for one in reads)],
}
"""Forms of the dump as files, from its reads and from the stream that they brought."""


@pytest.fixture
def reads(samples: Path) -> list[bytes]:
    """What the client's buffer held after each read."""
    text = (samples / "gbase8s" / "seed_reads_with_stale.hex").read_text(encoding="utf-8")
    return [bytes.fromhex(line.partition("]")[2]) for line in text.splitlines() if line.startswith("[")]


@pytest.fixture
def stream(samples: Path) -> bytes:
    """What the reads brought."""
    return (samples / "gbase8s" / "seed_stream_clean.bin").read_bytes()


def check(path: Path) -> None:
    table, plan = read(path), plan_of(path)
    rows = [row for row in table.to_pylist() if row["kind"] not in ("filler", "fragment")]
    kinds = [row["record_type"].removeprefix("CDC_REC_") for row in rows]
    assert 1 <= kinds.count("TIMEOUT") <= 2
    assert [kind for kind in kinds if kind != "TIMEOUT"] == ["TABSCHEM", "BEGINTX", "INSERT", "COMMTX"]
    assert kinds[:2] == ["TABSCHEM", "TIMEOUT"]
    assert not any(row["problems"] for row in rows)
    begin, insert, commit = rows[-3:]
    assert {row["transaction_id"] for row in (begin, insert, commit)} == {"39@0000000B01746018"}
    assert dict(insert["after"]) == {"c1": "15", "c2": "abcabcabc"}
    assert (insert["position"], insert["table_name"], insert["table_version"]) == (
        "0000000B01746050",
        "111",
        "111@1",
    )
    assert commit["changed_at"].isoformat() == begin["changed_at"].isoformat() == "2025-03-23T10:57:19+00:00"
    assert (commit["position"], dict(begin["headers"])["user_id"]) == ("0000000B017460A0", "2005")
    assert ledger(table) == {entry.path: entry.size for entry in plan.files}
    (version,) = plan.shared.versions
    assert version.text == "c1 integer, c2 varchar(20,0)"
    settings = {row["setting"]: row for row in plan.detected}
    assert (settings["byte_order"]["value"], settings["prefix_width"]["value"]) == ("little", "2")
    assert "size words little-endian 11, big-endian 184549376" in settings["byte_order"]["evidence"]
    assert plan.facts["highest_commit"] == plan.facts["restart_position"] == "0000000B017460A0"


@pytest.mark.parametrize("form", FORMS)
def test_the_real_dump_is_read_in_every_form(tmp_path: Path, reads: list[bytes], stream: bytes, form: str) -> None:
    for number, content in enumerate(FORMS[form](reads, stream)):
        (tmp_path / f"part-{number}").write_bytes(content)
    check(tmp_path)
    assert identify(tmp_path).format == "gbase8s"


@pytest.mark.parametrize("name", ["seed_reads_with_stale.hex", "seed_stream_clean.bin"])
def test_the_samples_themselves_are_read(samples: Path, name: str) -> None:
    check(samples / "gbase8s" / name)


def test_stale_tails_are_filler(reads: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(_fixed(reads))
    tails = [row for row in read(file).to_pylist() if row["kind"] == "filler"]
    assert len(tails) == 5
    assert sum(row["length"] for row in tails) == len(_fixed(reads)) - 220
    assert dict(tails[1]["headers"]) == {
        "reason": "stale bytes of the read buffer: they repeat those of an earlier read at this offset of it"
    }


def test_the_insert_is_taken_apart(samples: Path) -> None:
    found = inspect(samples / "gbase8s" / "seed_stream_clean.bin", 129 + 36)
    assert (found.offset, found.length) == (129, 55)
    word = found.field.at(36)
    assert word is not None
    assert (word.name, word.value, word.raw.hex()) == ("size of c2", "11", "0b000000")
