"""Where in the text of a record its names and time stand."""

from __future__ import annotations

from cdcwb.formats.goldengate import printed_lines as lines
from cdcwb.formats.goldengate.records import MISSING, Printed

__all__ = ["places_of"]

_Span = tuple[int, int]
_NOWHERE: _Span = (MISSING, MISSING)


def places_of(data: bytes, start: int, stop: int, printed: Printed) -> tuple[_Span, _Span, _Span]:
    """First and last+1 byte, in ``data``, of the operation, the Name and the printed time of the record between
    ``start`` and ``stop``; MISSING for what is not printed."""
    operation = name = time = in_header = _NOWHERE
    for first, last in lines.split_lines(data, start, stop):
        raw = data[first:last]
        line = raw.strip(lines.BLANK)
        if not line:
            continue
        at = first + raw.index(line)
        if line[:1].isdigit() and operation == _NOWHERE:
            record = lines.RECORD.match(line)
            if record is not None:
                time, operation = _moved(record.span(1), at), _moved(record.span(2), at)
        elif line.startswith(b"Name") and printed.name is not None:
            found = lines.NAME.match(line)
            if found is not None and lines.text_of(found[1]) == printed.name:
                name = _moved(found.span(1), at)
        elif in_header == _NOWHERE and printed.io_time is not None and b"IO Time" in line:
            for pair in lines.header_pairs(line):
                if pair.name == "IO Time":
                    in_header = _moved((pair.start, pair.stop), at)
    if printed.line_time is None:
        time = in_header
    return operation, name, time


def _moved(span: _Span, by: int) -> _Span:
    return span[0] + by, span[1] + by
