"""The explorer as an anywidget: the script sends requests and renders answers, all logic is in Python."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import resources
from threading import RLock
from typing import Any, Final

import anywidget
import traitlets

from cdcwb.charts.theme import OPERATIONS
from cdcwb.errors import CaptureError
from cdcwb.explore.model import CHOICES, Explorer
from cdcwb.explore.records import places
from cdcwb.explore.terms import chosen_in, completions
from cdcwb.explore.views import COPIES
from cdcwb.words import count, moment, plural, visible, zone_name

_FALLBACK: Final = 20
_LINE: Final = 4_000
_TERM: Final = 300
_SLICE: Final = 0.25  # seconds that a search continues while the page asks for its progress
_SHOWN: Final = ("record", "time", "what", "table", "transaction", "position", "problem")
_ASSETS: Final = resources.files("cdcwb.explore")
Message = dict[str, Any]


class ExplorerWidget(anywidget.AnyWidget):
    """Three linked panes: records, fields, bytes. ``explorer`` is the model, which other cells may use; ``capture`` is
    the name of the capture on a page with views of it. ``begin``: the first answer, for a page that opens while the
    kernel runs other cells and hears no requests."""

    _esm = "".join(_ASSETS.joinpath(name).read_text(encoding="utf-8") for name in ("dom.js", "explorer.js"))
    _css = _ASSETS.joinpath("explorer.css").read_text(encoding="utf-8")

    capture = traitlets.Unicode().tag(sync=True)
    begin = traitlets.Dict().tag(sync=True)

    def __init__(self, explorer: Explorer, capture: str = "") -> None:
        self.explorer = explorer
        self._lock = RLock()  # requests may come from several threads
        super().__init__(capture=capture, begin=self.answer({"id": 0, "do": "open"}))
        self.on_msg(self._heard)

    def show(self, record: int, with_row: bool = False) -> None:
        """Makes a record the current one; the page follows. ``with_row``: lists the records that change its row; raises
        CaptureError if its key is unknown."""
        with self._lock:
            self.explorer.choose(record)
            if with_row:
                self.explorer.follow_row()
        self.send({"chosen": record})

    def follow(self) -> None:
        """Notifies the page that the selection changed."""
        self.send({"changed": True})

    def answer(self, message: Message) -> Message:
        """The answer to a request of the page: ``do`` names the step, ``first`` and ``count`` the rows of its list."""
        with self._lock:
            return self._answer(message)

    def _answer(self, message: Message) -> Message:
        explorer, do = self.explorer, str(message.get("do"))
        reply: Message = {"id": message.get("id")}
        jumped = False
        try:
            if do in _ANSWERS:
                answer = _ANSWERS[do](explorer, message)
                if answer:
                    return reply | answer
            elif do in _JUMPS:
                _JUMPS[do](explorer, message)
                jumped = True
            elif do in _STEPS:
                _STEPS[do](explorer, message)
            else:
                raise CaptureError(f"there is no step '{do}'")
        except CaptureError as wrong:
            reply |= {"error": wrong.sentence, "place": getattr(wrong, "place", None)}
        if do == "open":
            reply["about"] = _about(explorer)
        return reply | {"state": self._state(message, jumped)}

    def _heard(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self.send(self.answer(content if isinstance(content, dict) else {}))

    def _state(self, message: Message, jumped: bool) -> Message:
        explorer = self.explorer
        explorer.refresh()
        lines = max(1, min(int(message.get("count", 20)), 200))
        first = int(message.get("first", 0))
        index = explorer.place_of(explorer.chosen)
        if jumped and not first <= index < first + lines:
            near = first - lines <= index < first + 2 * lines
            first = (index if index < first else index - lines + 1) if near else index - lines // 2
        first = max(0, min(first, explorer.shown - lines))
        return {
            **{name: getattr(explorer, name) for name in ("shown", "chosen", "filter", "hint", "note")},
            **{name: getattr(explorer.index, name) for name in ("records", "problems")},
            "first": first,
            "rows": explorer.page(first, lines),
            "search": _progress(explorer),
            "selection": _selection(explorer),
            "only": chosen_in(explorer.filter, CHOICES),
            "took": round(explorer.took_ms, 1),
            "saved": explorer.saved.rows(),
            "marks": len(explorer.bookmarks),
        }

    def _repr_mimebundle_(self, **asked: Any) -> Any:
        """The widget, and the first records as a table for pages without a kernel."""
        bundle: Any = super()._repr_mimebundle_(**asked)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), "text/html": self._fallback(), "text/plain": "the explorer"}, metadata

    def _fallback(self) -> str:
        explorer = self.explorer
        rows = [{**record, "record": count(record["row"] + 1)} for record in explorer.page(0, _FALLBACK)]
        names = [f"time ({zone_name(axis=False)})" if name == "time" else name for name in _SHOWN]
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(row[name] or ''))}</td>" for name in _SHOWN) + "</tr>" for row in rows
        )
        caption = f"The first {len(rows)} of {plural(explorer.index.records, 'record')}."
        table = f'<table class="cdcwb"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        note = f'<p class="cdcwb-note">{caption} In JupyterLab, with a running kernel, the explorer is here.</p>'
        return f'<div class="cdcwb-scroll">{table}</div>{note}'


def _selection(explorer: Explorer) -> Message | None:
    """The selection of the capture, and whether the explorer follows it; None if nothing is selected."""
    selection = explorer.selection
    if selection is None or not selection.chosen():
        return None
    times = [selection.time_from, selection.time_to]
    parts = [selection.sentence(("time_from", "time_to"))]
    parts += [] if times == [None, None] else [" to ".join(moment(time, "…") for time in times)]
    return {"sentence": "; ".join(filter(None, parts)), "follows": explorer.follows}


def _progress(explorer: Explorer) -> Message | None:
    """The progress of the search of the filter in force; None without a search."""
    search = explorer.search
    if search is None:
        return None
    part = f"{count(search.searched)} of {plural(search.total, 'record')}"
    sentence = f"searched {part}" if search.complete else f"stopped after {part}"
    if not explorer.search_done:
        total = plural(search.total, "record")
        sentence = f"searched {part}" if search.searched else f"opening the files to search {total}"
    return {
        "running": not explorer.search_done,
        "part": search.searched / max(1, search.total),
        "sentence": f"{sentence}, {count(explorer.shown)} found" + (f": {search.wrong}" if search.wrong else ""),
    }


# --- requests ---------------------------------------------------------------------------------------------------------


def _about(explorer: Explorer) -> Message:
    """What does not change while the explorer is open."""
    return {
        "format": explorer.index.format,
        "zone": zone_name(axis=False),
        "files": plural(len(explorer.index.files), "file"),
        "columns": {name: column.kind for name, column in explorer.columns.items()},
        "places": places(explorer.index),
        "choices": explorer.choices,
        "copies": list(COPIES),
        "home": None if explorer.source.home is None else str(explorer.source.home),
        "looks": {name: [look.colour, look.pattern] for name, look in OPERATIONS.items()},
    }


def _field(message: Message) -> tuple[int | None, str, str]:
    """A field of the record by its number, or a column of an image."""
    field = message.get("field")
    return None if field is None else int(field), str(message.get("image", "")), str(message.get("column", ""))


def _text(message: Message, name: str) -> str | None:
    return None if message.get(name) is None else str(message[name])


def _copy(explorer: Explorer, message: Message) -> Message:
    kind = str(message.get("kind"))
    return {"copied": {"kind": kind, "text": explorer.copy(kind)}}


def _complete(explorer: Explorer, message: Message) -> Message:
    text = str(message.get("text", ""))
    return {"completions": completions(text, explorer.columns, explorer.kinds) if len(text) <= _LINE else []}


def _terms(explorer: Explorer, message: Message) -> Message:
    """The filters for the value of a field and for all other values, shortened for a button if they are too long."""
    return {"terms": [{"clause": c, "shown": visible(c, _TERM)} for c in explorer.terms(*_field(message))]}


def _complete_value(explorer: Explorer, message: Message) -> Message:
    kind = visible(message.get("name", ""))
    return {"copied": {"kind": kind, "text": explorer.complete_value(*_field(message))}}


def _follow(explorer: Explorer, message: Message) -> None:
    explorer.follows = bool(message.get("on"))


def _unselect(explorer: Explorer, _message: Message) -> None:
    if explorer.selection is not None:
        explorer.selection.reset()


_ANSWERS: Final[dict[str, Callable[[Explorer, Message], Message]]] = {
    "detail": lambda it, m: {"detail": it.detail()} if int(m.get("row", it.chosen)) == it.chosen else {},
    "copy": _copy,
    "complete": _complete,
    "terms": _terms,
    "whole": _complete_value,
}
"""Questions about a record or a filter."""

_STEPS: Final[dict[str, Callable[[Explorer, Message], object]]] = {
    "page": lambda explorer, _: explorer.advance(_SLICE),
    "mark": lambda explorer, message: explorer.mark(_text(message, "note")),
    "cancel": lambda explorer, _: explorer.cancel(),
}
"""Steps after which the list stays where it is."""

_JUMPS: Final[dict[str, Callable[[Explorer, Message], object]]] = {
    "open": lambda _explorer, _: None,
    "filter": lambda explorer, message: explorer.apply(str(message.get("text", ""))),
    "choose": lambda explorer, message: explorer.choose(int(message["row"])),
    "chosen": lambda _explorer, _: None,
    "back": lambda explorer, _: explorer.back(),
    "move": lambda explorer, message: explorer.move(int(message["by"])),
    "problem": lambda explorer, message: explorer.problem(int(message["by"])),
    "transaction": lambda explorer, _: explorer.follow_transaction(),
    "row": lambda explorer, _: explorer.follow_row(),
    "go": lambda explorer, message: explorer.go(str(message["text"])),
    "follow": _follow,
    "unselect": _unselect,
    "add": lambda explorer, message: explorer.add(str(message["clause"])),
    "narrow": lambda explorer, m: explorer.narrow(str(m["column"]), int(m["row"]), bool(m.get("other"))),
    "only": lambda explorer, message: explorer.only(str(message["column"]), _text(message, "value")),
    "save": lambda explorer, message: explorer.save_filter(str(message["name"])),
    "forget": lambda explorer, message: explorer.saved.remove(str(message["name"])),
}
"""Steps after which the list shows the chosen record."""
