"""Records of a NonStop as Logdump prints them: their transaction ids and their bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcwb.formats.goldengate.dissect import dissect
from tests.local import read

NAME = "\\WEST.$DATA2.SHOP.STOCK"
TRANSACTION = "TRANSID     : \\WEST(3).1.8120044  (5112004460022714368)\n"


def printed_hex(data: bytes) -> str:
    """Bytes in upper-case hex, 20 a line, with a pane of text."""
    lines = []
    for at in range(0, len(data), 20):
        part = data[at : at + 20]
        groups = " ".join(part[i : i + 2].hex().upper() for i in range(0, len(part), 2))
        lines.append(f"{groups:<50}| " + "".join(chr(b) if 32 <= b < 127 else "." for b in part) + "\n")
    return "".join(lines)


def record(
    body: bytes,
    rba: int = 4096,
    name: str = NAME,
    operation: str = "FieldComp",
    image: str = "After ",
    more: str = "",
) -> str:
    """One record without a header block."""
    return (
        f"2014/06/21 11:12:13.456.789 {operation:<20} Len {len(body):5} RBA {rba}\nName: {name}\n"
        f"{image} Image:                                             Partition 0\n{more}{printed_hex(body)}"
    )


def events(folder: Path, *texts: str, **options: Any) -> list[dict[str, Any]]:
    path = folder / "session.txt"
    path.write_text("".join(texts), encoding="utf-8")
    return [row for row in read(path, format="goldengate", **options).to_pylist() if row["kind"] != "filler"]


BODY = bytes.fromhex("0000 0004") + b"KEY1" + bytes.fromhex("0002 0006") + b"pebble"


def test_the_line_transid_is_the_transaction_id(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        record(BODY, 4096, more=TRANSACTION),
        record(BODY, 4196, more=TRANSACTION),
        record(BODY, 4296, more=TRANSACTION.replace("8120044  (5112004460022714368)", "8120045")),
        record(BODY, 4396),
    )
    ids = ["\\WEST(3).1.8120044"] * 2 + ["\\WEST(3).1.8120045", None]
    assert [row["transaction_id"] for row in rows] == ids
    headers = [dict(row["headers"]) for row in rows]
    assert [one.get("TRANSID") for one in headers] == ids
    assert [one.get("TRANSID number") for one in headers] == ["5112004460022714368"] * 2 + [None, None]
    assert not any("TRANID" in one for one in headers)
    assert not any(problem["code"] == "header_value" for row in rows for problem in row["problems"] or ())


def test_a_token_comes_before_the_line_transid(tmp_path: Path) -> None:
    token = "\nGGS tokens:\nTokenID x36 '6' TRANID           Info x00  Length    6\n 342e 352e 3637 | 4.5.67\n"
    (row,) = events(tmp_path, record(BODY, more=TRANSACTION), token)
    headers = dict(row["headers"])
    assert (row["transaction_id"], headers["TRANID"], headers["TRANSID"]) == ("4.5.67", "4.5.67", "\\WEST(3).1.8120044")


def test_the_field_tree_names_the_transaction() -> None:
    tree = dissect(record(BODY, more=TRANSACTION).encode())
    values = {field.name: field.value for field in tree.walk()}
    assert values["TRANSID"] == "\\WEST(3).1.8120044"
    assert values["TRANSID number"] == "5112004460022714368"


@pytest.mark.samples
def test_the_published_transaction_of_a_nonstop_is_named(samples: Path, tmp_path: Path) -> None:
    text = (samples / "goldengate" / "logdump-docs-tmfbeforeimage-nonstop-pair.txt").read_text(encoding="utf-8")
    (row,) = events(tmp_path, text[text.index("2011/", 5) :])
    assert row["transaction_id"] == "\\NY(2).0.7022034"
