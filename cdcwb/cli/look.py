"""The commands that answer within a second, without a JVM: identify, inspect, doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from cdcwb.cli.console import FINE, UNUSABLE, print_json, print_lines, print_rows, safe
from cdcwb.cli.options import CAPTURE, CaptureArguments, as_json, format_and_options, source
from cdcwb.formats.dissector import Field
from cdcwb.formats.source import info_of
from cdcwb.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdcwb.formats import Contents, Identification
    from cdcwb.formats.detect import FileFormat


_MOST_ROWS = 40  # of a table of files


class Offset(click.ParamType):
    """An offset in a file: ``1234`` or ``0x4D2``."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The offset, from 0."""
        try:
            offset = value if isinstance(value, int) else int(value.replace(",", "").replace("_", ""), 0)
        except ValueError:
            offset = -1
        if offset < 0:
            self.fail(f"expected an offset such as 1234 or 0x4D2, found '{value}'", param, ctx)
        return offset


@click.command()
@source
@as_json
def identify(source: CaptureArguments, as_json: bool) -> None:
    """Detect the format of a capture and show the evidence; of a folder, the format of each file."""
    from cdcwb.formats import examine, identified

    saved = _saved(source.paths)
    contents = None if saved is not None else examine(list(source.paths), source.format, **source.options)
    if contents is not None and contents.is_mixed:
        _print_mixed(contents, as_json)
        return
    identification = saved if contents is None else identified(contents, source.format, **source.options)
    assert identification is not None
    if as_json:
        files = {} if contents is None else {"contents": list(map(asdict, contents.files))}
        print_json(asdict(identification) | files)
        return
    print_lines(
        [
            f"format       {identification.format}",
            f"shape        {identification.shape}",
            f"compression  {identification.compression or 'none'}",
            f"confidence   {identification.confidence}",
            f"files        {identification.files:,}",
            f"bytes        {identification.bytes:,}",
            *(f"evidence     {safe(sentence)}" for sentence in identification.evidence),
            *(["", *map(safe, identification.advice)] if identification.advice else []),
        ]
    )
    if contents is not None and len(contents.files) > 1:
        print_lines([""])
        _print_contents(contents)


def _print_mixed(contents: Contents, as_json: bool) -> None:
    """Prints the format of each file, and the commands that open those of each format."""
    groups = [
        {"format": name, "files": len(files), "bytes": _bytes(files), "command": contents.command(name)}
        for name, files in contents.groups.items()
    ]
    files = [file.file for file in contents.files]
    if as_json:
        facts = {"format": None, "files": len(files), "bytes": _bytes(files), "groups": groups}
        print_json(facts | {"contents": list(map(asdict, contents.files))})
        return
    lines = [f"format  {len(groups)} formats", f"files   {len(files):,}", f"bytes   {_bytes(files):,}", ""]
    print_lines(lines)
    _print_contents(contents)
    commands = [line for group in groups for line in str(group["command"]).splitlines()]
    print_lines(["", "Open each format separately:", *(f"  {safe(line)}" for line in commands)])


def _print_contents(contents: Contents) -> None:
    """A table of the files and their formats; files of one series that are alike are one row."""
    rows = contents.rows()
    first = {row[2].format: row for row in reversed(rows)}
    shown = rows[:_MOST_ROWS] + [row for row in rows[_MOST_ROWS:] if row is first[row[2].format]]  # one of each format
    lines = []
    for name, count, entry in shown:
        confidence = f"{entry.confidence:.2f}" if entry.recognised and not entry.side else ""
        lines.append((safe(name), f"{count:,}", _format_of(entry), confidence))
    print_rows(("file", "files", "format", "confidence"), lines)
    left = sum(count for _, count, _ in rows) - sum(count for _, count, _ in shown)
    if left:
        print_lines([f"… and {plural(left, 'more file')}; --json lists all"])


def _format_of(file: FileFormat) -> str:
    from cdcwb.formats.detect import name_of

    if file.format is None:
        return f"not recognised{f': {safe(file.evidence)}' if file.confidence == 0 and file.evidence else ''}"
    if file.side:
        return f"side file of {file.format}"
    return name_of(file.format) if file.recognised else f"not recognised, read as {file.format}"


def _bytes(files: Sequence[str]) -> int:
    return sum(info_of(file).size for file in files)


def _saved(paths: tuple[str, ...]) -> Identification | None:
    """The identification of a saved capture; None for other paths. Its Parquet files have the raw bytes of records, so
    other formats might recognise them."""
    from cdcwb.formats import Identification
    from cdcwb.opening import SAVED, read_description

    about = Path(paths[0], SAVED)
    if len(paths) > 1 or not about.is_file():
        return None
    facts = read_description(about.parent)
    files = len(facts["files"])
    size = sum(file.stat().st_size for file in about.parent.rglob("*.parquet"))
    evidence = [f"{about}: saved from {plural(files, 'file')}"]
    return Identification(facts["format"], "saved", None, 1.0, evidence, files, size)


@click.command()
@click.argument("file", **CAPTURE)
@click.option(
    "--offset", type=Offset(), required=True, help="Offset in the decompressed file, in bytes: 1234 or 0x4D2."
)
@format_and_options
@click.option("--all", "everything", is_flag=True, help="Show long fields and values in full.")
@as_json
def inspect(file: str, offset: int, format_name: str, options: dict[str, Any], everything: bool, as_json: bool) -> None:
    """Dissect the record at an offset of a file: its fields and their bytes."""
    from cdcwb.formats import inspect as inspected

    shown = inspected(file, offset, format_name, **options)
    if as_json:
        names = ("file", "offset", "length", "record", "note", "event")
        print_json({**{name: getattr(shown, name) for name in names}, "field": field_json(shown.field)})
        return
    event = shown.event
    facts = [str(event[name]) for name in ("record_type", "kind", "operation") if event.get(name)]
    facts += [f"position {event['position']}"] if event.get("position") else []
    about = [f"{shown.file}, offset {shown.offset} (0x{shown.offset:X}), {plural(shown.length, 'byte')}"]
    about.append(", ".join(facts) or shown.field.name)
    if shown.note:
        about.append(shown.note)
    same = shown.length == len(shown.record)  # in hex text a byte is several characters
    if not same:
        about.append(
            f"{plural(len(shown.record), 'byte')} written as text; offsets are relative to the start of the record"
        )
    problems = [problem for one in shown.events or [event] for problem in one.get("problems") or ()]
    about += dict.fromkeys(f"problem {problem['code']}: {problem['detail']}" for problem in problems)
    print_lines([*map(safe, about), ""])
    lines = list(tree_lines(shown.field, shown.offset if same else 0, everything))
    print_rows(
        ("offset", "bytes", "field"),
        [("" if line.offset is None else str(line.offset), line.hex, line.field) for line in lines],
        [number for number, line in enumerate(lines) if line.problem],
    )


@click.command()
@as_json
def doctor(as_json: bool) -> int:
    """Check the installation, and show how to install what is missing."""
    from cdcwb.doctor import examine

    checks = examine()
    missing = [check for check in checks if not check.ok and not check.optional]
    if as_json:
        print_json({"ok": not missing, "checks": [asdict(check) for check in checks]})
        return UNUSABLE if missing else FINE
    states = ["ok" if check.ok else "optional" if check.optional else "missing" for check in checks]
    rows = [(state, one.name, safe(one.found), safe(one.needed)) for state, one in zip(states, checks, strict=True)]
    red = [number for number, state in enumerate(states) if state == "missing"]
    print_rows(("state", "what", "found", "needed"), rows, red)
    hints = [safe(f"{check.name}: {check.hint}") for check in checks if check.hint]
    print_lines(["", *(hints or ["Nothing is missing."])])
    return UNUSABLE if missing else FINE


# --- tree -------------------------------------------------------------------------------------------------------------

BYTES_A_LINE: Final = 8
_MOST_LINES: Final = 8
_MOST_CHARACTERS: Final = 200


class TreeLine(NamedTuple):
    """One printed line. On continuation lines of a field's bytes ``offset`` is None and ``field`` empty."""

    offset: int | None
    hex: str
    field: str
    problem: bool


def tree_lines(field: Field, start: int = 0, everything: bool = False, depth: int = 0) -> Iterator[TreeLine]:
    """The lines of a field tree, in byte order; ``start`` is added to every offset.

    A group shows its name, and its children show the bytes. With ``everything`` every byte of the record is shown once;
    without it, a long field shows its first 64 bytes and a long value its first 200 characters, both with the length
    of the rest, and quiet fields are left out.
    """
    if field.quiet and field.problem is None and not everything:
        return
    length = 0 if field.children else field.length
    rows = [field.raw[at : at + BYTES_A_LINE].hex(" ") for at in range(0, length, BYTES_A_LINE)]
    if len(rows) > _MOST_LINES and not everything:
        rows[_MOST_LINES:] = [f"… {length - _MOST_LINES * BYTES_A_LINE:,} more bytes"]
    text = "  " * depth + _text(field, everything)
    yield TreeLine(start + field.offset, rows[0] if rows else "", text, field.problem is not None)
    for row in rows[1:]:
        yield TreeLine(None, row, "", False)
    for child in field.children:
        yield from tree_lines(child, start, everything, depth + 1)


def _text(field: Field, everything: bool) -> str:
    text = safe(field.name)
    if field.value is not None:
        text += f" = {_short(safe(field.value), everything)}"
    if field.meaning:
        text += f"  ({_short(safe(field.meaning), everything)})"
    if field.problem is not None:
        text += f"  [problem: {safe(field.problem)}]"
    return text


def _short(text: str, everything: bool) -> str:
    if everything or len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… {len(text) - _MOST_CHARACTERS:,} more characters"


def field_json(field: Field) -> dict[str, Any]:
    """A field tree as a JSON value: name, offset, length, raw (hex), value, meaning, problem, children."""
    names = ("name", "offset", "length", "raw", "value", "meaning", "problem")
    facts = {name: getattr(field, name) for name in names} | {"raw": field.raw.hex()}
    return facts | {"children": [field_json(child) for child in field.children]}
