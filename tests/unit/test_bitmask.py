"""Masks: what their texts spell, which columns their bits are, and what they say of their byte order."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats import bitmask
from cdcwb.formats.bitmask import MaskEvidence, bits, evidence_of, names, parse, spelling

NO = np.zeros


def _bits(mask: bytes | None, order: str, width: int) -> tuple[list[int], bool]:
    found, beyond = bits(pa.array([mask], pa.binary()), order, width)
    assert found.shape == (1, width)
    return np.flatnonzero(found[0]).tolist(), bool(beyond[0])


def _names(text: str, order: str, columns: list[str]) -> list[str]:
    masks, wrong = parse(pa.array([text]))
    assert not wrong.any()
    found, beyond = bits(masks, order, len(columns))
    assert not beyond.any()
    chosen: list[str] = names(found, columns, NO(1, bool)).to_pylist()[0]
    return chosen


# --- text -------------------------------------------------------------------------------------------------------------

SPELLINGS: list[tuple[str | None, bytes | None]] = [
    ("0B", b"\x0b"),
    ("0b", b"\x0b"),
    ("0x0B", b"\x0b"),
    ("0X0b", b"\x0b"),
    ("\\x2002", b"\x20\x02"),
    ("008080", b"\x00\x80\x80"),
    ("220", b"\x02\x20"),
    ("0x220", b"\x02\x20"),
    ("IAI=", b"\x20\x02"),
    ("AA==", b"\x00"),
    ("/+8r", b"\xff\xef\x2b"),
    ("2002", b"\x20\x02"),  # hexadecimal wherever it may be
    (" 2002 ", b"\x20\x02"),
    ("", b""),
    ("0x", b""),
    (None, None),
]


@pytest.mark.parametrize(("text", "spelt"), SPELLINGS)
def test_every_spelling_of_a_mask_is_read(text: str | None, spelt: bytes | None) -> None:
    masks, wrong = parse(pa.array([text], pa.string()))
    assert masks.to_pylist() == [spelt]
    assert not wrong[0]


def test_spellings_may_be_mixed_in_one_array() -> None:
    masks, wrong = parse(pa.array([text for text, _ in SPELLINGS], pa.string()))
    assert masks.to_pylist() == [spelt for _, spelt in SPELLINGS]
    assert masks.type == pa.binary()
    assert not wrong.any()


@pytest.mark.parametrize(
    "text", ["zz", "0xzz", "0xIAI=", "IAI", "IAI==", "=", "====", "A===", "0b 0b", "\\y20", "é", "-1"]
)
def test_what_is_no_mask_is_null_and_told(text: str) -> None:
    masks, wrong = parse(pa.array(["0B", text, None]))
    assert masks.to_pylist() == [b"\x0b", None, None]
    assert wrong.tolist() == [False, True, False]


def test_a_text_that_may_be_both_is_base64_where_that_is_known() -> None:
    texts = pa.array(["4AEA", "0x20", "220"])
    assert parse(texts)[0].to_pylist() == [b"\x4a\xea", b"\x20", b"\x02\x20"]
    assert parse(texts, bitmask.BASE64)[0].to_pylist() == [base64.b64decode("4AEA"), b"\x20", b"\x02\x20"]
    masks, wrong = parse(pa.array(["IAI="]), bitmask.HEX)
    assert masks.to_pylist() == [None]
    assert wrong.tolist() == [True]
    assert spelling(pa.array(["4AEA", "0x20", "220", "IAI=", "", None, "??"])) == (2, 1)


def test_slices_and_empty_arrays_are_read() -> None:
    texts = pa.array(["ff", "0B", "IAI=", None, "1"])
    assert parse(texts.slice(1, 3))[0].to_pylist() == [b"\x0b", b"\x20\x02", None]
    assert bits(parse(texts)[0].slice(1, 1), "big", 4)[0].tolist() == [[True, True, False, True]]
    masks, wrong = parse(pa.array([], pa.string()))
    assert len(masks) == len(wrong) == 0
    assert bits(masks, "big", 9)[0].shape == (0, 9)
    assert names(NO((0, 2), bool), ["a", "b"], NO(0, bool)).to_pylist() == []


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=12), st.sampled_from(["hex", "0x", "\\x", "64"]))
def test_bytes_survive_every_spelling(masks: list[bytes | None], how: str) -> None:
    def spell(mask: bytes) -> str:
        if how == "64":
            return base64.b64encode(mask).decode()
        return (how if how != "hex" else "") + mask.hex()

    texts = pa.array([None if mask is None else spell(mask) for mask in masks], pa.string())
    found, wrong = parse(texts, bitmask.BASE64 if how == "64" else None)
    assert found.to_pylist() == masks
    assert not wrong.any()


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=12), st.sampled_from([None, "hex", "base64"]))
def test_any_text_is_a_mask_or_told_to_be_none(texts: list[str | None], shape: str | None) -> None:
    masks, wrong = parse(pa.array(texts, pa.string()), shape)
    for text, mask, bad in zip(texts, masks.to_pylist(), wrong.tolist(), strict=True):
        assert (mask is None) == (text is None or bad)
        alone = parse(pa.array([text], pa.string()), shape)
        assert alone[0].to_pylist() == [mask]  # neighbours change nothing


# --- bits -------------------------------------------------------------------------------------------------------------


def test_the_documented_example_of_messages() -> None:
    # 0B is binary 1011: the columns with ordinals 1, 2 and 4
    assert _names("0B", "big", ["c1", "c2", "c3", "c4"]) == ["c1", "c2", "c4"]


def test_the_documented_example_of_change_tables() -> None:
    # five header columns are bits 0 to 4, and the first data column is bit 5
    columns = ["h1", "h2", "h3", "h4", "h5", "SKU", "QTY", "NOTE", "D4", "D5"]
    assert _names("A0", "little", columns) == ["SKU", "NOTE"]
    assert _names("2002", "little", columns) == ["SKU", "D5"]
    assert _names("220", "big", columns) == ["SKU", "D5"]
    # mask 11000: the column with ordinal 3 (bit 2) did not change
    assert _bits(b"\x18", "little", 8) == ([3, 4], False)


def test_a_public_decoder_s_example() -> None:
    # 3a00 with seven header columns: the data columns 3, 5, 6 and 7
    found, _ = _bits(bytes.fromhex("3a00"), "big", 14)
    assert [bit - 7 + 1 for bit in found] == [3, 5, 6, 7]


def test_zeros_that_were_trimmed_are_zeros() -> None:
    for order, whole, trimmed in (
        ("little", b"\x20\x02\x00\x00", b"\x20\x02"),
        ("big", b"\x00\x00\x02\x20", b"\x02\x20"),
    ):
        assert _bits(whole, order, 30) == _bits(trimmed, order, 30) == ([5, 9], False)
    assert _bits(b"", "little", 30) == ([], False)
    assert _bits(None, "big", 30) == ([], False)


@pytest.mark.parametrize(
    ("mask", "order", "beyond"),
    [
        (b"\x07", "big", False),
        (b"\x08", "big", True),
        (b"\x00\x07", "big", False),
        (b"\x01\x07", "big", True),
        (b"\x07\x00", "little", False),
        (b"\x07\x01", "little", True),
        (b"\x07" + bytes(1000), "little", False),
        (b"\x07" + bytes(1000) + b"\x80", "little", True),
        (b"\x80" + bytes(1000) + b"\x07", "big", True),
    ],
)
def test_bits_behind_the_last_column_are_told(mask: bytes, order: str, beyond: bool) -> None:
    found, told = _bits(mask, order, 3)
    assert found == ([0, 1, 2] if mask != b"\x08" else [])
    assert told == beyond


def test_names_are_null_where_there_is_no_mask() -> None:
    found, _ = bits(pa.array([b"\x03", None, b""]), "big", 2)
    listed = names(found, ["a", "b"], np.array([False, True, False]))
    assert listed.type == pa.list_(pa.string())
    assert listed.to_pylist() == [["a", "b"], None, []]


@given(
    st.integers(0, 1100).flatmap(
        lambda width: st.lists(st.sets(st.integers(0, max(width - 1, 0)), max_size=8), min_size=1, max_size=6).map(
            lambda rows: (width, rows if width else [set() for _ in rows])
        )
    ),
    st.sampled_from(bitmask.ORDERS),
    st.integers(0, 5),
)
def test_bits_are_those_of_a_number(case: tuple[int, list[set[int]]], order: Any, more: int) -> None:
    width, rows = case
    matrix = NO((len(rows), width), bool)
    for at, row in enumerate(rows):
        matrix[at, sorted(row)] = True
    size = -(-width // 8) + more
    masks = pa.array([sum(1 << bit for bit in row).to_bytes(size, order) for row in rows], pa.binary())
    shorter = pa.array([mask.rstrip(b"\0") if order == "little" else mask.lstrip(b"\0") for mask in masks.to_pylist()])
    for one in (masks, shorter.cast(pa.binary())):
        found, beyond = bits(one, order, width)
        assert (found == matrix).all()
        assert not beyond.any()
    columns = [f"c{at}" for at in range(width)]
    assert names(matrix, columns, NO(len(rows), bool)).to_pylist() == [[f"c{at}" for at in sorted(row)] for row in rows]


def test_a_thousand_columns_are_read_as_row_by_row() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.random((8192, 1024)) < 0.1
    columns = [f"column_{at}" for at in range(1024)]
    texts = pa.array([np.packbits(row[::-1]).tobytes().hex() for row in matrix])

    def one(text: str) -> list[str]:
        number = int(text, 16)
        return [columns[at] for at in range(1024) if number >> at & 1]

    masks, _ = parse(texts)
    found, _ = bits(masks, "big", 1024)
    assert names(found, columns, NO(len(found), bool)).to_pylist() == [one(text) for text in texts.to_pylist()]


# --- evidence ---------------------------------------------------------------------------------------------------------


def evidence(*masks: bytes | None, expected: Any = None, known: Any = True, furthest: int = 0) -> MaskEvidence:
    columns = NO((len(masks), 16), bool) if expected is None else expected
    is_known = np.full(len(masks), expected is not None) & known
    return evidence_of(pa.array(masks, pa.binary()), columns, is_known, furthest)


def test_bits_outside_the_columns_show_the_order() -> None:
    # 16 columns, all of them: 00FFFF is possible only as a number
    found = evidence(b"\x00\xff\xff", b"\x00\x80\x80", b"\xff\xff")
    assert [found.fits(order, 0) for order in ("big", "little")] == [(3, 0), (1, 0)]
    assert found.order_evidence("big", 0) == (
        True, "of 3 masks, 3 have bits of columns only, in the other order 1; e.g. 00FFFF and 008080"
    )  # fmt: skip
    assert evidence(b"\xff\xff\x00").order_evidence("little", 0)[0]


def test_images_show_the_order_where_bits_do_not() -> None:
    masks = (b"\x01\x00", b"\x01\x00", b"\x18\x18", None)
    expected = NO((4, 16), bool)
    expected[:, 8] = True
    assert not any(evidence(*masks).order_evidence(order, 0)[0] for order in ("big", "little"))
    found = evidence(*masks, expected=expected)
    assert [found.fits(order, 0) for order in ("big", "little")] == [(3, 2), (3, 0)]
    first = evidence(*masks, expected=expected, known=np.array([True, False, False, False]))
    assert (first.compared, first.fits("big", 0)) == (1, (3, 1))


def test_bits_show_the_offset() -> None:
    found = evidence(b"\x07\xff\xf8", b"\x00\x00\x08", furthest=24)
    assert [found.fits("big", offset)[0] for offset in (0, 3, 4)] == [1, 2, 0]
    assert (found + found).fits("big", 3) == (4, 0)
