"""The files of indexes in the user's cache directory, each checked completely before its arrays are used.

An index is never read from inside a capture. Its files are in the folder ``index`` of the user's cache directory, or of
the directory that the environment variable ``CDCWB_CACHE`` names. They have captured data (times, names, transaction
ids), so only their user may read them, and a folder that belongs to another user is not used. The least recently used
ones are deleted when the total exceeds :data:`MOST_BYTES`.

A file is written under a temporary name and renamed when it is complete, and never changed afterwards: processes that
have mapped it keep what they have. It consists of:

    an Arrow IPC stream of one batch with one row: each table is a column, whose value is the list of its rows, so that
                  each column of a table is one array in the memory map; the metadata of its schema are JSON: ``name``
                  (that of the file, which has a hash of the capture's identity) and ``facts``
    4 bytes       CRC-32 of everything before, little-endian

A file that is damaged, or of another capture, is treated as missing.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import struct
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.writing import user_cache

MOST_BYTES: Final = 10_000_000_000

_LAYOUT: Final = 8  # increased when the files of the same capture get other contents
_CHECKSUM: Final = struct.Struct("<I")
_ABOUT: Final = b"cdcwb"


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a file: memory-mapped tables by name, and a JSON object."""

    tables: dict[str, pa.RecordBatch]
    facts: dict[str, Any]


class Store:
    """The index files of one capture. ``origin`` is its identity, any JSON value; together with the version of cdcwb it
    names the files. With None, or if the cache cannot be used, they exist as long as this object."""

    def __init__(self, origin: Any) -> None:
        identity = json.dumps([version("cdcwb"), _LAYOUT, origin], sort_keys=True)
        self._key = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._folder = None if origin is None else _cache()
        self._own: dict[str, Entry] = {}

    def names(self, prefix: str) -> list[str]:
        """The names of the entries that begin with ``prefix``, in order."""
        first = f"{self._key}."
        files = [] if self._folder is None else self._folder.glob(f"{first}{prefix}*")
        own = [name for name in self._own if name.startswith(prefix)]
        return sorted({*(path.name.removeprefix(first) for path in files), *own})

    def read(self, name: str) -> Entry | None:
        """The entry of that name; None if it is missing or damaged."""
        if name in self._own or self._folder is None:
            return self._own.get(name)
        path = self._folder / f"{self._key}.{name}"
        entry = _entry(path, path.name)
        if entry is not None:
            with suppress(OSError):
                os.utime(path)  # recently used
        return entry

    def write(self, name: str, tables: Mapping[str, pa.Table], facts: Mapping[str, Any] | None = None) -> Entry:
        """Writes an entry, replacing one of that name. Raises CaptureError if neither the cache nor the folder for
        temporary files can be written."""
        file = f"{self._key}.{name}"
        with suppress(OSError):
            if self._folder is not None:
                return _written(self._folder, file, tables, facts or {}, keep=True)
        try:
            self._own[name] = _written(Path(tempfile.gettempdir()), file, tables, facts or {}, keep=False)
        except OSError as reason:
            sentence = f"the index cannot be written ({reason.strerror or reason}); set TMPDIR to a folder with space"
            raise CaptureError(sentence, path=tempfile.gettempdir()) from None
        return self._own[name]


def _cache() -> Path | None:
    """The folder of index files, with access for its user only; None if it cannot be used."""
    folder = user_cache("index")
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        above, status = folder.parent.stat(), folder.lstat()
        if above.st_uid not in (0, os.geteuid()) or status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
            return None
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError:
        return None
    return folder


def _as_array(table: pa.Table) -> pa.StructArray:
    """The rows of a table. PyArrow 18 fails for a table without rows."""
    if not len(table):
        return pa.array([], pa.struct(list(table.schema)))
    return table.combine_chunks().to_struct_array().combine_chunks()


def _written(folder: Path, file: str, tables: Mapping[str, pa.Table], facts: Mapping[str, Any], keep: bool) -> Entry:
    """Writes a file and maps it; it is deleted at once unless ``keep``, and exists as long as it is mapped."""
    handle, temporary_name = tempfile.mkstemp(prefix=f".{file}.", dir=folder)  # readable by its user only
    os.close(handle)
    temporary = Path(temporary_name)
    try:
        about = json.dumps({"name": file, "facts": facts}).encode()
        rows = [_as_array(table) for table in tables.values()]
        lists = [pa.ListArray.from_arrays(pa.array([0, len(one)], pa.int32()), one) for one in rows]
        batch = pa.RecordBatch.from_arrays(lists, list(tables)).replace_schema_metadata({_ABOUT: about})
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        with temporary.open("r+b") as written:
            with mmap.mmap(written.fileno(), 0, access=mmap.ACCESS_READ) as content:
                checksum = zlib.crc32(content)
            written.seek(0, os.SEEK_END)
            written.write(_CHECKSUM.pack(checksum))
        entry = _entry(temporary, file)
        if entry is None:
            raise OSError(f"{temporary} is not what was written")
        if keep:
            temporary.replace(folder / file)
            _evict(folder, folder / file)
        return entry
    finally:
        temporary.unlink(missing_ok=True)


def _entry(path: Path, name: str) -> Entry | None:
    """The content of a file; None if it is missing or damaged, or is not of that name."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return None
            content = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)  # of an empty file: ValueError
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return None
    end = len(content) - _CHECKSUM.size
    with memoryview(content) as view:
        if end < 0 or zlib.crc32(view[:end]) != _CHECKSUM.unpack(view[end:])[0]:
            return None
    batch = pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(content).slice(0, end))).read_next_batch()
    about = json.loads(batch.schema.metadata[_ABOUT])
    if about["name"] != name:
        return None
    tables = {table: pa.RecordBatch.from_struct_array(batch[table].values) for table in batch.schema.names}
    return Entry(tables, about["facts"])


def _evict(folder: Path, keep: Path) -> None:
    """Deletes the least recently used files until the rest is small enough."""
    used: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process deletes, too
            status = path.lstat()
            used.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in used)
    for _, size, path in sorted(used):
        if total > MOST_BYTES and path != keep:
            with suppress(OSError):
                path.unlink()
                total -= size
