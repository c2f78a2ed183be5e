"""A view of a capture as one file: JSON lines, Parquet or CSV, of any size, in the order of
:mod:`cdcwb.analysis.export`.

Rows of a small capture are ordered and written by this process. Others are ordered by Spark, which writes them in parts
to a temporary folder next to the target; the parts are joined in order. Files are written atomically, and no row is
collected.

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
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.analysis.line_text import lines
from cdcwb.analysis.order import ordered
from cdcwb.dataset import Rows
from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.formats.source import absolute, delivered_to, is_remote, url_of
from cdcwb.opening import SAVED
from cdcwb.spark_rows import SparkRows
from cdcwb.stored import batches_of
from cdcwb.writing import folder_beside, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture


KINDS: Final = ("jsonl", "parquet", "csv")
"""Formats of export, by the ending of the file's name."""

_FILES: Final = (*KINDS, "html", "htm", "pdf", "json", "tsv", "txt", "xml", "xds", "xlsx", "zip", "gz")
"""Endings of names that are meant for a file."""
_PIECE: Final = 8 << 20
_ROW_GROUP: Final = 64 * 1024
_PARQUET: Final[dict[str, Any]] = {"compression": "zstd", "version": "2.6"}


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
    kind = target.suffix[1:]
    with written(target) as made:
        if kind == "parquet":
            with pq.ParquetWriter(made, model.TABLES[view], **_PARQUET) as writer:
                for batch in ordered_batches(rows, target):
                    writer.write_table(pa.Table.from_batches([batch]).cast(model.TABLES[view]))
        else:
            with made.open("xb") as out:
                _write_text(rows, kind, out, exact, target)
        return made.stat().st_size


def write_stream(capture: Capture, view: str, kind: str, out: IO[bytes], *, exact: bool = False) -> None:
    """Write one view of a capture as ``jsonl`` or ``csv`` to ``out``, as :func:`export` writes it to a file."""
    with tempfile.TemporaryDirectory(prefix="cdcwb-export-") as folder:
        _write_text(_rows(capture, view), kind, out, exact, Path(folder, "stream"))


def _rows(capture: Capture, view: str) -> Rows:
    if view not in model.TABLES:
        raise OptionError(
            f"there is no view '{view}'.{nearest(view, model.TABLES)} There are: {', '.join(model.TABLES)}."
        )
    return ordered(capture, view)


def _write_text(rows: Rows, kind: str, out: IO[bytes], exact: bool, target: Path) -> None:
    """Writes the lines of a text file."""
    end = "\r\n" if kind == "csv" else "\n"
    if kind == "csv":
        out.write((",".join(rows.schema.names) + end).encode())
    write_lines(lines(rows, kind, exact), out, end, target)


def write_lines(rows: Rows, out: IO[bytes], end: str, target: Path) -> None:
    """Writes rows of one text column, each with a line end, in their order. Spark writes them in parts to a folder next
    to ``target`` first."""
    if isinstance(rows, SparkRows):
        with folder_beside(target) as folder:
            parts = folder / "parts"
            text = rows.frame.write.option("lineSep", end).option("compression", "none")
            text.text(local(parts))
            for path in parts_of(parts, target):
                with path.open("rb") as part:
                    shutil.copyfileobj(part, out, _PIECE)
                path.unlink()  # frees the space of a part as soon as it is joined
        return
    for batch in rows.batches():
        for line in batch.column(0).to_pylist():
            out.write(line.encode() + end.encode())


def ordered_batches(rows: Rows, target: Path) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches; Spark writes them in parts to a folder next to ``target`` first."""
    if not isinstance(rows, SparkRows):
        yield from rows.batches()
        return
    with folder_beside(target) as folder:
        _write_parquet(rows.frame, folder / "parts")
        for part in parts_of(folder / "parts", target):
            with pq.ParquetFile(part) as file:
                yield from batches_of(file, size=_ROW_GROUP)
            part.unlink()


def check_target(to: str | os.PathLike[str], inputs: list[str], kinds: Sequence[str] = KINDS) -> Path:
    """The absolute path of a target file that can be written and has the ending of one of the ``kinds``. ``inputs`` are
    the files that must not be replaced.

    Raises OptionError before any work is done.
    """
    target = Path(absolute(to))
    _check_kind(target.name, kinds)
    if target.is_dir():
        raise OptionError(f"'{target}' is a folder, not a file")
    check_parent(target)
    if target.exists() and any(Path(path).exists() and target.samefile(path) for path in inputs):
        raise OptionError(f"'{target}' belongs to the capture that is read; nothing is written over it")
    return target


def check_parent(target: Path) -> None:
    """Raises OptionError where nothing can be written next to ``target``."""
    if not target.parent.is_dir():
        raise OptionError(f"there is no folder '{target.parent}'")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"the folder '{target.parent}' cannot be written")


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
    target = Path(absolute(to))
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
    above = next(folder for folder in (*target.parents, target) if folder.exists())
    if not above.is_dir():
        return [f"'{above}' is a file; nothing can be written below it"]
    return [] if os.access(above, os.W_OK) else [f"the folder '{above}' cannot be written"]


def check_ending(target: Path, why: str) -> list[str]:
    """A sentence if the name of a folder has the ending of a file; empty otherwise."""
    if target.suffix.lower()[1:] not in _FILES or target.is_dir():
        return []
    return [f"expected a folder, found '{target.name}', which ends as a file does: {why}"]


def _write_parquet(rows: DataFrame, folder: Path) -> None:
    """Writes parts with times in microseconds; Spark's default type ends in the year 2262."""
    spark, setting = rows.sparkSession, "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "TIMESTAMP_MICROS")
    try:
        rows.write.option("compression", "snappy").parquet(local(folder))
    finally:
        spark.conf.set(setting, str(before))


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


def local(path: Path) -> str:
    """A path of the local file system, whatever Spark's default file system is."""
    return f"file://{path}"
