"""XDS documents on a page: the escaped text of each, with the rows of the log from which it was made.

Removed and added values differ in colour, in the sign at the edge (``−`` and ``+``), and in the element (``del`` and
``ins``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final

from cdcwb.words import count, joined, plural, visible

_TAG: Final = re.compile(r"(<[^<>]*>)")
_NAME: Final = re.compile(r"</?([\w-]+)")
_ATTRIBUTE: Final = re.compile(r"([\w-]+)=(&quot;.*?&quot;)", re.DOTALL)
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

_TEXT: Final = 240  # characters of a value that are shown
_CELL: Final = 90
_REMOVES: Final = ("remove-value", "remove-all-values")
_ADDS: Final = ("add-value", "add-attr")
_SIGNS: Final = {"": " ", "removed": "−", "added": "+"}
_ELEMENTS: Final = {"removed": "del", "added": "ins"}
_DELETE: Final = 4
_COLUMNS: Final = {"record_id": "record", "event": "event", "operation": "operation", "event_type": "type"}
_LINES: Final = 160


def xml_html(xml: str, *, inside: bool = False) -> str:
    """The text of a document as HTML that shows it character by character, up to :data:`_LINES` lines.

    Tags, values, the association, and removed and added values have CSS classes. The text need not be well-formed.
    ``inside``: only the content of ``input``, less indented.
    """
    written = list(_lines(_within(xml) if inside else xml))
    while written and not written[-1][1]:
        written.pop()
    body = "".join(
        f'<span class="line {how}"><span class="mark">{_SIGNS[how]}</span>{text}\n</span>'
        for how, text in written[:_LINES]
    )
    if len(written) > _LINES:
        more = plural(len(written) - _LINES, "more line")
        body += f'<span class="line more"><span class="mark">…</span>{more}\n</span>'
    return f'<pre class="cdcwb-xml">{body}</pre>'


def _within(xml: str) -> str:
    """The content of ``input``, less indented; all of the text if it has another layout."""
    _, separator, rest = xml.partition("\n  <input>\n")
    body, closed, _ = rest.rpartition("\n  </input>\n")
    if not separator:
        return xml
    return re.sub(r"(?:(?<=>\n)|\A)    (?= *<)", "", body if closed else rest)


def _lines(xml: str) -> Iterator[tuple[str, str]]:
    """Each line as HTML, with its effect on the object: removed, added or none."""
    path: list[str] = []
    effect = line = ""
    for token in _TAG.split(xml):
        is_tag = _TAG.fullmatch(token) is not None
        kind = _tag_kind(path, token) if is_tag else _text_kind(path, token)
        for number, part in enumerate(token.split("\n")):
            if number:
                yield effect, line
                effect = line = ""
            if kind in _ELEMENTS and (token.strip() or is_tag):
                effect = kind
            line += _tag_html(part) if is_tag else _text_html(part, kind)
    yield effect, line


def _tag_kind(path: list[str], tag: str) -> str:
    """The effect of a tag; ``path``, the names of open elements, is brought up to date."""
    match = _NAME.match(tag)
    if match is None:
        return ""
    name = match[1]
    if tag.startswith("</"):
        while path and path.pop() != name:
            pass
        return ""
    if not tag.endswith("/>"):
        path.append(name)
    return "removed" if name in ("remove-all-values", "delete") else ""


def _text_kind(path: list[str], text: str) -> str:
    if path[-1:] == ["value"]:
        return "removed" if {*path} & {*_REMOVES} else "added" if {*path} & {*_ADDS} else ""
    return "key" if "association" in path and text.strip() else ""


def _tag_html(tag: str) -> str:
    def attribute(match: re.Match[str]) -> str:
        kind = "named" if match[1] == "attr-name" else "string"
        return f'<span class="attribute">{match[1]}</span>=<span class="{kind}">{match[2]}</span>'

    html = re.sub(r"^(&lt;/?)([\w-]+)", r'\1<span class="name">\2</span>', _escaped(tag, len(tag)))
    return _ATTRIBUTE.sub(attribute, html)


def _text_html(text: str, kind: str) -> str:
    html = _escaped(text, _TEXT)
    if not kind or not html:
        return html
    element = _ELEMENTS.get(kind)
    return f"<{element}>{html}</{element}>" if element else f'<span class="{kind}">{html}</span>'


def _escaped(text: str, limit: int) -> str:
    """Captured text as HTML: invisible characters, and those that reorder text, are escapes; a text that is much longer
    than ``limit`` is shortened, with a note."""
    cut = ""
    if len(text) > limit + 20:
        cut = f'<span class="cut">… {plural(len(text) - limit, "more character")}</span>'
        text = text[:limit]
    parts, offset = [], 0
    for match in _UNSEEN.finditer(text):
        parts += [escape(text[offset : match.start()]), f'<span class="unseen">{escape(visible(match.group()))}</span>']
        offset = match.end()
    return "".join(parts) + escape(text[offset:]) + cut


def rows_html(rows: Iterable[Mapping[str, Any]], total: int | None = None, capture: str = "") -> str:
    """Rows of the log as an HTML table with the columns ``record_id``, ``event`` (if there are several), ``operation``
    and ``event_type``, if the rows have them, and ``column_name``, ``old_value``, ``new_value``.

    A value that a row does not have is not shown; ``asked``: it is in the table only. Rows whose ``decision`` is not
    ``published`` are struck through, with the reason below the last row of each reason. ``total``: the total number of
    rows. ``capture``: its name on the page, if a click on a row shows its ``record``.
    """
    rows = list(rows)
    names = [name for name in _COLUMNS if any(name in row for row in rows)]
    if len({row.get("event") for row in rows} - {None}) < 2:
        names = [name for name in names if name != "event"]
    heads = [_COLUMNS[name] for name in names] + ["column", "old value", "new value"]
    body = ""
    for row, following in zip(rows, [*rows[1:], {}], strict=True):
        body += _row(row, names)
        reason = row.get("reason")
        if not _is_published(row) and (not following or _is_published(following) or following.get("reason") != reason):
            text = escape(visible(reason or "not published", 200))
            body += f'<tr class="struck why"><td></td><td colspan="{len(heads) - 1}">{text}</td></tr>'
    led = f' data-capture="{escape(capture)}"' if capture else ""
    html = (
        f'<div class="cdcwb-scroll"><table class="cdcwb cdcwb-rows"{led}><thead><tr>'
        + "".join(f'<th scope="col"{_number(head)}>{head}</th>' for head in heads)
        + f"</tr></thead><tbody>{body}</tbody></table></div>"
    )
    if total is not None and total > len(rows):
        html += f'<p class="cdcwb-note">{count(len(rows))} of {plural(total, "row")} shown.</p>'
    return html


def _is_published(row: Mapping[str, Any]) -> bool:
    return bool(row.get("decision", "published") == "published")


def _number(head: str) -> str:
    return ' class="number"' if head in ("record", "event", "type") else ""


def _row(row: Mapping[str, Any], names: list[str]) -> str:
    cells = [_figure(row.get(name), name) for name in names]
    cells.append(f'<td class="mono">{_shown(row.get("column_name"))}</td>')
    if row.get("asked"):
        cells.append('<td></td><td><span class="asked">asked of the table</span></td>')
    else:
        held = row.get("event_type") != _DELETE
        for name, effect in (("old_value", "removed"), ("new_value", "added")):
            cells.append(f"<td>{_changed(row[name], effect) if held and name in row else ''}</td>")
    struck = "" if _is_published(row) else ' class="struck"'
    led = "" if row.get("record") is None else f' data-record="{row["record"]}" tabindex="0"'
    return f"<tr{struck}{led}>{''.join(cells)}</tr>"


def _figure(value: Any, name: str) -> str:
    if name == "operation":
        return f'<td class="word">{_shown(value)}</td>'
    text = '<span class="null">—</span>' if value is None else count(value) if isinstance(value, int) else _shown(value)
    return f'<td class="number">{text}</td>'


def _shown(value: Any) -> str:
    return '<span class="null">—</span>' if value is None else escape(visible(value, _CELL))


def _changed(value: str | None, effect: str) -> str:
    if value is None:
        return '<span class="null">NULL</span>'
    shown, tag = escape(visible(value, _CELL)) if value else '<span class="null">empty</span>', _ELEMENTS[effect]
    more = f' <span class="cut">{count(len(value))} characters</span>' if len(value) > _CELL else ""
    return f'<{tag}><span class="mark">{_SIGNS[effect]}</span>{shown}</{tag}>{more}'


def document_html(document: Mapping[str, Any], *, inside: bool = False, capture: str = "") -> str:
    """A document and its source rows, side by side if the page is wide; ``inside``: without its envelope.

    ``document`` (number), ``events``, ``why`` it is shown, ``xml``, its ``length`` in characters, ``rows`` (as
    :func:`rows_html` takes them, as ``capture``) and ``rows_total``.
    """
    rows = list(document["rows"])
    ids = [row["record_id"] for row in rows if row.get("record_id") is not None and row.get("document") is not None]
    places = "" if not ids else f"record {count(ids[0])}" if len(ids) == 1 else f"records {_range(ids)}"
    parts = [plural(document["events"], "event"), places, document.get("why") or ""]
    about = " · ".join(escape(visible(part, 200)) for part in parts if part)
    cut = ""
    if document.get("length", 0) > len(document["xml"]):
        more = document["length"] - len(document["xml"])
        cut = f'<p class="cdcwb-note">{plural(more, "more character")} of the document are left out.</p>'
    return (
        f'<section class="cdcwb-document"><h3>Document {count(document["document"])} <small>{about}</small></h3>'
        f'<div class="beside"><div class="from">{rows_html(rows, document.get("rows_total"), capture)}</div>'
        f'<div class="to">{xml_html(document["xml"], inside=inside)}{cut}</div></div></section>'
    )


def _range(ids: list[int]) -> str:
    if len(ids) <= 4:
        return joined([count(number) for number in ids])
    return f"{count(min(ids))} to {count(max(ids))}"


def side_by_side(documents: Iterable[Mapping[str, Any]], capture: str = "") -> str:
    """Some documents as HTML, each with its rows; the first one complete, of the others the content of ``input``.
    ``capture``: see :func:`rows_html`."""
    return "".join(
        document_html(document, inside=number > 0, capture=capture) for number, document in enumerate(documents)
    )
