"""The names of tables, which the stream knows by the numbers of their labels only (docs/formats/gbase8s.md §6.8)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.findings import detected_row
from cdcwb.words import plural

__all__ = ["Names", "find_labels", "labels_files", "parse_labels"]

Names = dict[int, tuple[str | None, str]]
"""Label -> schema (None: not given) and table."""

_ENDING: Final = ".labels.json"


def parse_labels(given: Any) -> Names | None:
    """The value of the option ``labels``: names as :func:`cdcwb.formats.options.as_names` reads them, ``none``: none,
    ``auto``: None, which stands for those of the files beside the capture. Raises OptionError."""
    word = given.strip().lower() if isinstance(given, str) else ""
    if given is None or word == "auto":
        return None
    return {} if word == "none" else _names(opt.as_names("labels", given))


def labels_files(paths: Iterable[str]) -> list[str]:
    """The files that name the tables of these files: of each the nearest ``NAME.labels.json``, where NAME is the file's
    name (with or without its extension) or that of a folder it is in, and which is beside that file or folder."""
    folders: dict[Path, Path | None] = {}
    found: dict[str, None] = {}
    for path in map(Path, paths):
        own = (path.with_name(f"{name}{_ENDING}") for name in dict.fromkeys((path.name, path.stem)))
        file = next((one for one in own if one.is_file()), None) or _of_folder(path.parent, folders)
        if file is not None:
            found[str(file)] = None
    return list(found)


def _of_folder(folder: Path, known: dict[Path, Path | None]) -> Path | None:
    if folder not in known:
        beside = folder.with_name(f"{folder.name}{_ENDING}") if folder.name else None
        if beside is not None and beside.is_file():
            known[folder] = beside
        else:
            known[folder] = None if folder == folder.parent else _of_folder(folder.parent, known)
    return known[folder]


def find_labels(given: Any, labels: Names | None, paths: Sequence[str]) -> tuple[Names, list[dict[str, Any]]]:
    """The names of the tables of these files, and what is said of them under ``detected``.

    ``given`` is the value of the option, ``labels`` what it means (None: the files beside the capture name them).
    Raises OptionError for a file that cannot be used, and for two that give one label different names.
    """
    if labels is not None:
        return labels, [detected_row("labels", _text(given), "given as an option", True)]
    names: Names = {}
    rows: list[dict[str, Any]] = []
    source: dict[int, str] = {}
    for path in labels_files(paths):
        some = _read(path)
        for label, name in some.items():
            if names.setdefault(label, name) != name:
                raise OptionError(
                    f"label {label} has a different name in {source[label]}. Give the names with the option labels, "
                    "or load the files one by one.",
                    path=path,
                )
            source.setdefault(label, path)
        evidence = f"the labels file of the capture; it names {plural(len(some), 'label')}"
        rows.append(detected_row("labels", path, evidence, False))
    return names, rows


def _read(path: str) -> Names:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        if not text.lstrip().startswith("{"):
            raise OptionError('expected a JSON object such as {"101": "shop.orders"}')
        return _names(opt.as_names("labels", text))
    except (OSError, UnicodeDecodeError) as reason:
        what = f"cannot be read ({reason.strerror if isinstance(reason, OSError) else reason})"
    except OptionError as reason:
        what = reason.message.removeprefix("option labels: ")
    raise OptionError(f"{what}. Correct this file, or load with labels=none.", path=path)


def _names(texts: Mapping[str, str]) -> Names:
    out: Names = {}
    for label, name in texts.items():
        schema, _, table = name.rpartition(".")
        try:
            out[int(label)] = (schema or None, table)
        except ValueError:
            raise OptionError(f"option labels: expected a whole number as label, found {label!r}") from None
    return out


def _text(given: Any) -> str:
    """The value of the option as a text that has the same meaning everywhere."""
    if isinstance(given, Mapping):
        return json.dumps(given, ensure_ascii=False) if given else "none"
    return str(Path(given).absolute()) if Path(str(given)).is_file() else str(given)
