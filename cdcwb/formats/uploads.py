"""Writing to remote file systems through ``pyarrow.fs``: results are made in a local folder and uploaded.

Object stores show an object when it is complete. Elsewhere (``hdfs://``) a file is written beside its target and
renamed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.source import exists, file_system, forget, refused, url_of

_PIECE: Final = 8 << 20
_WITH_FOLDERS: Final = ("hdfs://", "viewfs://")  # where files are seen before they are complete, and folders are made


def upload(file: Path, url: str) -> None:
    """Writes a local file to a URL, replacing what is there. Raises CaptureError."""
    system, path = file_system(url)
    renames = url.startswith(_WITH_FOLDERS)
    above, _, name = path.rpartition("/")
    target = f"{above}/.{name}.part" if renames else path
    try:
        if renames:
            system.create_dir(above, recursive=True)
        with file.open("rb") as data, system.open_output_stream(target) as out:
            shutil.copyfileobj(data, out, _PIECE)
        if renames:
            system.move(target, path)
        found = system.get_file_info(path).size
    except (OSError, pa.ArrowException) as error:
        raise refused(url, error, "written") from None
    if found != (size := file.stat().st_size):
        raise CaptureError(f"cannot be written: expected {size:,} bytes, found {found}", path=url)


@contextmanager
def delivered_to(target: str | os.PathLike[str], last: str = "") -> Iterator[Path]:
    """The path of a file in a temporary folder, or of a folder there if ``last`` names the file in it that is uploaded
    last. If the block succeeds, the file and those beside it, or the files of the folder, are uploaded: the file to the
    URL ``target``, after the others, or the folder to it.

    Raises CaptureError, before the block where the file system cannot be reached.
    """
    url = url_of(str(target))
    exists(url)
    above, _, name = url.rpartition("/")
    base, end = (url, last) if last else (above, name)
    with tempfile.TemporaryDirectory(prefix="cdcwb-upload-") as folder:
        yield Path(folder) if last else Path(folder, name)
        files = {file.relative_to(folder).as_posix(): file for file in Path(folder).rglob("*") if file.is_file()}
        for place in sorted(files, key=lambda place: (place == end, place)):
            upload(files[place], f"{base}/{place}")
    forget()
