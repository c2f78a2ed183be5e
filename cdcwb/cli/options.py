"""Arguments and options that several commands share, and their parsing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

import click

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.formats.source import is_remote
from cdcwb.times import parse_time

STREAM: Final = "-"
"""Standard input instead of a capture, standard output instead of a file; ``./-`` is a file of that name."""

Command = TypeVar("Command", bound=Callable[..., Any])
Filters = dict[str, Any]
"""The arguments of ``Capture.filter``: tables, transactions, time_from, time_to, where."""


class NearestChoice(click.Choice):
    """A choice whose error names the nearest match."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """One of the choices."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            names = [str(choice) for choice in self.choices]
            self.fail(f"'{value}' is not one of {', '.join(names)}.{nearest(str(value), names)}", param, ctx)


class KeyValue(click.ParamType):
    """``KEY=VALUE`` -> (key, value); the value may contain further equals signs and may be empty."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The key without surrounding blanks, and the value unchanged."""
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        if not sign or not key.strip():
            wanted = (param and param.metavar) or self.name
            self.fail(f"expected {wanted}, found '{value}'", param, ctx)
        return key.strip(), text


class Time(click.ParamType):
    """An ISO 8601 date or time -> a time in UTC; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time in UTC."""
        try:
            return parse_time(value if isinstance(value, datetime) else str(value))
        except ValueError:
            self.fail(f"expected a time such as 2025-03-23 or 2025-03-23T10:57:19Z, found '{value}'", param, ctx)


def key_values(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Options as a dictionary; a key that is given several times holds the list of its values."""
    values: dict[str, list[Any]] = {}
    for key, text in pairs:
        values.setdefault(key, []).append(text)
    return {key: texts if len(texts) > 1 else texts[0] for key, texts in values.items()}


class Target(click.Path):
    """A file or folder that is written."""

    def __init__(self, need: str = "", remote: bool = False) -> None:
        """``need``: what has to be named instead of standard output; empty if standard output is allowed. ``remote``:
        it may be a URL, else it is on this machine."""
        super().__init__()
        self.need = need
        self.remote = remote

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path."""
        if value == STREAM and self.need:
            self.fail(f"this command cannot write to standard output; name {self.need}", param, ctx)
        if self.remote and is_remote(value):
            return value
        if "://" in str(value):
            self.fail(f"{value}: results are written to this machine; name a local path and copy them", param, ctx)
        return super().convert(value, param, ctx)


class CaptureArguments(NamedTuple):
    """The capture that a command reads: one or several files or folders, read as one capture in the order given, the
    name of its format (or auto), and its reader options."""

    paths: tuple[str, ...]
    format: str
    options: dict[str, Any]

    @property
    def path(self) -> str | list[str]:
        """The path, or the list of several."""
        return self.paths[0] if len(self.paths) == 1 else list(self.paths)

    @property
    def name(self) -> str:
        """The paths, for a heading."""
        return ", ".join(self.paths)


def source(command: Command) -> Command:
    """``PATH...``, ``--format NAME`` and ``-o KEY=VALUE``. The command gets them as the keyword ``source``."""

    @wraps(command)
    def collected(paths: tuple[str, ...], format_name: str, options: dict[str, Any], **arguments: Any) -> Any:
        return command(**arguments, source=CaptureArguments(paths, format_name, options))

    wrapped: Any = format_and_options(collected)
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, **CAPTURE)(wrapped)


def _no_stream(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """The path or paths. Raises OptionError for ``-``."""
    if STREAM in (value if isinstance(value, tuple) else (value,)):
        raise OptionError("a capture is not read from standard input (-); write it to a file and name that")
    return value


CAPTURE: Final[dict[str, Any]] = {"type": click.Path(), "callback": _no_stream}
"""The path of a capture, as an argument or an option."""


def repeated(*names: str, metavar: str, text: str, **about: Any) -> Callable[[Command], Command]:
    """An option that may be repeated; ``text`` is its help."""
    return click.option(*names, metavar=metavar, multiple=True, help=f"{text}; may be repeated.", **about)


def pairs_option(text: str) -> Callable[[Command], Command]:
    """``-o KEY=VALUE``, which may be repeated: the keyword ``options``, a dictionary. ``text`` is its help."""
    about: dict[str, Any] = {"type": KeyValue(), "callback": lambda _ctx, _param, pairs: key_values(pairs)}
    return repeated("-o", "--option", "options", metavar="KEY=VALUE", text=text, **about)


def format_and_options(command: Command) -> Command:
    """``--format NAME`` and ``-o KEY=VALUE``: the format and its reader options."""
    command = pairs_option("An option of the format's reader, such as charset=gb18030")(command)
    text = "Format name; auto: detected from the content."
    return with_default("--format", "format_name", "NAME", "auto", text)(command)


def with_default(
    name: str, keyword: str, metavar: str, default: Any, text: str, kind: Any = None
) -> Callable[[Command], Command]:
    """An option whose help ``text`` ends with its default."""
    return click.option(name, keyword, metavar=metavar, default=default, show_default=True, help=text, type=kind)


as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""``--json``: an answer for programs."""


def to(
    metavar: str, text: str, need: str = "", remote: bool = False, required: bool = True
) -> Callable[[Command], Command]:
    """``--to``: the file or folder that is written; ``text`` is its help, ``need`` and ``remote`` those of
    :class:`Target`."""
    return click.option("--to", "target", metavar=metavar, type=Target(need, remote), required=required, help=text)


def overwriting(what: str) -> Callable[[Command], Command]:
    """``--overwrite``: replaces the output of an earlier run."""
    return click.option("--overwrite", is_flag=True, help=f"Replace {what} that already exists.")


infer_keys_option: Final = click.option(
    "--infer-keys",
    is_flag=True,
    help="If no change of a table has a key, use the first column that is unique in its inserted rows (20 or more).",
)
"""``--infer-keys``: allows inferred keys."""


strict: Final = click.option(
    "--strict", is_flag=True, help="End with exit code 1 if the capture has a problem of severity warning or error."
)
"""``--strict``: exit code 1 when the capture has problems."""


def narrowing(*names: str) -> Callable[[Command], Command]:
    """The options that narrow a capture, all or those of the given names (the keywords of ``Capture.filter``).

    The command gets them as the keyword ``filters``, a dictionary without the options that were not given.
    """

    def decorated(command: Command) -> Command:
        @wraps(command)
        def collected(**arguments: Any) -> Any:
            chosen: Filters = {name: arguments.pop(name) for name in names or _NARROWING}
            used = {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items() if value}
            return command(**arguments, filters=used)

        wrapped: Any = collected
        for name in reversed(names or tuple(_NARROWING)):
            wrapped = _NARROWING[name](wrapped)
        return wrapped

    return decorated


TIME: Final = "time (ISO 8601; UTC if it has no zone)."
_NARROWING: Final = {
    "tables": repeated("--table", "tables", metavar="NAME", text="Keep only this table"),
    "transactions": repeated("--transaction", "transactions", metavar="ID", text="Keep only this transaction"),
    "time_from": click.option("--from", "time_from", type=Time(), help=f"Keep what happened at or after this {TIME}"),
    "time_to": click.option("--until", "time_to", type=Time(), help=f"Keep what happened before this {TIME}"),
    "where": click.option(
        "--where",
        metavar="FILTER",
        help="Keep the rows for which this filter of the explorer holds, such as \"operation == 'UPDATE'\".",
    ),
}
