"""Records and fields of delimited files: every byte goes where a state machine that reads byte by byte puts it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.formats.containers import delimited
from cdcwb.formats.containers.delimited import Dialect, as_bytes, first_record, likely_start
from cdcwb.formats.containers.rows import cut_fields


class Text:
    """Bytes as a source."""

    def __init__(self, data: bytes) -> None:
        self.data = np.frombuffer(data, np.uint8)
        self.length = len(data)

    def read(self, start: int, stop: int) -> Any:
        start = min(max(start, 0), self.length)
        return self.data[start : min(max(stop, start), self.length)]


Segment = tuple[int, int, str, list[bytes] | None]
STATES = {
    delimited.MESSAGE: "record",
    delimited.FILLER: "filler",
    delimited.MALFORMED: "malformed",
    delimited.TRUNCATED: "truncated",
}


def fast(data: bytes, dialect: Dialect, width: int, start: int = 0, stop: int | None = None) -> list[Segment]:
    """Begin, end, state and fields of each segment, as the framing has it."""
    out: list[Segment] = []
    for some in delimited.records(Text(data), start, len(data) if stop is None else stop, dialect, width):
        fields = iter(zip(some.starts.tolist(), some.ends.tolist(), strict=True))
        for at in range(len(some.start)):
            state = STATES[int(some.state[at])]
            assert (state == "record") == (at not in some.reasons)
            cells = None
            if state == "record":
                cells = [some.buffer[a:b].tobytes() for a, b in zip(*next(fields), strict=True)]
            out.append((some.base + int(some.start[at]), some.base + int(some.end[at]), state, cells))
    return out


def slow(data: bytes, dialect: Dialect, width: int) -> list[Segment]:
    """The same, byte by byte."""

    def line_end(at: int) -> int:
        if dialect.crlf and data.startswith(b"\r\n", at):
            return 2
        return len(dialect.record) if data.startswith(dialect.record, at) else 0

    def quoted(at: int) -> int:
        """Behind the closing quote of the field that begins here; -1: there is none."""
        at += 1
        while at < len(data):
            run = at
            while dialect.escape and data[run : run + 1] == dialect.escape:
                run += 1
            if run > at:
                at = run + (data[run : run + 1] == dialect.quote and (run - at) % 2)
            elif data[at : at + 1] != dialect.quote:
                at += 1
            elif data[at + 1 : at + 2] == dialect.quote:
                at += 2
            else:
                return at + 1
        return -1

    def fields(at: int) -> tuple[list[bytes], int] | None:
        found = []
        while True:
            begin = at
            if dialect.quote and data[at : at + 1] == dialect.quote:
                at = quoted(at)
                if at < 0:
                    return None
            else:
                while at < len(data) and not data.startswith(dialect.delimiter, at) and not line_end(at):
                    at += 1
            found.append(data[begin:at])
            if not data.startswith(dialect.delimiter, at):
                return (found, at) if line_end(at) or at == len(data) else None
            at += len(dialect.delimiter)

    out: list[Segment] = []
    place = 0
    while place < len(data):
        found = fields(place)
        if found is None:
            end = place
            while end < len(data) and not line_end(end):
                end += 1
            state, cells = "malformed", None
        else:
            cells, end = found
            state = "filler" if end == place and width != 1 else "record" if len(cells) == width else "malformed"
        behind = end + line_end(end)
        if state == "malformed" and behind == end and (cells is None or len(cells) < width):
            state = "truncated"  # by the end of the file
        out.append((place, behind, state, cells if state == "record" else None))
        place = behind
    return out


DIALECTS = (
    Dialect(),
    Dialect(crlf=True),
    Dialect(record=b"\r\n"),
    Dialect(escape=b"\\"),
    Dialect(escape=b"\\", crlf=True),
    Dialect(delimiter=b"||"),
    Dialect(delimiter=b"||", record=b"#\n", escape=b"\\"),
    Dialect(quote=b""),
)
TOKENS = (b'"', b'"', b",", b",", b"\n", b"a", b"\\", b"\r\n", b"|", b"||", b"#\n", b'""', b',"', b'",', b'"\n')
texts = st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join)
dialects = st.sampled_from(DIALECTS)
widths = st.integers(1, 3)


@given(texts, dialects, widths, st.sampled_from([4, 16, 64, 1 << 20]))
@settings(max_examples=600)
def test_every_text_is_cut_as_byte_by_byte(data: bytes, dialect: Dialect, width: int, window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_WINDOW", window)
        assert fast(data, dialect, width) == slow(data, dialect, width)


@given(texts, dialects, widths, st.integers(3, 30))
@settings(max_examples=300)
def test_the_chain_of_the_split_before_gives_the_same_records(
    data: bytes, dialect: Dialect, width: int, size: int
) -> None:
    found: list[Segment] = []
    place = 0
    for start in range(0, len(data), size):
        part = fast(data, dialect, width, max(start, place), min(start + size, len(data)))
        found += part
        place = part[-1][1] if part else place
    assert found == slow(data, dialect, width)


@pytest.mark.parametrize("text", [b"plain text", b"two\nlines", b"a,b\n", b'a ""quoted"" word\n'])
def test_what_follows_a_place_tells_whether_it_is_within_quotes(text: bytes) -> None:
    """At every byte, so also within the quotes of a value that has line ends itself."""
    data = b"".join(b'%d,"%s",x\n' % (number, text * 3) for number in range(12))
    begins = [begin for begin, _, _, _ in slow(data, Dialect(), 3)]
    for place in range(1, begins[-3]):
        assert likely_start(Text(data), place, Dialect(), 3) == min(begin for begin in begins if begin >= place)


# --- literal examples -------------------------------------------------------------------------------------------------


def states(data: bytes, width: int, dialect: Dialect = Dialect()) -> list[tuple[bytes, str]]:  # noqa: B008
    return [(data[begin:end], state) for begin, end, state, _ in fast(data, dialect, width)]


def reasons(data: bytes, width: int) -> list[str]:
    return [
        reason
        for some in delimited.records(Text(data), 0, len(data), Dialect(), width)
        for _, reason in sorted(some.reasons.items())
    ]


def test_a_quote_that_never_closes_costs_its_line_only() -> None:
    data = b'1,a\n2,"b\n3,c\n4,d\n'
    assert states(data, 2) == [
        (b"1,a\n", "record"),
        (b'2,"b\n', "malformed"),
        (b"3,c\n", "record"),
        (b"4,d\n", "record"),
    ]
    assert reasons(data, 2) == ["field 2 begins with a quote and the file ends"]


def test_text_behind_a_closing_quote_costs_its_line_only() -> None:
    data = b'1,"a"b\n2,"c"\n'
    assert states(data, 2) == [(b'1,"a"b\n', "malformed"), (b'2,"c"\n', "record")]
    assert reasons(data, 2) == ["expected a delimiter after the closing quote of field 2, found b'b\\n2,\"c\"\\n'"]


def test_a_quote_within_a_field_without_quotes_is_a_character() -> None:
    assert fast(b'1,5" disk\n2,"x"\n', Dialect(), 2) == [
        (0, 10, "record", [b"1", b'5" disk']),
        (10, 16, "record", [b"2", b'"x"']),
    ]


def test_wrong_numbers_of_fields_say_what_was_expected_and_found() -> None:
    data = b"1,2\n1\n\n1,2,3\n1"
    assert [state for _, state in states(data, 2)] == ["record", "malformed", "filler", "malformed", "truncated"]
    assert reasons(data, 2) == [
        "expected 2 fields, found 1",
        "blank line",
        "expected 2 fields, found 3",
        "truncated: expected 2 fields, found 1 where the file ends",
    ]


def test_a_table_of_one_column_may_have_empty_rows() -> None:
    assert [state for _, state in states(b"1\n\n2", 1)] == ["record", "record", "record"]


def test_a_record_may_hold_line_ends_delimiters_and_quotes_in_quotes() -> None:
    data = b'"a\n""b"",",2\n'
    assert fast(data, Dialect(), 2) == [(0, 13, "record", [b'"a\n""b"","', b"2"])]


def test_a_record_longer_than_the_limit_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "LONGEST", 64)
    monkeypatch.setattr(delimited, "_WINDOW", 16)
    data = b'1,"' + b"x\n" * 60 + b'"\n2,b\n'
    found = states(data, 2)
    assert found[0] == (b'1,"x\n', "malformed")
    assert found[-1] == (b"2,b\n", "record")
    assert b"".join(text for text, _ in found) == data


def test_the_first_record_is_found_alone() -> None:
    data = np.frombuffer(b'a,"b\nc"\n1,2\n', np.uint8)
    found = first_record(data, Dialect(), True)
    assert found is not None
    assert (found.starts.tolist(), found.ends.tolist(), found.end.tolist()) == ([[0, 2]], [[1, 7]], [8])
    assert first_record(data[:4], Dialect(), True) is None
    assert first_record(data[:0], Dialect(), True) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'say ""no""', b'say "no"'),
        (rb"say \"no\"", b'say "no"'),
        (rb"C:\temp\\", rb"C:\temp\\"),
        (rb"a\\\"b", rb"a\"b"),
        (rb'a\\""b', rb"a\"b"),
        (rb"\"", b'"'),
        (b"", b""),
    ],
)
def test_escapes_count_only_before_quotes(content: bytes, text: bytes) -> None:
    cells = cut_fields(b'"' + content + b'"', Dialect(escape=b"\\"), ("A",), "utf-8")
    assert [cell.text for cell in cells] == [text.decode()]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (",", b","),
        ("0x01", b"\x01"),
        ("0x0102", b"\x01\x02"),
        ("\\t", b"\t"),
        ("\\r\\n", b"\r\n"),
        ("0x", b"0x"),
        ("§", b"\xc2\xa7"),
    ],
)
def test_delimiters_are_spelt_as_text_or_in_hexadecimal(text: str, data: bytes) -> None:
    assert as_bytes(text, "utf-8") == data


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": b"\n"},
        {"delimiter": b'"'},
        {"quote": b","},
        {"escape": b","},
        {"quote": b"''"},
        {"record": b",\n"},
    ],
)
def test_a_dialect_whose_parts_cannot_be_told_apart_is_refused(wrong: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match=r"cannot be distinguished|one byte"):
        Dialect(**wrong)  # type: ignore[arg-type]
