"""Where bytes come from, and where results are written: files of this machine, and objects and files of remote file
systems through ``pyarrow.fs``.

A remote file is named by its URL: ``s3://bucket/key``, ``gs://bucket/key``, ``abfs://container@account…/path`` or
``hdfs://host:port/path``. Everything after the bucket is taken as it is written, without percent escapes. Of a remote
file only the blocks that are asked for are transferred, each once for as long as the file is open, into a temporary
file without a name.

Credentials come from the environment or the client's own configuration; a URL that has any is refused. What else a
client needs to know (an endpoint, a region) comes from the environment too, or from the query of a URL
(``s3://bucket/folder?endpoint_override=http://localhost:9000``), which is remembered for its bucket and is not part of
the name of a file.
"""

from __future__ import annotations

import atexit
import io
import mmap
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self, cast
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, ChangedFileError
from cdcwb.formats.kernels import Bytes, Ints

if TYPE_CHECKING:
    from pyarrow import fs


from collections.abc import Iterator
from contextlib import contextmanager

SCHEMES: Final = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Of URLs of remote file systems."""

BLOCK: Final = 1 << 14
"""Bytes that are transferred at least, but for the end of a file."""

AHEAD: Final = 1 << 18
"""Bytes up to which more is transferred at once of a file that is read in order in small steps."""

_URL: Final = re.compile(rf"({'|'.join(SCHEMES)})://([^/?]*)(.*)", re.IGNORECASE | re.DOTALL)
_QUERY: Final = re.compile(r"\?((?:[a-z_]+=[^&/]*(?:/[^&]*)?)(?:&[a-z_]+=[^&]*)*)$")
_SECRET: Final = re.compile(r"key|secret|token|password|credential(?!_kind$)|signature|sas", re.IGNORECASE)
_ALIASES: Final = {"s3a": "s3", "gcs": "gs", "abfss": "abfs"}
_ENDPOINT: Final = re.compile(r"(?:(https?)://)?((?:\[[0-9a-fA-F:.]+\]|[^\[\]:/?#@]+)(?::\d{1,5})?)(?:/.*)?")
_SETTINGS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "s3": {
        "endpoint_override": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    "gs": {"endpoint_override": ("STORAGE_EMULATOR_HOST",)},
    "abfs": {"endpoint_override": ("AZURE_STORAGE_SERVICE_ENDPOINT",)},
}
"""Settings of Arrow's clients that they do not take from the environment themselves."""
_AZURE_CREDENTIALS: Final = {"account_key": "AZURE_STORAGE_KEY", "sas_token": "AZURE_STORAGE_SAS_TOKEN"}
_REQUEST: Final = 8 << 20  # bytes that are asked for at most at once
_KEPT: Final = 64 << 20  # bytes of files that nobody reads now
_MOST_OPEN: Final = 64  # such files


class Info(NamedTuple):
    """Of a file: its size in bytes, and when it was modified, in ns since 1970 (of a remote file: whole seconds)."""

    size: int
    modified: int


_infos: dict[str, Info] = {}  # of remote files, as they were listed last
_listings: set[str] = set()  # folders whose files are known
_limits: dict[str, int] = {}  # the option inflate_limit of files that have it
_queries: dict[str, str] = {}  # scheme and authority of URLs: the query that was given


# --- names ------------------------------------------------------------------------------------------------------------


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Is this the URL of a file system that :mod:`pyarrow.fs` reads?"""
    return isinstance(path, str) and _URL.match(path) is not None


def url_of(url: str) -> str:
    """The URL of a remote file or folder as files are named: without its query, which is remembered, and without a
    slash at its end. Raises CaptureError for one that has credentials or names no bucket."""
    scheme, authority, rest = _parts(url)
    base = f"{scheme}://{authority}"
    user = authority.rpartition("@")[0]
    query = _QUERY.search(rest)
    settings = dict(parse_qsl(query[1])) if query else {}
    # A container of Azure and an anonymous user of Google are written as users are.
    if ":" in user or (user and scheme == "s3") or any(map(_SECRET.search, settings)):
        shown = f"{scheme}://…@{authority.rpartition('@')[2]}" if user else base
        sentence = "the URL has credentials; give them in the environment or the client's own configuration"
        raise CaptureError(sentence, path=shown)
    if not authority and scheme not in ("hdfs", "viewfs"):
        raise CaptureError(f"the URL names no bucket; expected {scheme}://BUCKET/PATH", path=url)
    if query:
        rest = rest[: query.start()]
        _queries[base] = urlencode(settings)
    return f"{base}/{rest.strip('/')}".rstrip("/")


def _parts(url: str) -> tuple[str, str, str]:
    found = _URL.match(url)
    assert found is not None
    scheme = found[1].lower()
    return _ALIASES.get(scheme, scheme), found[2], found[3]


def folders_of(path: str) -> list[str]:
    """The folders that a file is in, the innermost first."""
    if not is_remote(path):
        return list(_parents(path.rpartition("/")[0] or path[:1]))
    scheme, authority, rest = _parts(path)
    names = rest.strip("/").split("/")
    return ["/".join([f"{scheme}://{authority}", *names[:at]]) for at in reversed(range(len(names)))]


@lru_cache(maxsize=1024)
def _parents(folder: str) -> tuple[str, ...]:
    """A folder and those it is in, as text; of many files in one folder they are made once."""
    return tuple(map(str, (Path(folder), *Path(folder).parents)))


def common_folder(paths: Iterable[str]) -> str:
    """The innermost folder that all these files are in."""
    return max(set.intersection(*(set(folders_of(path)) for path in paths)), key=len, default="")


def same_file(one: str, other: str) -> bool:
    """Do two paths, of files that exist, lead to one file?"""
    return one == other or (not (is_remote(one) or is_remote(other)) and Path(one).samefile(other))


# --- file systems -----------------------------------------------------------------------------------------------------


def file_system(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and the path in it."""
    scheme, authority, rest = _parts(url)
    settings = dict(parse_qsl(_queries.get(f"{scheme}://{authority}", "")))
    for name, variables in _SETTINGS.get(scheme, {}).items():
        for value in filter(None, map(os.environ.get, variables)):
            settings.setdefault(name, value)
    system, root = _connected(scheme, authority, urlencode(settings))
    inner = "/".join(filter(None, (root.strip("/"), rest.strip("/"))))
    return system, f"/{inner}" if root.startswith("/") or not inner else inner


@lru_cache
def _connected(scheme: str, authority: str, query: str) -> tuple[fs.FileSystem, str]:
    from pyarrow import fs

    settings = dict(parse_qsl(query))
    connect = {"gs": _google, "abfs": _azure}.get(scheme)
    with refusing(f"{scheme}://{authority}/", "read", ValueError, TypeError, NotImplementedError):
        if connect is not None:
            return connect(authority, settings)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(_uri(scheme, authority, settings))
    return found


def _uri(scheme: str, authority: str, settings: Mapping[str, str]) -> str:
    return f"{scheme}://{authority}/?{urlencode(settings)}".rstrip("?")


def _endpoint(settings: dict[str, str]) -> tuple[str, str]:
    """Scheme and host (with its port) of the endpoint in settings, which is removed from them; empty if unset."""
    endpoint = settings.pop("endpoint_override", "")
    found = _ENDPOINT.fullmatch(endpoint)
    if endpoint and found is None:
        raise ValueError(f"expected an endpoint like http://HOST:PORT, found {endpoint!r}")
    return (found[1] or "https", found[2]) if found else ("", "")


def _google(bucket: str, settings: dict[str, str]) -> tuple[fs.FileSystem, str]:
    """Google's client, without credentials if the endpoint has no TLS."""
    from pyarrow import fs

    scheme, host = _endpoint(settings)
    if host:
        settings = {"endpoint_override": host, "scheme": scheme} | settings
    if settings.get("scheme") == "http" and "@" not in bucket:
        bucket = f"anonymous@{bucket}"
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(_uri("gs", bucket, settings))
    return found


def _azure(authority: str, settings: dict[str, str]) -> tuple[fs.FileSystem, str]:
    """Azure's client, with the account key or the signature of the environment, which Arrow does not take itself.
    Without these it has a token, or no credentials if the endpoint has no TLS: a token would end the process then."""
    from pyarrow import fs

    named = os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if named and not re.search("[@.:]", authority):
        authority = f"{named}@{authority}"
    scheme, host = _endpoint(settings)
    if host:
        tls = str(scheme == "https").lower()
        settings = {"blob_storage_authority": host, "dfs_storage_authority": host, "enable_tls": tls} | settings
    anonymous, root = fs.FileSystem.from_uri(_uri("abfs", authority, settings | {"credential_kind": "anonymous"}))
    options = {name: value for name, value in anonymous.__reduce__()[1][0].items() if value}
    if named in ("", options["account_name"]) and "credential_kind" not in settings:
        for name, variable in _AZURE_CREDENTIALS.items():
            if value := os.environ.get(variable):
                return fs.AzureFileSystem(**options, **{name: value}), root
    if options["blob_storage_scheme"] == "http":
        return anonymous, root
    return fs.FileSystem.from_uri(_uri("abfs", authority, settings))[0], root


@contextmanager
def refusing(url: str, deed: str = "read", *more: type[Exception]) -> Iterator[None]:
    """Raises CaptureError, with one sentence why a remote file cannot be read (or what else ``deed`` is), for errors of
    its file system, and for ``more``."""
    try:
        yield
    except (OSError, pa.ArrowException, *more) as error:
        if isinstance(error, FileNotFoundError):
            raise CaptureError("there is no such file or folder", path=url) from None
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CaptureError(f"cannot be {deed} ({reason:.300})", path=url) from None


def known(paths: Iterable[str] | None = None) -> dict[str, Any]:
    """What another process needs to read files as they are read here: sizes and times of remote ones, settings of their
    file systems, and limits that were given; empty for other files. ``None``: all files that are known. There are no
    credentials in it."""
    given = None if paths is None else list(paths)
    files = {path: list(info_of(path)) for path in (_infos if given is None else given) if is_remote(path)}
    limits = {path: _limits[path] for path in (_limits if given is None else given) if path in _limits}
    return {"files": files, "queries": dict(_queries), "limits": limits} if files or limits else {}


def announced(told: Mapping[str, Any]) -> None:
    """Takes over what :func:`known` of another process gave."""
    _queries.update(told.get("queries", {}))
    _infos.update({path: Info(*info) for path, info in told.get("files", {}).items()})
    _limits.update(told.get("limits", {}))


def allow_inflation(paths: Iterable[str], limit: int | None) -> None:
    """Sets to how many bytes each of these files may inflate; None: leaves that as it is."""
    if limit is not None:
        _limits.update(dict.fromkeys(paths, limit))


def inflate_limit(path: str, least: int = 1 << 30, ratio: int = 200) -> int:
    """To how many bytes a file may inflate: the option ``inflate_limit``, else ``least`` or so many times its own
    size. Raises as :func:`info_of`."""
    return _limits[path] if path in _limits else max(least, ratio * info_of(path).size)


# --- files ------------------------------------------------------------------------------------------------------------


def info_of(path: str) -> Info:
    """Size and time of a file; of a remote one as it was listed last. Raises OSError for a local file that cannot be
    looked at, CaptureError for a remote one."""
    if not is_remote(path):
        stat = Path(path).stat()
        return Info(stat.st_size, stat.st_mtime_ns)
    if path not in _infos and files_below(path) != [path]:
        raise CaptureError("expected a file, found a folder", path=path)
    return _infos[path]


def is_file(path: str | os.PathLike[str]) -> bool:
    """Is there a file of this name, as far as may be known?"""
    from pyarrow import fs

    if not is_remote(path):
        with suppress(OSError):  # a name that is too long, or below a folder that cannot be read
            return Path(path).is_file()
        return False
    folder = folders_of(str(path))[0]
    if str(path) not in _infos and folder not in _listings and "/" in _parts(str(path))[2]:
        _listings.add(folder)
        system, place = file_system(folder)
        with suppress(OSError, pa.ArrowException):
            for one in system.get_file_info(fs.FileSelector(place, allow_not_found=True)):
                if one.type == fs.FileType.File:
                    _listed(f"{folder}/{one.base_name}", one)
    return str(path) in _infos


def is_folder(path: str) -> bool:
    """Is there a folder of this name?"""
    return exists(path) and not is_file(path) if is_remote(path) else Path(path).is_dir()


def exists(url: str) -> bool:
    """Is there anything of this name in a remote file system? Raises CaptureError where that cannot be known."""
    from pyarrow import fs

    system, path = file_system(url)
    with refusing(url):
        some = fs.FileSelector(path, allow_not_found=True)
        return system.get_file_info(path).type != fs.FileType.NotFound or bool(system.get_file_info(some))


def forget() -> None:
    """Lists remote files and folders anew when they are next asked for."""
    _infos.clear()
    _listings.clear()
    _open.clear()


def is_left_out(name: str) -> bool:
    """Whether what has this name in a folder is not part of what the folder holds: hidden files, those of jobs
    (``_SUCCESS``), and copies that editors keep (``x~``, ``#x#``)."""
    return name.startswith((".", "_")) or name.endswith("~") or (name.startswith("#") and name.endswith("#"))


def files_below(url: str) -> list[str]:
    """The URL itself where it is a file, else all files below it without those that are left out
    (:func:`is_left_out`); their sizes are known from now on. Raises CaptureError if there is no file."""
    from pyarrow import fs

    system, path = file_system(url)
    with refusing(url):
        found = system.get_file_info(path)
        if found.type == fs.FileType.File:
            return [_listed(url, found)]
        # Azure's client does not find the folder x if there is another one, x.y or x-y.
        below = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    files = []
    for one in below:
        name = one.path.removeprefix(path).lstrip("/")
        if one.type == fs.FileType.File and not any(map(is_left_out, name.split("/"))):
            files.append(_listed(f"{url}/{name}", one))
    if not files:
        missing = found.type == fs.FileType.NotFound and not below
        raise CaptureError("there is no such file or folder" if missing else "the folder holds no files", path=url)
    return files


def _listed(url: str, found: fs.FileInfo) -> str:
    seconds = 0 if found.mtime_ns is None else found.mtime_ns // 1_000_000_000
    _infos[url] = Info(found.size, seconds * 1_000_000_000)
    return url


def version_of(path: str) -> int:
    """A number that is another one when a file gets other bytes: of a local file the time of its change in ns, of a
    remote one from its entity tag, 0 where its file system has none. Raises as :func:`info_of`."""
    if not is_remote(path):
        return Path(path).stat().st_ctime_ns
    tag = remote(path).tag
    return int.from_bytes(blake2b(tag, digest_size=7).digest()) if tag else 0


class LocalFile:
    """A local file that is open. ``size``: its bytes when it was opened. What is read is copied: where the file became
    shorter, a view on a memory map of it would end the process (SIGBUS)."""

    def __init__(self, path: str) -> None:
        """Raises OSError for a file that cannot be opened, CaptureError for a pipe, a device or a folder."""
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # to open a pipe would wait for its writer
        weakref.finalize(self, os.close, self._file)
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise CaptureError("is not a file", path=path)
        self.size = found.st_size

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes ``[start, stop)`` of the file, read-only. Raises CaptureError if the file ends before."""
        data = np.empty(stop - start, np.uint8)
        left = data.data
        while left:
            try:
                count = os.preadv(self._file, [left], start)
            except OSError as error:
                raise CaptureError(f"cannot be read ({error.strerror})", path=self.path, offset=start) from None
            if not count:
                raise became_shorter(self.path, self.size, os.fstat(self._file).st_size, start)
            start, left = start + count, left[count:]
        data.flags.writeable = False
        return data

    def copied(self) -> HeldBytes:
        """All its bytes in a temporary file."""
        with tempfile.TemporaryFile(prefix="cdcwb-") as store:
            for at in range(0, self.size, _REQUEST):
                stored(store, self.read(at, min(at + _REQUEST, self.size)), at, self.path)
            return HeldBytes(mapped(store, self.size))


def stored(store: IO[bytes], data: Any, offset: int, path: str) -> None:
    """Writes bytes of a file into a temporary file. Raises CaptureError."""
    try:
        os.pwrite(store.fileno(), data, offset)
    except OSError as error:
        where = f"{tempfile.gettempdir()} ({error.strerror}); TMPDIR names another folder for temporary files"
        raise CaptureError(f"cannot be copied to {where}", path=path) from None


def became_shorter(path: str, expected: int, found: int, offset: int | None = None) -> ChangedFileError:
    """The error for a file that became shorter while it was read."""
    sentence = f"the file became shorter while it was read: expected {expected:,} bytes, found {found:,}"
    return ChangedFileError(f"{sentence}; read it when nothing changes it", path=path, offset=offset)


def mapped(store: IO[bytes], size: int) -> Bytes:
    """The bytes of a temporary file without a name, as a memory map (read-only): nobody else can make it shorter."""
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(store.fileno(), size, access=mmap.ACCESS_READ), np.uint8)


class HeldBytes:
    """Bytes in memory or in a temporary file. ``data``: all of them (uint8, read-only). The methods are those of
    :class:`LocalFile`."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.size = data, len(data)

    def load(self, start: int, stop: int) -> None:
        """Makes sure that these bytes are there."""

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes ``[start, stop)``, read-only."""
        self.load(start, stop)
        return self.data[start:stop]


class Remote(HeldBytes):
    """A remote file that is open: of ``data`` the bytes that :meth:`load` was asked for are there and the others zero.
    ``tag``: its entity tag; empty where its file system has none."""

    def __init__(self, url: str, size: int) -> None:
        """Raises CaptureError for a file that cannot be opened or has another size."""
        self.url = url
        self.loaded = 0  # bytes
        system, path = file_system(url)
        with refusing(url):
            self._file = system.open_input_file(path)
            now = self._file.size()
            metadata = self._file.metadata() if hasattr(self._file, "metadata") else {}
        if now != size:
            raise CaptureError(f"changed since it was listed: expected {size:,} bytes, found {now:,}", path=url)
        self.tag: bytes = next((value for name, value in (metadata or {}).items() if name.lower() == "etag"), b"")
        self._missing = np.ones(-(-size // BLOCK), np.bool_)
        self._last = (0, 0)  # blocks [first, stop) that were transferred last
        self._next = 0  # offset up to which the file was read in order
        self._lock = RLock()
        self._store = tempfile.TemporaryFile(prefix="cdcwb-")  # noqa: SIM115  (it ends with this object)
        weakref.finalize(self, self._store.close)
        self._store.truncate(size)
        super().__init__(mapped(self._store, size))

    def load(self, start: int, stop: int) -> None:
        """Transfers what is missing of ``[start, stop)``. Raises CaptureError."""
        first, behind = start // BLOCK, -(-min(stop, self.size) // BLOCK)
        with self._lock:
            missing = np.flatnonzero(self._missing[first:behind]) + first
            for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1):
                if len(run):
                    self._load(int(run[0]), int(run[-1]) + 1)

    def _load(self, first: int, stop: int) -> None:
        """Transfers the blocks ``[first, stop)``, which are missing; if they follow those that were transferred last,
        twice as many as these, up to :data:`AHEAD` and to blocks that are there."""
        if first == self._last[1]:
            most = first + min(2 * (self._last[1] - self._last[0]), AHEAD // BLOCK)
            there = np.flatnonzero(~self._missing[stop:most])
            stop = max(stop, stop + int(there[0]) if len(there) else min(most, len(self._missing)))
        self._transfer(first * BLOCK, min(stop * BLOCK, self.size))
        self._missing[first:stop] = False
        self._last = first, stop

    def _transfer(self, start: int, stop: int) -> None:
        for at in range(start, stop, _REQUEST):
            size = min(_REQUEST, stop - at)
            with refusing(self.url):
                data = self._read(size, at)
            if len(data) != size:
                raise became_shorter(self.url, self.size, at + len(data), at)
            stored(self._store, data, at, self.url)
            self.loaded += size

    def _read(self, size: int, start: int) -> bytes:
        """Google's client sends the beginning of a file as soon as it is open: a file that is read in order is taken
        from what it sends, so that nothing is sent twice."""
        if start != self._next:
            return cast(bytes, self._file.read_at(size, start))
        data = cast(bytes, self._file.read(size))
        self._next += len(data)
        return data


_open: OrderedDict[tuple[str, Info], Remote] = OrderedDict()
_opening: Final = RLock()


def remote(url: str) -> Remote:
    """A remote file, opened. A few that were read before stay open, so that what many look at (the beginning of a file,
    the footer of a Parquet file) is transferred once. Raises CaptureError."""
    info = info_of(url)
    with _opening:
        found = _open.pop((url, info), None) or Remote(url, info.size)
        total = found.loaded
        for key, other in reversed([*_open.items()]):  # the newest first
            total += other.loaded
            if total > _KEPT or len(_open) >= _MOST_OPEN:
                del _open[key]
        _open[url, info] = found
    return found


def _let_go() -> None:
    """Connections of the process that this one was forked from are not its own."""
    _open.clear()
    _connected.cache_clear()


os.register_at_fork(after_in_child=_let_go)


class _FileIO(io.RawIOBase):
    """An open file as Python reads files."""

    def __init__(self, opened: LocalFile | Remote) -> None:
        self._opened, self._at = opened, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._opened.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = max(min(len(buffer), self._opened.size - self._at), 0)
        memoryview(buffer)[:size] = self._opened.read(self._at, self._at + size).data
        self._at += size
        return size


def opened(path: str) -> LocalFile | Remote:
    """A file, opened. Raises OSError for a local file that cannot be opened, CaptureError for any other one."""
    return remote(path) if is_remote(path) else LocalFile(path)


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file for reading. Raises as :func:`opened`; what reads it raises CaptureError if it became shorter."""
    return cast(IO[bytes], io.BufferedReader(_FileIO(opened(os.fspath(path))), BLOCK))


def read_text(path: str) -> str:
    """The text of a file in UTF-8, without a byte order mark. Raises as :func:`open_file`, and UnicodeDecodeError."""
    with open_file(path) as file:
        return file.read().decode("utf-8-sig").replace("\r\n", "\n")


class Source:
    """One input file as wire bytes: those of the file itself, or those that the digits of a text spell
    (:class:`cdcwb.formats.containers.hex_text.TextSource`).

    * ``path``
    * ``shape``: binary, hex, xxd or hexdump; ``evidence``: a sentence
    * ``compression``: gzip, zstd, utf-16 (:data:`cdcwb.formats.files.UTF16`) or None
    * ``size``: bytes of the decompressed file (of the examined part, if there is a limit)
    * ``length``: wire bytes
    * ``line_starts``: for texts the wire index of the first byte of every line with data; None for binary
    * ``read_starts``: for dumps the wire indices at which offsets restart, the first being 0; None if unknown
    * ``problem``: the problem of the file itself (truncated, damaged, lines missing); None without one
    """

    shape = "binary"
    path = evidence = ""
    compression: str | None = None
    problem: str | None = None
    line_starts: Ints | None = None
    read_starts: Ints | None = None

    def __init__(self, content: LocalFile | HeldBytes, length: int) -> None:
        self.size = self.length = length
        self._content = content

    def read(self, start: int, stop: int) -> Bytes:
        """The wire bytes from ``start`` to ``stop``, clipped to ``length``; read-only. Raises CaptureError if they
        cannot be read, or the file became shorter."""
        start = min(max(start, 0), self.length)
        return self._content.read(start, min(max(stop, start), self.length))

    def mapped(self) -> Bytes:
        """All wire bytes, of a file as a memory map of a temporary one: they need no memory. Raises as :meth:`read`."""
        if isinstance(self._content, LocalFile):
            self._content = self._content.copied()
        return self.read(0, self.length)

    def places(self, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
        """The locations of wire ranges in the decompressed file: (first byte, end), both int64."""
        first = np.clip(np.asarray(start, np.int64), 0, self.length)
        return first, np.clip(np.asarray(stop, np.int64), first, self.length)

    def close(self) -> None:
        """Releases the file; the bytes of others end with the last view on them."""
        self._content, self.length = HeldBytes(np.empty(0, np.uint8)), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# --- folders of files -------------------------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> str:
    """A local path as an absolute one, a URL as it is. Raises CaptureError without a working directory."""
    if is_remote(path):
        return str(path)
    try:
        return str(Path(os.path.expanduser(path)).absolute())  # noqa: PTH111 - no error for the home of an unknown user
    except FileNotFoundError:
        raise CaptureError("the working directory no longer exists", path=str(path)) from None


def fetched(path: str | os.PathLike[str]) -> Path:
    """A local path as it is; of a remote file or folder a copy in a temporary folder that is gone with the process, the
    same one as long as nothing changes there. Raises CaptureError."""
    if not is_remote(path):
        return Path(path)
    url = url_of(str(path))
    files = files_below(url)
    if outside := [file for file in files if ".." in file.split("/")]:  # a key may have any text
        raise CaptureError("leads out of the folder", path=outside[0])
    version = blake2b(repr([(file, _infos[file]) for file in files]).encode(), digest_size=8).hexdigest()
    place = _temporary() / version / Path(url).name
    if not place.exists():
        beside = Path(tempfile.mkdtemp(dir=_temporary()))
        for file in files:
            target = beside / f"{Path(url).name}{file.removeprefix(url)}"
            target.parent.mkdir(parents=True, exist_ok=True)
            system, source = file_system(file)
            with refusing(file), system.open_input_stream(source) as data, target.open("wb") as out:
                shutil.copyfileobj(data, out, _REQUEST)
        beside.rename(place.parent)
    return place


def is_copy(path: Path) -> bool:
    """Is this a copy that :func:`fetched` made?"""
    return bool(_temporary.cache_info().currsize) and path.is_relative_to(_temporary())


@lru_cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="cdcwb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# --- writing ----------------------------------------------------------------------------------------------------------

_WITH_FOLDERS: Final = ("hdfs://", "viewfs://")  # where files are seen before they are complete, and folders are made


def upload(file: Path, url: str) -> None:
    """Writes a local file to a URL, replacing what is there. Object stores show an object when it is complete;
    elsewhere (``hdfs://``) the file is written beside its target and renamed. Raises CaptureError."""
    system, path = file_system(url)
    renames = url.startswith(_WITH_FOLDERS)
    above, _, name = path.rpartition("/")
    target = f"{above}/.{name}.part" if renames else path
    with refusing(url, "written"):
        if renames:
            system.create_dir(above, recursive=True)
        with file.open("rb") as data, system.open_output_stream(target) as out:
            shutil.copyfileobj(data, out, _REQUEST)
        if renames:
            system.move(target, path)
        found = system.get_file_info(path).size
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
