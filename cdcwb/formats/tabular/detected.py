"""What was concluded about files, for ``detected``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from cdcwb.formats.dissector import detected_row
from cdcwb.formats.tabular.file import SQL, TOKENS, FileProbe
from cdcwb.words import joined, plural

__all__ = ["GIVEN", "conclusions", "detected_rows", "files_named"]

GIVEN: Final = "given as an option"
"""The evidence of a setting that an option has."""

_NAMED: Final = 3  # files that a sentence names


def conclusions(file: FileProbe, given: Collection[str]) -> Iterator[tuple[str, str, str, bool]]:
    """What was concluded about a file: setting, value, evidence, was it given?; ``given``: names of options."""

    def row(setting: str, value: str, why: str) -> tuple[str, str, str, bool]:
        return setting, value, GIVEN if setting in given else why, setting in given

    if file.dialect is not None:
        yield "delimiter", file.dialect.sentence(), file.delimiter_from, not TOKENS.keys().isdisjoint(given)
        shown = "consists of names" if file.header else "does not consist of names"
        yield row("header", str(file.header).lower(), f"the first record {shown}")
    if "sheets" in file.settings:
        sheets = joined(list(file.settings["sheets"]))
        yield row("sheet", str(file.settings["sheet"]), f"the first with values of {sheets}")
    if file.kind == SQL:
        yield row(
            "sql_table",
            str(file.settings["table"]),
            str(file.settings.get("why", "the first table with the columns of the format")),
        )
        is_escape = bool(file.settings["backslash"])
        yield row(
            "backslash", str(is_escape).lower(), "a dump of MySQL" if is_escape else "no evidence of a dump of MySQL"
        )


def detected_rows(found: Iterable[tuple[str, str, str, bool, str]]) -> list[dict[str, Any]]:
    """Rows of ``detected``, one for all files of which the same was concluded: setting, value, evidence, was it given?,
    file."""
    paths: dict[Any, list[str]] = {}
    for *conclusion, path in found:
        paths.setdefault(tuple(conclusion), []).append(path)
    return [
        detected_row(setting, value, f"{why} ({files_named(some)})", is_given)
        for (setting, value, why, is_given), some in paths.items()
    ]


def files_named(paths: Sequence[str]) -> str:
    """The names of files, or of the first of them."""
    names = joined([PurePosixPath(path).name for path in paths[:_NAMED]])
    return names if len(paths) <= _NAMED else f"{names} and {plural(len(paths) - _NAMED, 'more file')}"
