"""Published documents and decisions as files. Spark writes parts beside the target, and they are put together in order:
so a file, or a folder, appears whole or not at all, and the documents never pass through one process's memory.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cdcwb.analysis.export import (
    beside,
    check_ending,
    check_replaced,
    check_target,
    join_text,
    local,
    parts_of,
    text_lines,
)
from cdcwb.errors import OptionError
from cdcwb.spark.names import with_names
from cdcwb.spark.stored import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.analysis.xds import Published
    from cdcwb.analysis.xds_changes import PublishedChanges

__all__ = ["STREAMS", "check_documents_target", "write_published"]

STREAMS: Final = ("xml", "xds")
"""Endings of a file that all documents go into."""

_NAME: Final = "document-{:06}.xml"
_OURS: Final = re.compile(r"document-\d{6,}\.xml")


def check_documents_target(to: str | os.PathLike[str], inputs: Sequence[str], overwrite: bool = False) -> Path:
    """The absolute path of what documents are written to: one file, where the name ends in .xml or .xds, else a folder
    that is new or empty, or with ``overwrite`` holds nothing but such documents. ``inputs`` are the files that must
    not be replaced.

    Raises OptionError before any work is done.
    """
    target = Path(to).absolute()
    if target.suffix.lower()[1:] in STREAMS:
        return check_target(target, list(inputs), STREAMS)
    wrong = check_ending(target, f"one file of all documents ends in .{' or .'.join(STREAMS)}")
    if wrong:
        raise OptionError(wrong[0])
    is_ours = target.is_dir() and all(_OURS.fullmatch(path.name) for path in target.iterdir())
    check_replaced(target, is_ours, "a folder of XDS documents", overwrite)
    if not target.parent.is_dir():
        raise OptionError(f"there is no folder '{target.parent}'")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"the folder '{target.parent}' cannot be written")
    return target


def write_published(
    published: Published | PublishedChanges,
    documents: Path,
    decisions: Path | None,
    inputs: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Writes all documents to the file or the folder ``documents``, in order, and the decisions, one JSON object a
    line in capture order, to the file ``decisions``. Both are there in the end, or neither.

    Raises OptionError for targets that cannot be written, or belong to the ``inputs``.
    """
    target = check_documents_target(documents, inputs, overwrite)
    lines = None if decisions is None else check_target(decisions, list(inputs), ("jsonl",))
    with ExitStack() as stack:
        made = [(stack.enter_context(_documents(published.documents, target)), target)]
        if lines is not None:
            made.append((stack.enter_context(_decisions(published.decisions, lines)), lines))
        for whole, place in made:
            if place.is_dir():
                shutil.rmtree(place)
            whole.replace(place)


@contextmanager
def _decisions(rows: DataFrame, target: Path) -> Iterator[Path]:
    with beside(target) as (parts, whole):
        ordered = with_names(rows.orderBy("file_index", "offset"))
        text_lines(ordered, "jsonl").write.option("compression", "none").text(local(parts))
        join_text(parts_of(parts, target), whole, b"")
        yield whole


@contextmanager
def _documents(rows: DataFrame, target: Path) -> Iterator[Path]:
    from pyspark.sql import functions as F

    with beside(target) as (parts, whole):
        if target.suffix:
            text = F.expr("substring(xml, 1, length(xml) - 1)")  # Spark writes the last line end
            rows.select(text.alias("value")).write.option("compression", "none").text(local(parts))
            join_text(parts_of(parts, target), whole, b"")
            yield whole
            return
        rows.select("document", "xml").write.option("compression", "snappy").parquet(local(parts))
        folder = Path(tempfile.mkdtemp(prefix=f"{whole.name}-", dir=target.parent))
        try:
            for part in parts_of(parts, target):
                _one_by_one(part, folder)
                part.unlink()
            folder.chmod(0o755)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _one_by_one(part: Path, folder: Path) -> None:
    """The documents of a part as files of their own."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(part) as rows:
        for batch in batches_of(rows, size=1000):
            for number, xml in zip(batch["document"].to_pylist(), batch["xml"].to_pylist(), strict=True):
                (folder / _NAME.format(number)).write_bytes(xml.encode())
