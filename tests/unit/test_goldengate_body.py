"""Bodies of trail records to columns: one at a time, many at a time, and what tells byte order and layout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.goldengate.contents import OPAQUE, ColumnSpans, Half, fit, walk
from cdcwb.formats.goldengate.layout import Order
from tests.goldengate_text import Cell, columns_of, walk_one

PRESENT: Final = b"\0\0"
NULL: Final = b"\xff\xff"
ORDERS: Final[tuple[Order, ...]] = ("little", "big")


def column(index: int, value: bytes | None, order: Order = "little", indicator: bytes = PRESENT) -> bytes:
    data = NULL if value is None else indicator + value
    return index.to_bytes(2, order) + len(data).to_bytes(2, order) + data


def text(value: str, order: Order = "little") -> bytes:
    return len(value).to_bytes(2, order) + value.encode()


def laid(bodies: list[bytes], gap: bytes = b"") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bodies in one buffer with something between them, and where they are."""
    size = np.array([len(body) for body in bodies], dtype=np.int64)
    stop = np.cumsum(size + len(gap)) - len(gap)
    return np.frombuffer(gap.join(bodies), dtype=np.uint8), stop - size, stop


def of_body(cells: ColumnSpans, body: int, start: int) -> list[Cell]:
    """The cells of one body as :func:`walk_one` gives them; the null indicator is known as present, null or odd."""
    out = []
    for place in range(int(cells.offsets[body]), int(cells.offsets[body + 1])):
        indicator = 0xFFFF if cells.is_null[place] else int(cells.odd[place])
        first, last = int(cells.start[place]) - start, int(cells.stop[place]) - start
        half, bare = Half(int(cells.half[place])), bool(cells.bare[place])
        out.append(Cell(int(cells.index[place]), first, last, indicator, half, bare))
    return out


def as_told(cells: list[Cell]) -> list[Cell]:
    return [one._replace(indicator=one.indicator if one.indicator in (0, 0xFFFF) else 1) for one in cells]


@pytest.mark.parametrize("order", ORDERS)
def test_a_column_is_an_index_a_length_a_null_indicator_and_a_value(order: Order) -> None:
    body = column(0, b"abcd", order) + column(3, None, order) + column(7, b"", order)
    assert walk_one(body, order) == [
        Cell(0, 6, 10, 0, Half.AFTER),
        Cell(3, 16, 16, 0xFFFF, Half.AFTER),
        Cell(7, 22, 22, 0, Half.AFTER),
    ]


def test_a_body_that_does_not_end_with_a_column_is_none() -> None:
    body = column(0, b"abcd")
    assert walk_one(body[:-1], "little") is None
    assert walk_one(body + b"\0", "little") is None
    assert walk_one(body, "big") is None
    assert walk_one(b"", "little") == []


def test_a_cut_body_gives_the_columns_that_are_whole() -> None:
    whole = column(0, b"abcd") + column(1, b"ef")
    buffer, start, stop = laid([whole + column(2, b"ghij")[:-2], whole], gap=b"??")
    cells = walk(buffer, start, stop, False)
    assert cells.index.tolist() == [0, 1, 0, 1]
    assert cells.bad.tolist() == [len(whole), -1]


def test_the_key_of_a_key_update_is_the_before_image() -> None:
    key, rest = column(0, b"\0\0\0\x0a"), column(0, b"\0\0\0\x09") + column(1, text("x"))
    body = len(key).to_bytes(2, "little") + key + rest
    assert [(cell.index, cell.half) for cell in walk_one(body, "little", 2) or []] == [
        (0, Half.BEFORE),
        (0, Half.AFTER),
        (1, Half.AFTER),
    ]


def test_a_system_key_is_left_out() -> None:
    body = b"\1\2\3\4" + column(0, b"ab")
    assert walk_one(body, "little", skip=4) == [Cell(0, 10, 12, 0, Half.AFTER)]
    buffer, start, stop = laid([body, b"\1\2"])
    cells = walk(buffer, start, stop, False, skip=np.array([4, 4]))
    assert (cells.start.tolist(), cells.bad.tolist()) == ([10], [-1, len(body) + 2])


@pytest.mark.parametrize("order", ORDERS)
def test_bare_columns_are_big_endian_and_all_of_their_bytes_are_the_value(order: Order) -> None:
    body = column(0, b"abcd", "big", b"") + column(2, b"", "big", b"") + column(5, None, "big")
    wanted = [(0, b"abcd"), (2, b""), (5, b"\xff\xff")]
    cells = walk_one(body, order, bare=True)
    assert [(cell.index, body[cell.start : cell.stop], cell.indicator) for cell in cells or []] == [
        (index, data, 0) for index, data in wanted
    ]
    assert walk_one(column(0, b"abcd", "little", b""), order, bare=True) is None
    buffer, start, stop = laid([body, column(1, b"x", order)])
    many = walk(buffer, start, stop, order == "big", bare=np.array([True, False]))
    assert (many.bare.tolist(), many.odd.any(), many.is_null.any()) == ([True] * 3 + [False], False, False)
    assert [buffer[a:b].tobytes() for a, b in zip(many.start, many.stop, strict=True)][:3] == [one for _, one in wanted]


def test_a_body_to_leave_alone_has_no_columns_and_no_fault() -> None:
    buffer, start, stop = laid([b"anything", column(0, b"ab"), b"x"])
    forms, skip = np.array([OPAQUE, 0, OPAQUE]), np.array([0, 0, 4])
    cells = walk(buffer, start, stop, False, forms, skip)
    assert (cells.row.tolist(), cells.bad.tolist()) == ([1], [-1, -1, -1])
    assert columns_of(b"x", "little", OPAQUE, 4) == ([], -1)


def test_a_record_without_a_body_has_no_columns() -> None:
    buffer, start, stop = laid([column(0, b"ab")])
    for skip in (None, np.array([0, 4])):
        cells = walk(buffer, np.append(start, -1), np.append(stop, -1), False, skip=skip)
        assert (cells.row.tolist(), cells.bad.tolist()) == ([0], [-1, -1])


def test_a_null_indicator_of_another_value_is_odd_and_one_that_is_missing_too() -> None:
    body = column(0, b"ab", indicator=b"\0\1") + b"\1\0\1\0x" + b"\2\0\0\0" + column(3, None)
    buffer, start, stop = laid([body])
    cells = walk(buffer, start, stop, False)
    assert cells.odd.tolist() == [True, True, True, False]
    assert [cells.indicator_text(buffer, k) for k in range(4)] == ["0001", "none", "none", "ffff"]
    assert (cells.stop - cells.start).tolist() == [2, 0, 0, 0]


CELLS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.one_of(st.none(), st.binary(max_size=12)),
        st.sampled_from([PRESENT, PRESENT, NULL, b"\1\0"]),
    ),
    max_size=5,
)
SHAPES = st.tuples(
    st.sampled_from([OPAQUE, 0, 2, 4]), st.integers(0, 3), CELLS, CELLS, st.integers(0, 4), st.booleans(), st.booleans()
)


@given(st.lists(SHAPES, max_size=6), st.sampled_from(ORDERS))
def test_many_bodies_walk_as_each_alone(
    shapes: list[tuple[int, int, list, list, int, bool, bool]], order: Order
) -> None:
    bodies, forms, skips, befores, bares = [], [], [], [], []
    for form, skip, first, second, cut, before, bare in shapes:
        own: Order = "big" if bare else order
        parts = [b"".join(column(i, v, own, n) for i, v, n in half) for half in (first, second)]
        width = max(form, 0)
        body = b"s" * skip + (len(parts[0]).to_bytes(width, own) if width else b"") + b"".join(parts)
        bodies.append(body[: max(len(body) - cut, 0)])
        forms.append(form)
        skips.append(skip)
        befores.append(before)
        bares.append(bare)
    buffer, start, stop = laid(bodies, gap=b"gap")
    cells = walk(buffer, start, stop, order == "big", np.array(forms, dtype=np.int64), np.array(skips, dtype=np.int64),
                 np.array(befores, dtype=bool), np.array(bares, dtype=bool))  # fmt: skip
    for place, body in enumerate(bodies):
        half = Half.BEFORE if befores[place] else Half.AFTER
        alone, bad = columns_of(body, order, forms[place], skips[place], half, bares[place])
        _, _, first, second, lost, _, bare = shapes[place]
        if not lost and forms[place] != OPAQUE:
            assert [(one.index, body[one.start : one.stop]) for one in alone] == [
                (index, (NULL if bare else b"") if value is None else n * bare + value)
                for index, value, n in (*first, *second)
            ]
            assert bad == -1
        assert of_body(cells, place, int(start[place])) == as_told(alone)
        assert cells.bad[place] == (-1 if bad < 0 else bad + start[place])
        assert (cells.row[cells.offsets[place] : cells.offsets[place + 1]] == place).all()


@given(st.lists(st.binary(max_size=40), max_size=6), st.sampled_from(ORDERS), st.sampled_from([OPAQUE, 0, 2, 4]))
def test_no_bytes_make_a_walk_raise(bodies: list[bytes], order: Order, form: int) -> None:
    buffer, start, stop = laid(bodies)
    cells = walk(buffer, start, stop, order == "big", np.full(len(bodies), form, dtype=np.int64))
    for place, body in enumerate(bodies):
        alone, _ = columns_of(body, order, form)
        assert of_body(cells, place, int(start[place])) == as_told(alone)


# --- detection --------------------------------------------------------------------------------------------------------


def fits(bodies: list[bytes], order: Order, form: int = 0) -> list[int]:
    """How well each body can be walked."""
    buffer, start, stop = laid(bodies)
    none = np.zeros(len(bodies), np.int64)
    return fit(buffer, start, stop, order, none + form, none).tolist()


def better(bodies: list[bytes], order: Order) -> bool:
    """Whether each body fits better in this byte order than in the other one."""
    other: Order = "big" if order == "little" else "little"
    return all(one > two for one, two in zip(fits(bodies, order), fits(bodies, other), strict=True))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("indicator", [b"\0\0", b""])
def test_bodies_fit_in_the_byte_order_in_which_they_end_exactly(order: Order, indicator: bytes) -> None:
    bodies = [
        column(0, text("a" * k, order) if indicator else b"a" * k, order, indicator)
        + column(2, b"\0\0\0\1", order, indicator)
        for k in range(1, 40)
    ]
    assert better(bodies, order)


@pytest.mark.parametrize("order", ORDERS)
def test_bodies_that_are_cut_fit_in_the_byte_order_of_their_complete_columns(order: Order) -> None:
    body = (column(0, text("first", order), order) + column(1, text("second", order), order))[:-3]
    assert better([body] * 3, order)


def test_no_bytes_and_free_text_fit_in_neither_byte_order() -> None:
    bodies = [b"", b"free text, no columns"]
    assert fits(bodies, "little") == fits(bodies, "big") == [0, 0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("form", "width"), [(2, 2), (4, 4)])
def test_a_unified_update_fits_with_its_own_length_of_the_before_image(order: Order, form: int, width: int) -> None:
    before = column(0, b"\0\0\0\1", order) + column(1, text("old", order), order)
    after = column(0, b"\0\0\0\1", order) + column(1, text("newer", order), order)
    body = len(before).to_bytes(width, order) + before + after
    other = 2 if form == 4 else 4
    assert fits([body], order, form) > fits([body], order, other)


# --- real records -----------------------------------------------------------------------------------------------------

_HEX = re.compile(r"^\s*((?:[0-9a-f]{4} )*[0-9a-f]{2,4})\s*\|")


def bodies_in(path: Path) -> list[bytes]:
    """The hex behind each image line of a sample."""
    out: list[bytes] = []
    taking = False
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _HEX.match(line)
        if "Image:  " in line:
            taking = True
            out.append(b"")
        elif taking and found:
            out[-1] += bytes.fromhex(found[1])
        else:
            taking = False
    return out


@pytest.mark.samples
@pytest.mark.parametrize(
    ("name", "order", "indexes"),
    [
        ("logdump-mysql-03-insert.txt", "little", [0, 1]),
        ("logdump-mysql-04-update-fieldcomp.txt", "little", [0, 1]),
        ("logdump-mysql-10-insert-3col.txt", "little", [0, 1, 2]),
        ("logdump-oracle-2021-insert-end-x02-detail-on.txt", "little", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("logdump-oracle-2016-fileheader-and-fieldcomp-bigendian.txt", "big", [0, 1]),
    ],
)
def test_real_bodies_walk_to_their_end_in_one_order(samples: Path, name: str, order: Order, indexes: list[int]) -> None:
    (body,) = bodies_in(samples / "goldengate" / name)
    assert [cell.index for cell in walk_one(body, order) or []] == indexes
    assert better([body], order)


@pytest.mark.samples
def test_the_real_key_update_has_its_old_key_before(samples: Path) -> None:
    (body,) = bodies_in(samples / "goldengate" / "logdump-mysql-11-ggspkupdate.txt")
    cells = walk_one(body, "little", 2)
    assert cells is not None
    assert [(cell.index, cell.half, body[cell.start : cell.stop]) for cell in cells] == [
        (0, Half.BEFORE, b"\0\0\0\x0a"),
        (0, Half.AFTER, b"\0\0\0\x09"),
    ]
    assert fits([body], "little", 2) > fits([body], "big", 2)
