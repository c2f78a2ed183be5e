"""A view of a capture as one file: JSON lines, Parquet or CSV, of any size, in the order of
:mod:`cdcwb.analysis.export`.

Spark orders the rows and writes them in parts to a temporary folder next to the target; the parts are joined in order,
and the file is renamed. Files are written atomically, and no row is collected.

``jsonl``
    UTF-8, one object a line, every column present (null where null), maps as objects with their null values, arrays as
    lists, times as ``2025-03-23T10:57:19.000000Z``, binary as lower-case hex.
``csv``
    RFC 4180 in UTF-8 with a header line: lines end in CR LF, a field that holds a comma, a quote or a line end is
    quoted. NULL is an empty field, an empty text is ``""``; maps, arrays and structs are JSON text; times and binary as
    in jsonl. A text that a spreadsheet would run as a formula (it begins with ``=``, ``+``, ``-``, ``@``, a tab or a
    line end, and is not a number such as -12.5) has an apostrophe before it, as OWASP advises against CSV injection,
    unless it is to be exact.
``parquet``
    One file with exactly the schema of :mod:`cdcwb.model` (times in microseconds UTC, binary as it is), each column
    with its meaning.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa

from cdcwb import model
from cdcwb.analysis.order import ordered
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.formats.source import is_remote, url_of
from cdcwb.formats.uploads import delivered_to
from cdcwb.saved import SAVED
from cdcwb.spark.stored import batches_of
from cdcwb.writing import remove, written

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture

__all__ = [
    "KINDS",
    "check_above",
    "check_ending",
    "check_folder",
    "check_replaced",
    "check_target",
    "check_url",
    "export",
    "join_text",
    "local",
    "parts_beside",
    "parts_of",
    "text_lines",
    "write_stream",
]


KINDS: Final = ("jsonl", "parquet", "csv")
"""Formats of export, by the ending of the file's name."""

_FORMULA: Final = r"^[=+\-@\t\r\n]"  # Java syntax
_NUMBER: Final = r"^[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?\z"

_FILES: Final = (
    "html",
    "htm",
    "pdf",
    "json",
    "jsonl",
    "csv",
    "tsv",
    "txt",
    "parquet",
    "xml",
    "xds",
    "xlsx",
    "zip",
    "gz",
)
"""Endings of names that are meant for a file."""
_PIECE: Final = 8 << 20
_ROW_GROUP: Final = 64 * 1024
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timeZone": "UTC",
}


def export(capture: Capture, view: str, to: str | os.PathLike[str], *, exact: bool = False) -> int:
    """Write one view of a capture to the file ``to``, replacing an existing file. Returns the size of the file in
    bytes.

    ``view`` is a name of :data:`cdcwb.model.TABLES`; ``exact`` leaves text in CSV unchanged that a spreadsheet would
    take for a formula. ``to`` may be a URL (``s3://bucket/name.csv``).

    Raises OptionError for an unknown view or ending, a target that cannot be written, or one that the capture is read
    from, CaptureError for a URL that cannot be written.
    """
    if is_remote(to):
        url = check_url(str(to))
        if url in [str(entry["file"]) for entry in capture.files]:
            raise OptionError(f"'{url}' belongs to the capture that is read; nothing is written over it")
        with delivered_to(url) as local:
            return export(capture, view, local, exact=exact)
    rows = _rows(capture, view)
    target = check_target(to, [str(entry["file"]) for entry in capture.files])
    with written(target) as joined, parts_beside(target) as parts:
        if target.suffix == ".parquet":
            _write_parquet(rows, parts)
            _join_parquet(parts_of(parts, target), joined, model.TABLES[view])
        else:
            header = _write_text(rows, target.suffix[1:], parts, exact)
            join_text(parts_of(parts, target), joined, header)
        return joined.stat().st_size


def write_stream(capture: Capture, view: str, kind: str, out: IO[bytes], *, exact: bool = False) -> None:
    """Write one view of a capture as ``jsonl`` or ``csv`` to ``out``, as :func:`export` writes it to a file."""
    rows = _rows(capture, view)
    with tempfile.TemporaryDirectory(prefix="cdcwb-export-") as folder:
        parts = Path(folder, "parts")
        out.write(_write_text(rows, kind, parts, exact))
        _append_parts(parts_of(parts, parts), out)


def _rows(capture: Capture, view: str) -> DataFrame:
    if view not in model.TABLES:
        raise OptionError(
            f"there is no view '{view}'.{nearest(view, model.TABLES)} There are: {', '.join(model.TABLES)}."
        )
    return ordered(capture, view)


def _write_text(rows: DataFrame, kind: str, parts: Path, exact: bool) -> bytes:
    """Write the lines of a text file in parts; returns its header."""
    end = "\r\n" if kind == "csv" else "\n"
    lines = text_lines(rows, kind, exact)
    lines.write.option("lineSep", end).option("compression", "none").text(local(parts))
    return (",".join(rows.columns) + end).encode() if kind == "csv" else b""


def check_target(to: str | os.PathLike[str], inputs: list[str], kinds: Sequence[str] = KINDS) -> Path:
    """The absolute path of a target file that can be written and has the ending of one of the ``kinds``. ``inputs`` are
    the files that must not be replaced.

    Raises OptionError before any work is done.
    """
    target = Path(to).absolute()
    _check_kind(target.name, kinds)
    if target.is_dir():
        raise OptionError(f"'{target}' is a folder, not a file")
    if not target.parent.is_dir():
        raise OptionError(f"there is no folder '{target.parent}'")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"the folder '{target.parent}' cannot be written")
    if target.exists() and any(Path(path).exists() and target.samefile(path) for path in inputs):
        raise OptionError(f"'{target}' belongs to the capture that is read; nothing is written over it")
    return target


def check_url(to: str, kinds: Sequence[str] = KINDS) -> str:
    """The URL of a target file in a remote file system, without its query. Raises OptionError where it has not the
    ending of one of the ``kinds``."""
    url = url_of(to)
    _check_kind(url.rpartition("/")[2], kinds)
    return url


def _check_kind(name: str, kinds: Sequence[str]) -> None:
    suffix = Path(name).suffix
    kind = suffix[1:].lower()
    if kind not in kinds or suffix != suffix.lower():
        raise OptionError(f"expected a file that ends in .{', .'.join(kinds)}, found '{name}'.{nearest(kind, kinds)}")


def check_folder(to: str | os.PathLike[str], why: str, overwrite: bool = False) -> Path:
    """The absolute path of a target folder that can be written and is new or empty; with ``overwrite`` it may be a
    saved capture. ``why``: what is written to it.

    Raises OptionError before any work is done.
    """
    target = Path(to).expanduser().absolute()
    wrong = check_ending(target, why)
    if wrong:
        raise OptionError(wrong[0])
    check_replaced(target, (target / SAVED).is_file(), "a saved capture", overwrite)
    unwritable = check_above(target)
    if unwritable:
        raise OptionError(unwritable[0])
    return target


def check_replaced(target: Path, is_ours: bool, what: str, overwrite: bool) -> None:
    """Raises OptionError if ``target`` exists, is not empty, and must not be replaced. Only output of cdcwb
    (``is_ours``) is replaced, and only with ``overwrite``. ``what``: a description of such output."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())) or (is_ours and overwrite):
        return
    hint = f"--overwrite replaces {what}" if is_ours else f"it is not {what}, so --overwrite does not replace it either"
    raise OptionError(f"'{target}' already exists; not overwritten. Name another folder; {hint}")


def check_above(target: Path) -> list[str]:
    """Reasons why a file or folder cannot be created at an absolute path; empty if it can."""
    above = next(folder for folder in target.parents if folder.exists())
    if not above.is_dir():
        return [f"'{above}' is a file; nothing can be written below it"]
    return [] if os.access(above, os.W_OK) else [f"the folder '{above}' cannot be written"]


def check_ending(target: Path, why: str) -> list[str]:
    """A sentence if the name of a folder has the ending of a file; empty otherwise."""
    if target.suffix.lower()[1:] not in _FILES or target.is_dir():
        return []
    return [f"expected a folder, found '{target.name}', which ends as a file does: {why}"]


def text_lines(rows: DataFrame, kind: str, exact: bool = False) -> DataFrame:
    """A frame of one text column with a line for every row, as ``jsonl`` or ``csv`` without its header line."""
    from pyspark.sql import functions as F

    if kind == "jsonl":
        columns = [_hex(rows, name).alias(name) for name in rows.columns]
        return rows.select(F.to_json(F.struct(*columns), _JSON).alias("value"))
    return rows.select(F.concat_ws(",", *[_csv_field(rows, name, exact) for name in rows.columns]).alias("value"))


def _hex(rows: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    column = rows[name]
    return F.lower(F.hex(column)) if rows.schema[name].dataType.typeName() == "binary" else column


def _csv_field(rows: DataFrame, name: str, exact: bool) -> Column:
    """One field in the form of RFC 4180; unless ``exact``, with an apostrophe before a text that a spreadsheet would
    run as a formula. Spark's own CSV writer does not preserve line ends and surrounding blanks in values."""
    from pyspark.sql import functions as F

    kind = rows.schema[name].dataType.typeName()
    if kind in ("map", "array", "struct"):
        text = F.to_json(rows[name], _JSON)
    elif kind == "timestamp":
        in_utc = F.to_csv(F.struct(rows[name]), _JSON)  # independent of the session's time zone
        text = F.when(rows[name].isNotNull(), in_utc)
    elif kind == "binary":
        text = _hex(rows, name)
    else:
        text = rows[name].cast("string")
    if kind == "string" and not exact:
        is_formula = text.rlike(_FORMULA) & ~text.rlike(_NUMBER)
        text = F.when(is_formula, F.concat(F.lit("'"), text)).otherwise(text)
    quoted = F.concat(F.lit('"'), F.replace(text, F.lit('"'), F.lit('""')), F.lit('"'))
    return F.when(text.isNull(), "").when((text == "") | text.rlike('[",\r\n]'), quoted).otherwise(text)


def _write_parquet(rows: DataFrame, folder: Path) -> None:
    """Writes parts with times in microseconds; Spark's default type ends in the year 2262."""
    spark, setting = rows.sparkSession, "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "TIMESTAMP_MICROS")
    try:
        rows.write.option("compression", "snappy").parquet(local(folder))
    finally:
        spark.conf.set(setting, str(before))


def join_text(parts: list[Path], target: Path, header: bytes) -> None:
    """Joins the header and the parts to one file, and deletes the parts."""
    with target.open("xb") as out:
        out.write(header)
        _append_parts(parts, out)


def _append_parts(parts: list[Path], out: IO[bytes]) -> None:
    for part in parts:
        with part.open("rb") as piece:
            shutil.copyfileobj(piece, out, _PIECE)
        part.unlink()  # frees the space of a part as soon as it is joined


def _join_parquet(parts: list[Path], target: Path, schema: pa.Schema) -> None:
    import pyarrow.parquet as pq

    with target.open("xb") as out, pq.ParquetWriter(out, schema, compression="zstd", version="2.6") as writer:
        for part in parts:
            with pq.ParquetFile(part) as rows:
                for batch in batches_of(rows, size=_ROW_GROUP):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))
            part.unlink()


def parts_of(folder: Path, target: Path) -> list[Path]:
    """The parts that Spark wrote, in the order of its partitions."""
    if not (folder / "_SUCCESS").exists():
        raise OptionError(
            f"Spark's workers do not write to this machine's '{target.parent}': give a folder that all machines share, "
            "or use 'cdcwb save'"
        )
    parts = []
    for path in folder.iterdir():
        numbers = re.match(r"part-(\d+)-.*?(?:-c(\d+))?\.(?:snappy\.)?(?:txt|parquet)$", path.name)
        if numbers:
            parts.append((int(numbers[1]), int(numbers[2] or 0), path))
    return [path for _, _, path in sorted(parts)]


@contextmanager
def parts_beside(target: Path) -> Iterator[Path]:
    """The path of a folder for parts next to the target, which is removed at the end."""
    parts = target.with_name(f".cdcwb-{secrets.token_hex(8)}.parts")
    try:
        yield parts
    finally:
        remove(parts)


def local(path: Path) -> str:
    """A path of the local file system, whatever Spark's default file system is."""
    return f"file://{path}"
