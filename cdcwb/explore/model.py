"""The explorer without a page: the records that are shown, the current record, and navigation."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.bookmarks import BOOKMARKS, FILTERS, Bookmarks, SavedFilters
from cdcwb.errors import OptionError
from cdcwb.explore import records
from cdcwb.explore.follow import ROW, FollowedRows
from cdcwb.explore.records import Record, Records
from cdcwb.explore.search import Search, compare
from cdcwb.explore.terms import Term, clause, hint, image_of, term_of_field, term_of_value, values_of, with_clause
from cdcwb.explore.views import COPIES, Change, change_of, record_view, row_view
from cdcwb.filters import IMAGES, Filter, compared, parse, quoted, value_kinds
from cdcwb.formats.options import nearest
from cdcwb.index.columns import Bools, Codes, Column
from cdcwb.index.record_index import RecordIndex
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture, open_source
from cdcwb.model import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.formats import Paths


LATE: Final = ("outcome", "user")
"""The columns that come from the index of changes."""

Ints = npt.NDArray[np.int64]


class Late:
    """A column of records from the index of changes: records have the values of their transaction; changes have their
    own outcome."""

    kind = "text"

    def __init__(self, source: IndexedCapture, name: str) -> None:
        self._source = source
        self._name = name

    @cached_property
    def codes(self) -> Codes:
        """The column."""
        places, changes = self._source.index, self._source.changes
        transactions, named = changes.transactions, places.texts("transaction")
        ids = transactions.rows["transaction_id"].cast(pa.large_string())
        number = pc.fill_null(pc.index_in(named.texts, value_set=ids), -1).to_numpy(zero_copy_only=False)
        texts = list(dict.fromkeys([*transactions.texts[self._name], *changes.texts.get(self._name, ())]))
        own = np.array([*map(texts.index, transactions.texts[self._name]), -1], np.int64)
        of_transaction = np.append(own[np.append(transactions.codes[self._name], -1)][number], -1)
        codes: Ints = of_transaction[named.codes]
        if self._name in changes.texts:
            outcome = np.array([*map(texts.index, changes.texts[self._name]), -1], np.int64)
            known = changes.record >= 0
            codes[changes.record[known]] = outcome[changes.codes[self._name][known]]
        return Codes(codes.astype(np.int32), pa.array(texts, pa.large_string()))

    def value(self, row: int) -> str | None:
        """See :class:`cdcwb.index.columns.Column`."""
        return self.codes.value(row)

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`cdcwb.index.columns.Column`."""
        return self.codes.compare(sign, value)


CHOICES: Final = ("table", "operation", "kind", "problem", "outcome")
"""The columns with a list of values."""

MARK: Final = "mark"
"""The column of the notes on bookmarked records."""

_KEPT: Final = 8  # searches whose records are cached
_MOST: Final = 500  # records of a page
_CHANGING: Final = frozenset({MARK, ROW})


class Explorer:
    """The records of a capture, those that are shown, and the current one.

    ``filter`` is the text of the filter in force, ``note`` a remark on it; ``chosen`` the number of the current record,
    from 0. A method that fails raises OptionError and changes nothing.
    """

    def __init__(self, source: IndexedCapture) -> None:
        self.source = source
        self.index: RecordIndex = source.index
        self.records = Records(source)
        home = source.home
        self.bookmarks = Bookmarks(None if home is None else home / BOOKMARKS)
        self.saved = SavedFilters(None if home is None else home / FILTERS)
        self._rows = FollowedRows(source)
        self.columns: dict[str, Column] = {
            **self.index.columns,
            **{name: Late(source, name) for name in LATE},
            MARK: _Noted(self.index, self.bookmarks),
            ROW: self._rows,
        }
        self.kinds = {name: column.kind for name, column in self.columns.items()}
        self.kinds |= value_kinds(self.index.versions.values())
        self.filter = ""
        self.search: Search | None = None
        self.search_done = False  # and all its records are shown
        self.chosen = 0
        self.took_ms = 0.0
        self.hint = ""
        self.note = ""
        self.selection: Selection | None = None
        self._changes: Callable[[], Bools] | None = None  # records of selected changes
        self.follows = True
        self._passed: Ints | None = None  # records that match the filter; None: all
        self._listed: Ints | None = None  # records that match the filter and the selection; None: all
        self._selected: tuple[int, Bools] | None = None  # a version of the selection, and its records
        self._seen: int | None = None  # the version of the selection that is shown
        self._before: list[str] = []
        self._found: dict[str, Ints] = {}  # records of complete searches

    @classmethod
    def open(
        cls, path: Paths | DataFrame, format: str = "auto", folder: str | os.PathLike[str] | None = None, **options: Any
    ) -> Explorer:
        """See :func:`cdcwb.index.source.open_source`."""
        return cls(open_source(path, format, folder, **options))

    # --- records of the list ------------------------------------------------------------------------------------------

    @property
    def shown(self) -> int:
        """The number of records that are shown."""
        return self.index.records if self._listed is None else len(self._listed)

    def place_of(self, row: int) -> int:
        """The row of a record in the list, or of the next one that is shown."""
        return row if self._listed is None else int(np.searchsorted(self._listed, row))

    def row_at(self, index: int) -> int:
        """The record in a row of the list."""
        return index if self._listed is None else int(self._listed[index])

    def page(self, first: int, count: int) -> list[dict[str, Any]]:
        """Rows of the list: ``count`` records from the row ``first``."""
        begin = max(0, min(first, self.shown))
        end = min(self.shown, begin + max(0, min(count, _MOST)))
        rows = [self.row_at(index) for index in range(begin, end)]
        return [row_view(self.index, row, self.bookmarks.note(self.index.place(row))) for row in rows]

    def apply(self, text: str, remember: bool = True) -> None:
        """Shows the records that match a filter; a blank text matches all. Raises FilterError.

        A filter that compares values starts a search, which :meth:`advance` continues; a running search is cancelled.
        """
        started = time.perf_counter()
        understood = parse(text, self.kinds)
        search, rows = None, None
        if understood is not None and understood.text in self._found:
            rows = self._found[understood.text]
        elif understood is not None and understood.values:
            search = Search(self.source, understood, self.columns)
            rows = search.rows()
        elif understood is not None:
            rows = np.flatnonzero(understood.mask(partial(compare, self.columns)))
        self.cancel()
        self.search, self.search_done = search, False
        self.took_ms = (time.perf_counter() - started) * 1000
        if remember and text.strip() != self.filter:
            self._before.append(self.filter)
        self.filter = text.strip()
        self._show(rows)
        self.hint = "" if self.shown or search is not None else hint(understood, self.columns)
        self.note = "" if understood is None else self._note(understood)
        self._settle()

    def _note(self, understood: Filter) -> str:
        """How the keys were inferred that the filter identifies rows by; empty if they were captured."""
        if ROW not in understood.names:
            return ""
        named = {value for column, value in understood.equals if column == "table"}
        return " ".join(sentence for table, sentence in self._rows.inferred.items() if not named or table in named)

    def refresh(self) -> None:
        """Shows new matches of the search, and the current selection."""
        search = self.search
        if search is not None and not self.search_done:
            done = not search.running
            rows = search.rows()
            self.search_done = done
            if search.complete and not search.understood.names & _CHANGING:
                self._found = {**dict(list(self._found.items())[1 - _KEPT :]), search.understood.text: rows}
            self._show(rows)
            if self._listed is not None and len(self._listed) and not self._shows(self.chosen):
                self.chosen = int(self._listed[0])
        elif self._seen != self._version:
            self._show(self._passed)
            self._settle()

    def _show(self, passed: Ints | None) -> None:
        """Shows the records that match the filter and are selected."""
        self._passed, self._seen = passed, self._version
        self._listed = passed
        if self._seen is not None:
            within = self._within(self._seen)
            self._listed = np.flatnonzero(within) if passed is None else passed[within[passed]]

    def advance(self, seconds: float = math.inf) -> None:
        """Searches for about so many seconds, at most to the end, and shows the matches."""
        if self.search is not None:
            self.search.advance(seconds)
        self.refresh()

    def cancel(self) -> None:
        """Cancels the running search; its matches remain."""
        if self.search is not None:
            self.search.cancel()

    def _shows(self, row: int) -> bool:
        """Whether a record is shown."""
        index = self.place_of(row)
        return self._listed is None or (index < len(self._listed) and int(self._listed[index]) == row)

    def _settle(self) -> None:
        """Makes a record that is shown the current one: the next one."""
        if self._listed is not None and len(self._listed):
            index = self.place_of(self.chosen)
            self.chosen = int(self._listed[min(index, len(self._listed) - 1)])

    def back(self) -> None:
        """Restores the previous filter."""
        if not self._before:
            raise OptionError("there is no earlier filter")
        self.apply(self._before.pop(), remember=False)

    # --- the selection ------------------------------------------------------------------------------------------------

    def follow(self, selection: Selection, changes: Callable[[], Bools]) -> None:
        """Shows only the records of selected changes while ``follows`` is true. ``changes`` returns them as a mask of
        records; the other halves of updates are shown, too."""
        self.selection, self._changes = selection, changes

    @property
    def _version(self) -> int | None:
        """The version of the selection that limits the list; None if the list is not limited."""
        limits = self.selection is not None and self.follows and self.selection.chosen()
        return self.selection.version if self.selection is not None and limits else None

    def _within(self, version: int) -> Bools:
        """The records of a version of the selection, and the records that were chosen since."""
        if self._selected is None or self._selected[0] != version:
            assert self._changes is not None
            mask = self._changes().copy()
            rows, others = self.source.changes.halves
            mask[others] |= mask[rows]
            self._selected = version, mask
        return self._selected[1]

    # --- navigation ---------------------------------------------------------------------------------------------------

    def choose(self, row: int) -> None:
        """Makes a record the current one, by number. A record outside the selection is shown as well; a filter that
        excludes it is removed."""
        if not 0 <= row < self.index.records:
            raise OptionError(f"there are {self.index.records:,} records, from 0 on; there is no {row:,}")
        if self._version is not None and not self._within(self._version)[row]:
            self._within(self._version)[row] = True
            self._show(self._passed)
        if not self._shows(row):
            self.apply("")
        self.chosen = row

    def move(self, by: int) -> None:
        """Moves a number of rows in the list, or to its end."""
        if self.shown:
            self.chosen = self.row_at(max(0, min(self.place_of(self.chosen) + by, self.shown - 1)))

    def problem(self, by: int) -> None:
        """Moves to the next (1) or the previous (-1) record with a problem in the list."""
        rows = self.index.problem_rows
        if self._listed is not None and len(rows):
            indexes = np.searchsorted(self._listed, rows)
            shown = indexes < len(self._listed)
            shown[shown] = self._listed[indexes[shown]] == rows[shown]
            rows = rows[shown]
        at = int(np.searchsorted(rows, self.chosen, side="right" if by > 0 else "left"))
        at = at if by > 0 else at - 1
        if not 0 <= at < len(rows):
            raise OptionError(f"no {'further' if by > 0 else 'earlier'} problem among the records shown")
        self.chosen = int(rows[at])

    def follow_transaction(self) -> None:
        """Shows only the transaction of the current record."""
        name = self.columns["transaction"].value(self.chosen)
        if name is None:
            raise OptionError("this record belongs to no transaction")
        self.apply(f"transaction == {quoted(name)}")

    def follow_row(self) -> None:
        """Shows the history of the row of the current record. The first call for a table reads its changes."""
        table = self.columns["table"].value(self.chosen)
        if table is None:
            raise OptionError("this record changes no row")
        keys = self._rows.keys_of(table, self.chosen)
        if not keys:
            raise OptionError(
                "no key is known for this record, and none can be inferred; "
                f"the option keys={table}:column+column names the key of a table"
            )
        chosen = f"in ({', '.join(map(quoted, keys))})" if len(keys) > 1 else f"== {quoted(keys[0])}"
        self.apply(f"table == {quoted(table)} and {ROW} {chosen}")

    def go(self, text: str) -> None:
        """Moves to the record of a text; see :func:`cdcwb.explore.records.find`."""
        self.choose(records.find(self.index, text, self.chosen))

    # --- filters ------------------------------------------------------------------------------------------------------

    def narrow(self, name: str, row: int, other: bool = False) -> None:
        """Shows only the records with the same value in a column as a record, or with ``other`` all others."""
        if name not in self.columns or not 0 <= row < self.index.records:
            raise OptionError(f"there is no column '{name}', or no record {row:,}")
        self.apply(with_clause(self.filter, name, clause(name, self.columns[name].value(row), other)))

    def terms(self, field: int | None = None, image: str = "", column: str = "") -> Term:
        """The filters for the value of a field of the current record (by its number in the tree) or of a column of an
        image, and for all other values. Raises OptionError if filters have no name for it."""
        record, term = self.record(), None
        if field is not None:
            term = term_of_field(field, record, self.columns, self.kinds)
        elif image in IMAGES:
            term = term_of_value(image, column, self.change(record), record, self.kinds)
        if term is None:
            raise OptionError("filters have no name for this field, or it has no value that can be compared")
        return term

    def complete_value(self, field: int | None = None, image: str = "", column: str = "") -> str:
        """The complete value of a field of the current record, or of a column of an image."""
        record, value = self.record(), None
        if field is not None:
            value = next((node.value for number, node in enumerate(record.field.walk()) if number == field), None)
        elif image in IMAGES:
            value = image_of(image, record, self.change(record)).get(column)
        if value is None:
            raise OptionError("there is no value here")
        return value

    def add(self, clause: str) -> None:
        """Adds a clause to the filter in force."""
        self.apply(with_clause(self.filter, "", clause))

    def only(self, name: str, value: str | None) -> None:
        """Shows only the records with this value in a column, replacing an equality of the column in the filter; None:
        any value."""
        added = None if value is None else clause(name, value)
        self.apply(with_clause(self.filter, name, added, instead=True))

    @property
    def choices(self) -> dict[str, list[str]]:
        """The values of columns with few distinct values, most frequent first."""
        known = {name: values_of(self.columns[name]) for name in CHOICES if name not in LATE}
        return {name: values for name, values in known.items() if values} | {"outcome": [*Outcome]}

    # --- bookmarks, saved filters, copies -----------------------------------------------------------------------------

    def mark(self, note: str | None) -> None:
        """Bookmarks the current record with a note (which may be empty); None removes the bookmark."""
        location = self.index.place(self.chosen)
        if note is None:
            self.bookmarks.remove(location)
        else:
            self.bookmarks.set(location, note.strip(), self.index.row(self.chosen))

    def save_filter(self, name: str) -> None:
        """Saves the filter in force under a name."""
        if not name.strip() or not self.filter:
            raise OptionError("a saved filter needs a name and a text")
        self.saved.save(name.strip(), self.filter)

    def record(self) -> Record:
        """The current record."""
        return self.records.read(self.chosen)

    def change(self, record: Record) -> Change | None:
        """The change of a record, with both halves; None if it has none."""
        return change_of(record, self.records.half(record))

    def copy(self, kind: str) -> str:
        """The current record as text: json, hex or xds."""
        if kind not in COPIES:
            raise OptionError(f"there is no copy '{kind}'.{nearest(kind, COPIES)} There are: {', '.join(COPIES)}.")
        record = self.record()
        return COPIES[kind](record, self.change(record))

    def detail(self) -> dict[str, Any]:
        """The content of the panes below the list for the current record."""
        record = self.record()
        return record_view(self.index, record, self.change(record), self.bookmarks.note(self.index.place(self.chosen)))


class _Noted:
    """The notes on bookmarked records as a column; empty for a bookmark without text."""

    kind = "text"

    def __init__(self, index: RecordIndex, bookmarks: Bookmarks) -> None:
        self._index = index
        self._bookmarks = bookmarks

    def value(self, row: int) -> str | None:
        """The note, or None."""
        return self._bookmarks.note((str(self._index.file_of(row)["file"]), self._index.number("offset", row)))

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`cdcwb.index.columns.Column`."""
        rows = {self._index.found_again((b["file"], b["offset"])): b for b in self._bookmarks.rows()}
        rows.pop(None, None)
        mask = np.zeros(self._index.records, np.bool_)
        if rows:
            matching = np.ones(len(rows), np.bool_)
            if value is not None:
                notes = pa.array([str(b.get("note", "")) for b in rows.values()], pa.large_string())
                matching = compared(notes, sign, value)
            mask[np.array(list(rows), np.int64)[matching]] = True
        return ~mask if value is None else mask
