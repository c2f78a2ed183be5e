"""The selection of a capture, which all its views follow and can change.

    capture.selection.update(tables=["shop.orders"], operations=["UPDATE"])
    capture.selection.undo()

A change is selected that fits every field that is set; it fits a field that has one of its values. The time of a change
is its own, else that of its commit, else the end of its transaction, else its begin.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import traitlets

from cdcwb.errors import OptionError
from cdcwb.formats.arrays import table_names
from cdcwb.formats.options import check_value, nearest
from cdcwb.times import parse_time
from cdcwb.words import plural

_LISTS: Final = ("tables", "operations", "outcomes", "users", "columns", "transactions")
_NAMES: Final = ("tables", "users", "columns", "transactions")
_TIMES: Final = ("time_from", "time_to")
_TEXTS: Final = ("position_from", "position_to", "text")
FIELDS: Final = (*_LISTS, *_TIMES, "without_time", *_TEXTS)
"""The fields that select changes. ``record``, the current record, is not among them."""

_MOST_STEPS: Final = 100


class Selection(traitlets.HasTraits):
    """The selected changes, and the current record. Values are those of ``changes``.

    ``tables`` (``schema.table``, or only the table name), ``operations``, ``outcomes``, ``users``, ``columns`` (changed
    ones), ``transactions`` (ids): empty means all. ``time_from`` (included) and ``time_to`` (excluded): aware times;
    ISO 8601 text without a zone is UTC. ``without_time``: if times are limited, also include changes without a time.
    ``position_from`` and ``position_to``: log positions, both included. ``text``: a part of the table name,
    transaction, user, position or a changed column, ignoring case. ``record``: the number of a record in capture order,
    from 0.

    ``version`` increases with every step; views observe it.
    """

    tables = traitlets.Any(())
    operations = traitlets.Any(())
    outcomes = traitlets.Any(())
    users = traitlets.Any(())
    columns = traitlets.Any(())
    transactions = traitlets.Any(())
    time_from = traitlets.Any(None)
    time_to = traitlets.Any(None)
    without_time = traitlets.Bool(False)
    position_from = traitlets.Unicode("")
    position_to = traitlets.Unicode("")
    text = traitlets.Unicode("")
    record = traitlets.Int(None, allow_none=True)
    version = traitlets.Int(0)

    def __init__(self, known: Callable[[str], Iterable[str]] | None = None, **fields: Any) -> None:
        """``known`` gives the values that a field can have (tables, users, columns, transactions); without it, all are
        accepted."""
        self._known = known
        self._within = False  # during a step that sets several fields
        self._before: list[dict[str, Any]] = []
        self._undone: list[dict[str, Any]] = []
        self._kept: dict[str, dict[str, Any]] = {}
        super().__init__()
        self.observe(self._stepped, list(FIELDS))
        if fields:
            self.update(**fields)
            self._before.clear()

    @traitlets.validate(*_LISTS)
    def _list(self, proposal: Any) -> tuple[str, ...]:
        value = proposal["value"]
        values = [value] if isinstance(value, str) else list(value or ())
        if not all(isinstance(item, str) for item in values):
            raise OptionError(f"{proposal['trait'].name}: expected texts, found {value!r}")
        name = proposal["trait"].name
        for item in values:
            check_value(name.removesuffix("s"), item, name)
        if self._known is not None and values and name in _NAMES:
            self._check_names(name, values)
        return tuple(dict.fromkeys(values))

    def _check_names(self, field: str, values: list[str]) -> None:
        assert self._known is not None
        known = {*self._known(field)}
        short = set().union(*map(table_names, known)) if field == "tables" else set()
        for value in values:
            if value not in known and value not in short:
                if field == "transactions":  # very many
                    alike = sorted(name for name in known if name.startswith(f"{value}@"))[:3]
                    hint = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
                else:
                    hint = nearest(value, known)
                raise OptionError(f"{field}: the capture has no {field.removesuffix('s')} '{value}'.{hint}")

    @traitlets.validate(*_TIMES)
    def _time(self, proposal: Any) -> dt.datetime | None:
        value = proposal["value"]
        if value is None or value == "":
            return None
        try:
            return parse_time(value if isinstance(value, dt.datetime) else str(value))
        except ValueError:
            raise OptionError(f"{proposal['trait'].name}: expected an ISO 8601 time, found {value!r}") from None

    # --- steps --------------------------------------------------------------------------------------------------------

    def update(self, **fields: Any) -> None:
        """Sets several fields in one step. Raises OptionError for an unknown name or an invalid value, without changing
        anything."""
        for name in fields:
            if name not in (*FIELDS, "record"):
                raise OptionError(f"a selection has no field '{name}'.{nearest(name, FIELDS)}")
        was = self.values()
        try:
            self._set(fields)
        except (OptionError, traitlets.TraitError) as wrong:
            self._set(was)
            raise wrong if isinstance(wrong, OptionError) else OptionError(str(wrong)) from None
        self._done(was)

    def toggle(self, field: str, value: str) -> None:
        """Adds a value to a field, or removes it."""
        have = getattr(self, field)
        self.update(**{field: [v for v in have if v != value] if value in have else [*have, value]})

    def reset(self) -> None:
        """Clears all fields."""
        self.update(**_DEFAULTS)

    def undo(self) -> None:
        """Restores the selection before the last step, if there is one."""
        self._go(self._before, self._undone)

    def redo(self) -> None:
        """Repeats the step that was undone last."""
        self._go(self._undone, self._before)

    @property
    def steps(self) -> tuple[int, int]:
        """The number of steps that can be undone and redone."""
        return len(self._before), len(self._undone)

    def _go(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        if source:
            target.append(self.values())
            self._set(source.pop())
            self.version += 1

    def _set(self, values: Mapping[str, Any]) -> None:
        self._within = True
        try:
            for name, value in values.items():
                setattr(self, name, value)
        finally:
            self._within = False

    def _stepped(self, change: Any) -> None:
        if not self._within:
            self._done({**self.values(), change["name"]: change["old"]})

    def _done(self, was: dict[str, Any]) -> None:
        if was != self.values():
            self._before.append(was)
            del self._before[:-_MOST_STEPS]
            self._undone.clear()
            self.version += 1

    # --- names --------------------------------------------------------------------------------------------------------

    def keep(self, name: str) -> None:
        """Saves the selection under a name while the capture is open."""
        if not name.strip():
            raise OptionError("a kept selection needs a name")
        self._kept[name.strip()] = self.values()
        self.version += 1

    def use(self, name: str) -> None:
        """Restores a saved selection."""
        if name not in self._kept:
            raise OptionError(f"there is no selection '{name}'.{nearest(name, self._kept)}")
        self.update(**self._kept[name])

    @property
    def kept(self) -> list[str]:
        """The names of saved selections."""
        return list(self._kept)

    # --- values and texts ---------------------------------------------------------------------------------------------

    def values(self) -> dict[str, Any]:
        """All fields."""
        return {name: getattr(self, name) for name in FIELDS}

    def chosen(self, skip: Iterable[str] = ()) -> dict[str, Any]:
        """The fields that are set, without those of ``skip``."""
        return {name: value for name, value in self.values().items() if value != _DEFAULTS[name] and name not in skip}

    def parameters(self, skip: Iterable[str] = ()) -> dict[str, Any]:
        """The fields that are set, as JSON values with the names of notebook parameters, without those of ``skip``."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in self.chosen(skip).items()}
        return {name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in plain.items()}

    def __repr__(self) -> str:
        return f"Selection({', '.join(f'{name}={value!r}' for name, value in self.parameters().items())})"

    def sentence(self, skip: Iterable[str] = ()) -> str:
        """The fields that are set, in words, without those of ``skip``; empty if everything is selected."""
        parts = []
        for name, value in self.parameters(skip).items():
            if isinstance(value, list):
                shown = ", ".join(value[:3]) if len(value) < 5 else plural(len(value), name.removesuffix("s"))
                parts.append(f"{name}: {shown}")
            else:
                parts.append(name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {value}")
        return "; ".join(parts)


_DEFAULTS: Final = Selection().values()
