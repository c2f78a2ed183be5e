"""What a panel says, in the order in which it says it: put on a page, or gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.report import record, show
from cdcwb.views.leads import Rows, records_of
from cdcwb.words import plural

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from cdcwb.analysis.summary_text import Health
    from cdcwb.views.bench import Bench

__all__ = ["Sheet"]

_MARKED: Final = {
    "note": "note",
    "table": "table",
    "type": "record",
    "position": "position",
    "file": "file",
    "offset": "at offset",
    "marked_at": "bookmarked at",
}


class Sheet:
    """Figures, tables and sentences of one panel. The last line of a cell puts it on the page.

    ``figure`` (plotly) and ``frame`` (pandas, Arrow types) are its first figure and its first table, ``figures`` and
    ``frames`` all of them; ``facts`` is what a script reads. ``bench``: where somebody can click, the rows of its
    tables, and the points of figures that are made of rows of :meth:`lead`, lead to their records.
    """

    def __init__(self, title: str = "", bench: Bench | None = None) -> None:
        self.title = title
        self._bench = bench
        self.facts: dict[str, Any] = {}
        self.figures: list[go.Figure] = []
        self._tables: list[tuple[show.Rows, dict[str, str]]] = []
        self._said: list[Callable[[], None]] = []

    # --- what a panel says --------------------------------------------------------------------------------------------

    def verdict(self, health: Health) -> None:
        """See :func:`cdcwb.report.show.verdict`."""
        self._said.append(lambda: show.verdict(health))

    def headline(self, text: str) -> None:
        """See :func:`cdcwb.report.show.headline`."""
        self._said.append(lambda: show.headline(text))

    def note(self, text: str) -> None:
        """A sentence."""
        self._said.append(lambda: show.note(text))

    def cards(self, values: Iterable[tuple[str, str, str] | None]) -> None:
        """A few figures side by side: title, value and a line below it each; None is left out."""
        shown = [value for value in values if value is not None]
        self._said.append(lambda: show.cards(shown))

    def table(
        self,
        rows: show.Rows,
        columns: Mapping[str, str],
        *,
        total: int | None = None,
        none: str = "None.",
        folder: str = "",
        by_heading: bool = False,
        leads: Mapping[str, tuple[Bench, Rows]] | None = None,
    ) -> None:
        """A table: see :func:`cdcwb.report.show.table`. ``by_heading``: its columns are captured ones, so those of the
        frame have the names of their headings. ``leads``: columns whose cells lead to records of a capture, and what
        names these in each row (:mod:`cdcwb.views.leads`)."""
        self._tables.append((rows, dict(columns) if by_heading else {name: name for name in columns}))

        def put() -> None:
            led = self.lead(rows)
            to = [show.Lead(self.capture, [row["record"] for row in led])] if self.capture else []
            for column, (bench, named) in (leads or {}).items():
                to.append(show.Lead(bench.name, records_of(named, bench.changes), column))
            show.table(led, columns, total=total, none=none, folder=folder, leads=to)

        self._said.append(put)

    def chart(self, figure: go.Figure, instead: str) -> None:
        """A figure; ``instead`` is HTML that says the same in numbers."""
        if self.capture:
            figure.layout.meta = {**(figure.layout.meta or {}), "capture": self.capture}
        self.figures.append(figure)
        self._said.append(lambda: show.chart(figure, instead))

    @property
    def capture(self) -> str:
        """The name of the capture on the page, where somebody can click; else empty."""
        return "" if self._bench is None else self._bench.name

    def lead(self, rows: show.Rows) -> list[dict[str, Any]]:
        """The rows, where somebody can click with the number of their ``record`` (:mod:`cdcwb.views.leads`)."""
        plain = rows if isinstance(rows, list) else show.records(rows)
        if self._bench is None or not plain or "record" in plain[0]:
            return plain
        records = records_of(plain, self._bench.everything.changes)
        return [{**row, "record": record} for row, record in zip(plain, records, strict=True)]

    def put_by(self, put: Callable[[], None]) -> None:
        """Whatever else: ``put`` puts it on the page."""
        self._said.append(put)

    def widget(self, shown: Any) -> None:
        """An ipywidget."""
        self._said.append(lambda: show.widget(shown))

    def marks(self, rows: list[dict[str, Any]], *, total: int, folder: str) -> None:
        """Records that were marked in the explorer."""
        shown = [{name: row.get(name) for name in _MARKED} for row in rows]
        self.table(shown, _MARKED, total=total, none="No record is bookmarked.", folder=folder)

    def record(self, facts: Mapping[str, Any]) -> None:
        """Facts for those who go on with the answer."""
        self.facts |= facts

    # --- what becomes of it -------------------------------------------------------------------------------------------

    @property
    def figure(self) -> go.Figure:
        """The first figure. Raises OptionError where there is none."""
        if not self.figures:
            raise OptionError("this panel has no figure")
        return self.figures[0]

    @property
    def frames(self) -> list[pd.DataFrame]:
        """The tables, with Arrow types: the rows that are shown."""
        return [_frame(rows, columns) for rows, columns in self._tables]

    @property
    def frame(self) -> pd.DataFrame:
        """The first table. Raises OptionError where there is none."""
        if not self._tables:
            raise OptionError("this panel has no table")
        return _frame(*self._tables[0])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show; there may be facts."""
        return not self._said

    def put(self) -> None:
        """Put it on the page, and the facts into the output of the cell."""
        show.style_once()
        for put in self._said or [show.nothing]:
            put()
        if self.facts:
            record(self.facts)

    _ipython_display_ = put

    def __repr__(self) -> str:
        parts = [plural(len(self.figures), "figure"), plural(len(self._tables), "table")]
        return f"{self.title or 'a panel'}: {', '.join(parts)}, {plural(len(self.facts), 'fact')}"


def _frame(rows: show.Rows, columns: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    plain = rows if isinstance(rows, list) else show.records(rows)
    shown = [{name: _plain(row.get(name)) for name in columns} for row in plain]
    frame: pd.DataFrame = pa.Table.from_pylist(shown).to_pandas(types_mapper=pd.ArrowDtype)
    return frame.set_axis([columns[name] for name in frame.columns], axis="columns")


def _plain(value: Any) -> Any:
    """What a column of a frame can hold: names with numbers become a list of structs."""
    if isinstance(value, list | tuple) and any(isinstance(one, tuple) for one in value):
        return [{"name": str(name), "number": number} for name, number in value]
    return value
