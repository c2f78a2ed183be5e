"""The outputs of notebooks: verdict, cards, tables, charts and notes, as HTML in which captured text is escaped.
JupyterLab and reports show the same outputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from cdcwb.charts.theme import CONFIG, DARK, add_meta
from cdcwb.formats.dissector import Field
from cdcwb.report import answer as blocks
from cdcwb.report.answer import UNBROKEN, Answer, Block, Document, Figure, Links, Table, Widget
from cdcwb.report.facts import record
from cdcwb.words import clock, count, page_display, plural, rounded, show_times_in, size, tally, visible, zone_name

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cdcwb.analysis.contents import Readers
    from cdcwb.report.opening import Parameters


FIGURE_MIME: Final = "application/vnd.plotly.v1+json"
STYLE: Final = "style"
NOTHING: Final = "nothing"
"""Values of the metadata ``cdcwb`` of an output, besides roles of documents: the style of the page; nothing to
show."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What a click on a row shows: of the ``capture`` of that name on the page, for each row the record, which may be
    None. ``column``: a click on its cells shows this record, also where the row leads to another."""

    capture: str
    records: Sequence[int | None]
    column: str = ""


_CELL: Final = 160  # characters of a table cell that are shown
_HEX: Final = 32  # and of bytes
_SENTENCE: Final = 400
_BY_NAME: Final = {
    **dict.fromkeys(("outcome", "completeness", "severity"), "word"),
    **dict.fromkeys(("evidence", "sentence"), "sentence"),
    **dict.fromkeys(("file", "scope", "table"), "path"),
    "first_bytes": "hex",
    "missing": "reason",
}
"""The kinds of texts of some columns."""
_NAMES: Final = 3  # of a list of names, unless only one more would be left out
_TIMES: Final = ("time", "clock", "moment")
_BROKEN: Final = ("text", "path", "reason", "sentence", "list", "tally")
_WORD: Final = 48  # characters of a word that is not broken
_NAME: Final = 40  # characters of a cell that is one line where it has a hyphen
_SHORT: Final = {"path": 18, "reason": 18, "list": 18, "tally": 18, "sentence": 28}
"""Characters of a cell that is one line: longer ones are in lines of at least so many (``show.css``)."""
_HYPHEN: Final = re.compile(r"(?<!\S)-&gt;(?!\S)|(?<![^\s(])[^\s&<>]{0,30}\w-\w[^\s&<>]{0,30}(?![^\s&])")
_KEPT: Final = 4000  # characters of a cell that are copied and saved
_NUMBERS: Final[dict[str, Callable[[Any], str]]] = {
    "number": count,
    "duration": rounded,
    "size": size,
    "share": "{:.1%}".format,
}
_TEXTS: Final = ("position", "transaction_id", "code", "setting", "command")


@dataclass(slots=True)
class _Look:
    """Whether the style sheet was output, and how files are read."""

    styled: bool = False
    readers: Readers = field(default_factory=dict)


_look: Final = _Look()


def style(asked: Parameters | None = None) -> None:
    """Outputs the style sheet, for JupyterLab; a report has it in its head. Sets the time zone and the theme of the
    following outputs to those of the parameters ``asked`` (None: UTC)."""
    _look.styled, _look.readers = True, {}
    zone, name, theme = (UTC, "UTC", "auto") if asked is None else (asked.zone, asked.time_zone, asked.theme)
    show_times_in(zone, name, theme=theme)
    about = {"cdcwb": STYLE, "theme": theme}
    script = f"(() => {{\n{asset('dark.js')}{asset('lab.js')}follow({json.dumps(DARK)});\n}})();"
    _display({"text/html": f"{look()}<script>{script}</script>", "text/plain": ""}, about)


def look() -> str:
    """The style sheet of the outputs of this module."""
    return f'<style data-theme="{page_display().theme}">{asset("show.css")}</style>'


def style_once() -> None:
    """Outputs the style sheet if it was not output yet, as in a user's own notebook."""
    if not _look.styled:
        style()


def heading(title: str, answer: str = "") -> None:
    """Outputs a title, and the answer in a sentence."""
    answer_html = f"<p><b>{escape(visible(answer, 600))}</b></p>" if answer else ""
    _put(Document(f'<div class="cdcwb-box"><h3>{escape(title)}</h3>{answer_html}</div>', f"{title}: {answer}"))


def read_by(readers: Readers, further: bool = False) -> None:
    """Sets the readers of the capture's files: following tables show the inspect command of rows with file and offset.
    ``further``: those of a second capture."""
    _look.readers = {**_look.readers, **readers} if further else readers


def asset(name: str) -> str:
    """The text of a file of this package: a style sheet, a script or a template."""
    return resources.files("cdcwb.report").joinpath(name).read_text(encoding="utf-8")


def note(text: str) -> None:
    """Outputs a sentence below a chart or table, or instead of one."""
    _put(blocks.note(text))


def chart(figure: go.Figure, instead: str = "") -> None:
    """Outputs a figure, and a note on times outside its axis (:mod:`cdcwb.times`). ``instead`` is
    HTML with the same numbers, shown if scripts are disabled."""
    content = json.loads(figure.to_json()) | {"config": CONFIG}
    _display({FIGURE_MIME: content, "text/html": instead, "text/plain": "a chart"})
    if outside := outside_of(figure):
        note(outside)


def outside_of(figure: go.Figure) -> str:
    """The sentence on times outside the axis of a figure; empty without any."""
    return str((figure.layout.meta or {}).get("outside") or "")


def widget(shown: Any) -> None:
    """Outputs an ipywidget."""
    from IPython.display import display

    display(shown)


# --- answers ----------------------------------------------------------------------------------------------------------


def put(answer: Answer) -> None:
    """Outputs an answer, and its facts."""
    style_once()
    put_blocks(answer)
    if not answer.blocks:  # an empty section, whose heading and text a report leaves out
        _display({"text/plain": ""}, {"cdcwb": NOTHING})
    if answer.facts:
        record(answer.facts)


def put_blocks(answer: Answer) -> None:
    """Outputs the figures, tables and sentences of an answer."""
    for block in answer.blocks:
        _put(block, answer.links)


def _put(block: Block, links: Links | None = None) -> None:
    if isinstance(block, Figure):
        if links is not None:
            add_meta(block.figure, capture=links.capture)
        numbers = block.numbers
        chart(block.figure, table_html(numbers.rows, numbers.columns) if numbers.columns else "")
    elif isinstance(block, Widget):
        widget(block.shown)
    elif isinstance(block, Table):
        text = f"a table of {plural(len(block.rows), 'row')}" if block.rows else block.none
        _display({"text/html": table_block_html(block, links), "text/plain": text})
    else:
        _display({"text/html": block.html, "text/plain": block.text}, {"cdcwb": block.role} if block.role else {})


def table_block_html(block: Table, links: Links | None = None, rows: Sequence[Mapping[str, Any]] | None = None) -> str:
    """A table as HTML in which captured text is escaped, or its sentence without rows; with the number of all rows if
    not all are shown. ``rows``: those that are shown (default: all)."""
    rows = block.rows if rows is None else rows
    if not rows:
        return blocks.note(block.none).html
    columns = block.columns
    commands = [{name: _inspect(row, name, columns) for name in columns} for row in rows]
    leads = []
    if links is not None and not block.cells:
        known = [row.get("record") for row in rows] if "record" in rows[0] else links.find(rows)
        leads.append(Lead(links.capture, known))
    leads += [Lead(of.capture, of.find(named), column) for column, (of, named) in block.cells.items()]
    if block.folder:
        shown = [name for name in ("file", "scope") if name in columns]
        rows = [{**row, **{name: _beneath(row[name], block.folder) for name in shown}} for row in rows]
    html = table_html(rows, columns, commands, leads)
    cut = f"{count(len(rows))} of {count(block.count)} shown."
    return html if block.count <= len(rows) else html + blocks.note(cut).html


def _inspect(row: Mapping[str, Any], name: str, columns: Mapping[str, str]) -> str | None:
    """The inspect command for the record whose offset is in a column (or whose position, in a row without an offset);
    None if its file is not read by bytes."""
    from cdcwb.analysis.contents import command  # imports Spark

    which = re.fullmatch("(.*)(offset|position)", name)
    if which is None or (which[2] == "position" and f"{which[1]}offset" in columns):
        return None
    file = row.get(f"{which[1]}file")
    return command(file, row.get(f"{which[1]}offset"), _look.readers) if file in _look.readers else None


def _beneath(file: str | None, folder: str) -> str | None:
    """The path of a file below a folder; the name of the file if the folder is the file itself."""
    if file == folder:
        return folder.rpartition("/")[2]
    return file.removeprefix(folder.rstrip("/") + "/") if file else file


def table_html(
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str],
    commands: Sequence[Mapping[str, str | None]] | None = None,
    leads: Sequence[Lead] = (),
) -> str:
    """Rows as an HTML table: numbers right-aligned with separators, times in the zone of the page (the zone, and a day
    that all times of a column share, are in its heading), counts by name largest first.

    The name of a column gives its unit: ``…_us`` microseconds, ``bytes`` bytes, ``…offset`` an offset. A fraction
    from 0 to 1 (float) is shown in percent. A cell that is shown in words has its value in ``data-value``, for
    ``tables.js``. ``commands``: for each row, by column, the title of the cell. ``leads``: the records to which
    a click leads (``data-record``, ``data-capture``); a row leads to the first of them that has a record for it.
    """
    rows = list(rows)
    titles = commands or [{} for _ in rows]
    kinds = {name: _kind(name, [row[name] for row in rows]) for name in columns}
    heads = {name: _when([row[name] for row in rows]) for name in columns if kinds[name] == "time"}
    kinds |= {name: kind for name, (kind, _) in heads.items()}
    head = "".join(
        f'<th scope="col"{_class(kinds[name])}{_unbroken(kinds[name], heading)}>'
        f"{escape(visible(heading))}{heads.get(name, ('', ''))[1]}</th>"
        for name, heading in columns.items()
    )
    body = ""
    for number, (row, title) in enumerate(zip(rows, titles, strict=True)):
        known = [lead for lead in leads if lead.records[number] is not None]
        body += f"<tr{_led(known[0], number)}>" if known else "<tr>"
        further = {lead.column: _led(lead, number) for lead in known[1:]}
        body += "".join(_cell(row[name], kinds[name], title.get(name), further.get(name, "")) for name in columns)
        body += "</tr>"
    led = next((lead for lead in leads if any(record is not None for record in lead.records)), None)
    named = "" if led is None else f' data-capture="{escape(led.capture)}"'
    table = f'<table class="cdcwb"{named}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="cdcwb-scroll">{table}</div>'


def _led(lead: Lead, number: int) -> str:
    """The HTML attributes of an element that leads to a record."""
    capture = f' data-capture="{escape(lead.capture)}"' if lead.column else ""
    return f' data-record="{lead.records[number]}"{capture} tabindex="0"'


def _when(times: list[datetime | None]) -> tuple[str, str]:
    """The kind of the times of a column, with the text for its heading: ``clock`` (all on one day), ``time``, or
    ``moment`` (with different offsets)."""
    clocks = [clock(time) for time in times if time is not None]
    if len({offset for _, offset in clocks}) > 1:
        return "moment", ""
    zone = escape(zone_name(axis=False))
    days = {wall.partition(" ")[0] for wall, _ in clocks}
    if len(days) == 1 and len(times) > 1:
        return "clock", f"<small>{days.pop()} {zone}</small>"
    return "time", f" ({zone})"


def _kind(name: str, values: list[Any]) -> str:
    sample = next((value for value in values if value is not None), None)
    if isinstance(sample, datetime):
        return "time"
    if isinstance(sample, bool):
        return "flag"
    if isinstance(sample, int):
        return "duration" if name.endswith("_us") else "size" if name == "bytes" else "number"
    if isinstance(sample, float):
        return "share"
    if isinstance(sample, list | tuple):
        return "tally" if any(isinstance(pair, tuple) for value in values for pair in value or ()) else "list"
    return _BY_NAME.get(name) or ("mono" if name.endswith(_TEXTS) else "text")


_CLASSES: Final = {
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys((*_TIMES, "mono", "hex"), "mono"),
    "word": "word",
    "flag": "",
    "text": "text",
}


def _class(kind: str, breaks: bool = False, unbroken: bool = False) -> str:
    """The CSS class of a cell; ``breaks``: long words may be broken; ``unbroken``: the cell stays on one line, because
    it is short, or a name with a hyphen, at which a browser would break it."""
    names = _CLASSES.get(kind, f"text {kind}") + (" breaks" if breaks else "") + (" whole" if unbroken else "")
    return f' class="{names}"' if names else ""


def _unbroken(kind: str, heading: str) -> str:
    """The attributes of a column for ``tables.js``: kind of values, unit, heading."""
    if kind in _TIMES:
        return f' data-kind="time" data-title="{escape(visible(heading))}"'
    unit = {"duration": "µs", "size": "bytes"}.get(kind)
    return (' data-kind="number"' if kind in _NUMBERS else "") + (f' data-unit="{unit}"' if unit else "")


def _cell(value: Any, kind: str, title: str | None = None, led: str = "") -> str:
    words = "" if value is None else _words(value, kind)
    shown = '<span class="null">—</span>' if value is None else escape(words) or "none"
    held = "" if value is None else escape(_value(value, kind))
    attributes = f' data-value="{held}"' if value is not None and held != shown else ""
    attributes += (f' title="{escape(title)}"' if title else "") + led
    breaks = kind in _BROKEN and max(map(len, words.split()), default=0) > _WORD
    unbroken = kind in _BROKEN and (("-" in words and len(words) <= _NAME) or len(words) <= _SHORT.get(kind, 0))
    if kind in _BROKEN and not unbroken:
        shown = _HYPHEN.sub(lambda word: UNBROKEN.replace(r"\g<0>", word[0]), shown)
    return f"<td{_class(kind, breaks, unbroken)}{attributes}>{shown}</td>"


def _value(value: Any, kind: str) -> str:
    """A value for programs: in full, times in UTC."""
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return aware.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if kind in _NUMBERS:
        return repr(value)
    return visible(_text(value, kind), _KEPT)


def _words(value: Any, kind: str) -> str:
    """A value as the page shows it."""
    if kind in _TIMES:
        text, offset = clock(value)
        if not value.microsecond % 1000 and value.microsecond:
            text = text[:-3]
        return f"{text} {offset}" if kind == "moment" else text.rpartition(" " if kind == "clock" else "\0")[2]
    if kind in _NUMBERS:
        return _NUMBERS[kind](value)
    if kind == "list":
        more = len(value) - _NAMES if len(value) > _NAMES + 1 else 0
        text = ", ".join(visible(v, 60) for v in value[: len(value) - more]) + (f" and {more} more" if more else "")
    else:
        text = _text(value, kind)
    return visible(text, {"sentence": _SENTENCE, "hex": _HEX}.get(kind, _CELL))


def _text(value: Any, kind: str) -> str:
    """A value as text, in full."""
    if kind == "flag":
        return "yes" if value else "no"
    if kind == "tally":
        return tally(value)
    if kind == "list":
        return ", ".join(map(str, value))
    return str(value).replace("_", " ") if kind == "word" else str(value)


def _display(data: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> None:
    from IPython.display import display

    display(data, raw=True, metadata=about or {})


# --- bytes ------------------------------------------------------------------------------------------------------------

MOST_BYTES: Final = 4_000
"""The most bytes of a record that are shown."""
MOST_FIELDS: Final = 60
"""The most fields of a record that get a number; ``show.css`` has a rule for each."""

_COLOURS: Final = 6
_BRACKETS: Final = frozenset({"opening", "closing", "between", "behind", "=", "layout", "rule", "token line"})
_PRINTED_TWICE: Final = ("header tokens", "columns")
"""Fields of Logdump's text that it also prints elsewhere in the record."""
_VALUE: Final = 90
_MEANING: Final = 160


@dataclass(frozen=True, slots=True)
class ByteRun:
    """A run of bytes of a record. ``number`` (from 1) is that of its ``field``; None: bytes without a field (brackets,
    white space, fields that were left out)."""

    offset: int
    raw: bytes
    number: int | None
    field: Field


def parts(root: Field, skip: Collection[str] = ()) -> list[ByteRun]:
    """The bytes of a record in order, each once; fields with bytes and without children are numbered.

    ``skip``: names of fields that get no number, nor do their children.
    """
    result: list[ByteRun] = []
    at = number = 0
    for leaf, skipped in _leaves(root, frozenset(skip), False):
        if leaf.offset > at:  # bytes of no leaf
            result.append(ByteRun(at, root.raw[at : leaf.offset], None, root))
        plain = skipped or leaf.quiet or leaf.name in _BRACKETS or number >= MOST_FIELDS
        number += not plain
        result.append(ByteRun(leaf.offset, leaf.raw, None if plain else number, leaf))
        at = leaf.offset + leaf.length
    if at < root.length:
        result.append(ByteRun(at, root.raw[at:], None, root))
    return result


def _leaves(field: Field, skip: frozenset[str], skipped: bool) -> Iterator[tuple[Field, bool]]:
    skipped = skipped or field.name in skip
    if field.children:
        for child in field.children:
            yield from _leaves(child, skip, skipped)
    elif field.length:
        yield field, skipped


def record_html(root: Field, *, as_text: bool = False, skip: Collection[str] = ()) -> str:
    """The HTML of a record: its bytes in hex, or with ``as_text`` as UTF-8 text, and a table of its numbered fields.

    Everything is escaped. Of a long record the first :data:`MOST_BYTES` are shown, with the number of the others.
    """
    runs = parts(root, skip)
    shown = [part for part in runs if part.offset < MOST_BYTES]
    numbered = [part for part in shown if part.number is not None]
    if as_text:
        lines = [part.raw.decode("utf-8", "backslashreplace").split("\n") for part in shown]  # line ends are kept
        texts = ["\n".join(escape(visible(one, MOST_BYTES)) if one else "" for one in some) for some in lines]
        data = f'<pre class="text">{"".join(map(_run, shown, texts))}</pre>'
    else:
        data = f'<div class="hex">{"".join(_groups(root, shown))}</div>'
    left = root.length - sum(len(part.raw) for part in shown)
    pale = sum(part.number is None for part in shown)
    phrases = [f"{plural(root.length, 'byte')}, {plural(len(numbered), 'field')} with a number"]
    phrases += [f"{plural(pale, 'run')} without one: brackets, white space, repeated text"] if pale else []
    phrases += [f"the last {plural(left, 'byte')} are not shown"] if left > 0 else []
    rows = "".join(_rows(root, {id(part.field): part for part in numbered}, 0))
    head = "".join(f'<th scope="col">{name}</th>' for name in ("", "bytes", "field", "value", "what it is"))
    table = f'<table class="cdcwb"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return (
        f'<div class="cdcwb-bytes">{data}<p class="cdcwb-note">{escape("; ".join(phrases))}.</p>'
        f'<div class="cdcwb-scroll">{table}</div></div>'
    )


def dissection(file: str, offset: int) -> None:
    """Outputs the record of a file at an offset, as :func:`record_html`; bytes that are not text are in hex."""
    from cdcwb.formats import inspect

    style_once()
    root = inspect(file, offset).field
    text = root.raw.decode("utf-8", "replace")
    as_text = "\ufffd" not in text and "\0" not in text
    html = record_html(root, as_text=as_text, skip=_PRINTED_TWICE)
    _put(Document(html, f"{root.name}: {plural(root.length, 'byte')}"))


def _byte_class(number: int) -> str:
    return f"f n{number} c{number % _COLOURS}"


def _run(part: ByteRun, text: str) -> str:
    if part.number is None:
        return f'<span class="plain">{text}</span>'
    last = part.offset + len(part.raw) - 1
    where = f"bytes {part.offset} to {last}" if last > part.offset else f"byte {part.offset}"
    title = escape(f"{visible(part.field.name, 80)}: {where}")
    return f'<span class="{_byte_class(part.number)}" title="{title}"><b>{part.number}</b>{text}</span>'


def _groups(root: Field, shown: Sequence[ByteRun]) -> Iterator[str]:
    """The runs in hex, those of each group of the record in a line of their own."""
    for group in root.children or (root,):
        inside = [part for part in shown if group.offset <= part.offset < group.offset + max(1, group.length)]
        if not inside:
            continue
        runs = "".join(_run(part, part.raw.hex(" ")) for part in inside)
        size = plural(sum(len(part.raw) for part in inside), "byte")
        yield f"<div><h4>{escape(visible(group.name, 60))}<small>{size}</small></h4><p>{runs}</p></div>"


def _rows(field: Field, by_field: dict[int, ByteRun], depth: int) -> Iterator[str]:
    part = by_field.get(id(field))
    if part is not None:
        number = part.number or 0
        where = f"{count(part.offset)}" + (f"–{count(part.offset + len(part.raw) - 1)}" if len(part.raw) > 1 else "")
        value = '<span class="null">NULL</span>' if field.value is None else escape(visible(field.value, _VALUE))
        yield (
            f'<tr class="{_byte_class(number)}"><td class="badge"><b>{number}</b></td><td class="number">{where}</td>'
            f'<td class="name" style="--depth:{depth}">{escape(visible(field.name, 60))}</td>'
            f'<td class="value">{value}</td><td class="meaning">{escape(visible(field.meaning, _MEANING))}</td></tr>'
        )
        return
    inner = [row for child in field.children for row in _rows(child, by_field, depth + 1)]
    if inner and depth:
        name = escape(visible(field.name, 60))
        value = "" if field.value is None else f" = {escape(visible(field.value, _VALUE))}"
        meaning = escape(visible(field.meaning, _MEANING))
        yield (
            f'<tr class="group"><td></td><td></td><td class="name" style="--depth:{depth}" colspan="2">{name}{value}'
            f'</td><td class="meaning">{meaning}</td></tr>'
        )
    yield from inner
