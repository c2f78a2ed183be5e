"""Parses reader options from ``load``, the command line or a data source, which are names and texts; and parameters of
notebooks, which are texts from papermill's ``-p``."""

from __future__ import annotations

import codecs
import datetime as dt
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, TypeVar

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats.source import is_file, read_text
from cdcwb.times import parse_time
from cdcwb.words import visible

MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
"""The handling of malformed bytes: as events, as problems only, or an error."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for an unknown name, or an empty text."""
    names = list(known)
    found = [one for one in names if one.lower() == name.lower()] or difflib.get_close_matches(name, names, n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


_VALUES: Final[dict[str, type[StrEnum]]] = {
    "kind": model.Kind,
    "operation": model.Operation,
    "outcome": model.Outcome,
    "completeness": model.Completeness,
    "severity": model.Severity,
    "code": model.Problem,
    "change_source": model.ChangeSource,
    "offset_unit": model.OffsetUnit,
}


def check_value(column: str, value: str, where: str) -> None:
    """Raises OptionError, prefixed with ``where``, if a column of the model has an enumeration without this value. An
    operation that the source does not define is ``UNKNOWN(x)``."""
    values = [str(one) for one in _VALUES.get(column, ())]
    if values and value not in values and not (column == "operation" and value.startswith("UNKNOWN(")):
        hint = nearest(value, values)
        raise OptionError(f"{where}: {column} has no value '{visible(value)}'.{hint} There are: {', '.join(values)}.")


def event_columns(names: Iterable[str]) -> list[str]:
    """Names of columns of ``events``, without repetitions, in the given order. Raises OptionError for an unknown
    one."""
    columns = list(dict.fromkeys(names))
    for name in columns:
        if name not in model.EVENTS.names:
            hint = nearest(name, model.EVENTS.names)
            raise OptionError(f"events have no column {name!r}.{hint} There are: {', '.join(model.EVENTS.names)}.")
    if not columns:
        raise OptionError(f"expected a column of events. There are: {', '.join(model.EVENTS.names)}.")
    return columns


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raises OptionError with every unknown option and the nearest known one."""
    known = list(known)
    wrong = [name for name in given if name not in known]
    if wrong:
        hints = "".join(f" unknown option '{name}' for {what}.{nearest(name, known)}" for name in wrong)
        raise OptionError(f"{hints.strip()} There are: {', '.join(sorted(known))}.")


def as_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of the given texts, ignoring case."""
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    hint = nearest(str(value), choices)
    raise OptionError(f"option {name}: expected one of {', '.join(choices)}, found {value!r}.{hint}")


def as_bool(name: str, value: Any) -> bool:
    """A truth value: true, false, 1, 0, yes, no."""
    text = str(value).lower()
    if text in ("true", "1", "yes"):
        return True
    if text in ("false", "0", "no"):
        return False
    raise OptionError(f"option {name}: expected true or false, found {value!r}")


def as_object(name: str, value: Any, **parse: Any) -> dict[str, Any]:
    """A JSON object, as text (empty: without members) or parsed; ``parse`` are arguments of :func:`json.loads`."""
    found, why = value, ""
    if not isinstance(value, Mapping):
        try:
            found = json.loads(value or "{}", **parse)
        except (TypeError, ValueError) as error:
            why = f" ({error})"
    if not isinstance(found, Mapping):
        raise OptionError(f"{name}: expected a JSON object, found {visible(repr(value))}{why}")
    return dict(found)


def as_whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least ``least``."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise OptionError(f"option {name}: expected a whole number of at least {least}, found {value!r}")
    return number


_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(?:([KMGT])(i)?B?|B)?", re.IGNORECASE)
INFLATE_LIMIT: Final = "bytes that a compressed file, or what is compressed in it, may inflate to, such as 64GB"
"""The description of the option ``inflate_limit``."""

SHARED: Final = {
    "inflate_limit": INFLATE_LIMIT,
    "mode": "PERMISSIVE, DROPMALFORMED or FAILFAST",
    "images": "false: headers only",
    "keys": "key columns: schema.table:c1+c2",
}
"""The description of the options that formats share."""


def as_size(name: str, value: Any) -> int:
    """A number of bytes: 1000000, 64GB, 1.5 GiB."""
    found = _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise OptionError(f"option {name}: expected a size such as 64GB, found {value!r}")
    unit = 1024 if found[3] else 1000
    return int(float(found[1]) * unit ** ("KMGT".index(found[2].upper()) + 1)) if found[2] else int(float(found[1]))


def inflate_limit_of(options: Mapping[str, Any]) -> int | None:
    """The option ``inflate_limit`` in bytes; None if it is not given. Raises OptionError."""
    return optional("inflate_limit", given_of(options), as_size)


def as_list(value: Any) -> Any:
    """A text with a JSON list (papermill's ``-p NAME '["x"]'``) as that list, an empty text as an empty list; other
    values unchanged."""
    if isinstance(value, str) and value.strip()[:1] in ("", "["):
        with suppress(ValueError):
            return json.loads(value) if value.strip() else []
    return value


def as_moment(name: str, value: str | dt.datetime) -> dt.datetime:
    """A time in UTC. Raises OptionError for an invalid text."""
    try:
        return parse_time(value)
    except ValueError:
        raise OptionError(f"{name}: expected a time such as 2025-03-23T10:57:19Z, found {value!r}") from None


def check_window(time_from: dt.datetime | None, time_to: dt.datetime | None) -> None:
    """Raises OptionError for a window that ends before it begins."""
    if time_from is not None and time_to is not None and time_from > time_to:
        raise OptionError(f"time_from ({time_from.isoformat()}) is after time_to ({time_to.isoformat()})")


def as_number(value: Any) -> Any:
    """A text that is a number as that number; other values unchanged."""
    if isinstance(value, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
    return value


def check_charset(name: str, value: Any) -> str:
    """The name of a text encoding of Python."""
    text = str(value)
    try:
        info = codecs.lookup(text)
        is_text = bool(getattr(info, "_is_text_encoding", True))
    except LookupError:
        is_text = False
    if not is_text:
        raise OptionError(f"option {name}: unknown character set {text!r} (known: utf-8, gb18030, gbk, iso-8859-1 …)")
    return text


def given_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that have a value; None, an empty text and ``auto`` mean: to be detected."""
    return {name: one for name, one in options.items() if one is not None and str(one).lower() not in ("", "auto")}


Made = TypeVar("Made")


def optional(name: str, given: Mapping[str, Any], make: Callable[..., Made], *of: Any) -> Made | None:
    """The result of ``make`` for an option's name, value and ``of``; None if it is not given."""
    return make(name, given[name], *of) if name in given else None


def as_text(name: str, value: Any) -> str:
    """A text."""
    return str(value)


def as_content(name: str, value: Any) -> str:
    """The text of a file that the option names."""
    try:
        return read_text(str(value))
    except (OSError, UnicodeDecodeError) as reason:
        raise OptionError(f"option {name}: {str(value)!r} cannot be read ({reason_of(reason)})") from None


def as_names(name: str, value: Any) -> dict[str, str]:
    """A map of names: a dictionary, the path of a JSON file with one, or ``a=x,b=y``."""
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in value.items()}
    text = str(value)
    if text.lstrip()[:1] != "{" and "=" in text and not is_file(text):
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        wrong = [key for key, sign, _ in pairs if not sign]
        if wrong:
            raise OptionError(f"option {name}: expected a=x,b=y, found {wrong[0]!r} without '='")
        return {key.strip(): item.strip() for key, _, item in pairs}
    try:
        content = text if text.lstrip()[:1] == "{" else read_text(text)
    except (OSError, UnicodeDecodeError) as reason:
        what = f"is neither a=x,b=y nor a JSON file that can be read ({reason_of(reason)})"
        raise OptionError(f"option {name}: {text!r} {what}") from None
    try:
        loaded = json.loads(content)
    except json.JSONDecodeError as reason:
        raise OptionError(f"option {name}: {text!r}: not valid JSON: {reason}") from None
    if not isinstance(loaded, dict) or not all(isinstance(item, str) for item in loaded.values()):
        raise OptionError(f'option {name}: {text!r}: expected a JSON object of texts, such as {{"101": "shop.orders"}}')
    return {str(key): item for key, item in loaded.items()}


def reason_of(error: Exception) -> str:
    """The reason why a file cannot be read, without its name."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def parse_keys(value: Any) -> dict[str, list[str]]:
    """``schema.table:c1+c2``, alone, in a list, or several separated by commas or semicolons -> table -> key
    columns."""
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        return {str(t): [c] if isinstance(c, str) else [str(x) for x in c] for t, c in value.items()}
    parts = [str(value)] if isinstance(value, str) else [str(part) for part in value]
    keys: dict[str, list[str]] = {}
    for part in (piece for text in parts for piece in text.replace(";", ",").split(",") if piece.strip()):
        table, sign, columns = part.strip().rpartition(":")
        names = [column.strip() for column in columns.split("+")]
        if not sign or not table or not all(names):
            raise OptionError(f"option keys: expected schema.table:c1+c2, found {part.strip()!r}")
        keys[table] = names
    return keys
