"""Files and folders that are written atomically, and temporary folders that end with the process.

What is written is made in a folder of its own next to its target and renamed when it is complete. The permissions are
those of the umask. A write that fails is a CaptureError that names the target.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from platformdirs import user_cache_path

from cdcwb.errors import CaptureError

_OF_JVM: Final = re.compile(
    "No space left on device|Disk quota exceeded|File too large|Read-only file system|Permission denied"
)
_OCCUPIED: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_TRIES: Final = 20
_PAUSE: Final = 0.1  # seconds


@contextmanager
def naming(target: Path) -> Iterator[None]:
    """Raises CaptureError that names ``target`` where the block, which writes it or something next to it or below it,
    cannot write; Spark's exceptions too. Other errors are unchanged."""
    try:
        yield
    except OSError as error:
        named = error.filename
        is_other = isinstance(named, (str, bytes)) and not Path(os.fsdecode(named)).is_relative_to(target.parent)
        if error.errno is None or is_other:
            raise
        raise CaptureError(f"cannot be written ({os.strerror(error.errno)})", path=str(target)) from None
    except Exception as error:
        found = _OF_JVM.search(str(error)) if type(error).__module__.startswith(("pyspark", "py4j")) else None
        if found is None:
            raise
        raise CaptureError(f"cannot be written ({found[0]})", path=str(target)) from None


@contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """A new folder next to ``target``, which is removed at the end of the block. Those that killed processes left for
    the same target are removed first, if locks show that no process has them."""
    begin = f".cdcwb-{crc32(os.fsencode(target.name)):08x}-"
    with ExitStack() as held:
        has_lock = False
        for _ in range(_TRIES):  # another process may take a new folder for a left one
            folder = target.with_name(f"{begin}{secrets.token_hex(4)}.part")
            folder.mkdir()
            held.callback(remove, folder)
            try:
                has_lock = held.enter_context(try_lock(folder))
            except OSError:  # where there are no locks, nothing else is removed
                break
            if has_lock:
                break
        for left in target.parent.glob(f"{begin}*.part") if has_lock else ():
            with suppress(OSError), try_lock(left) as is_left:  # it may be another user's
                if is_left:
                    remove(left)
        yield folder


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """The path at which the block makes a file that replaces ``target`` if the block succeeds. Raises CaptureError if
    it cannot be written."""
    with naming(target), folder_beside(target) as folder:
        part = folder / "part"  # not under its suffix: whoever looks for complete files with that must not find it
        yield part
        handle = os.open(part, os.O_RDONLY)
        try:
            os.fsync(handle)  # so that a power failure leaves no partial file
        finally:
            os.close(handle)
        part.replace(target)


def write_text(target: Path, text: str) -> None:
    """Writes a file, and the folders above it, in UTF-8. Raises CaptureError if it cannot be written."""
    with naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with written(target) as part, part.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


# --- renaming ---------------------------------------------------------------------------------------------------------


def put(made: Path, target: Path) -> None:
    """Renames a folder to ``target``, where nothing may be but an empty folder. Raises FileExistsError."""
    try:
        made.rename(target)
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        raise


def exchange(one: Path, other: Path) -> None:
    """Exchanges the names of two folders at once, by renameat2 of Linux or renamex_np of macOS. Raises CaptureError
    where the file system cannot."""
    libc, ends = ctypes.CDLL(None, use_errno=True), (os.fsencode(one), os.fsencode(other))
    try:
        if sys.platform == "darwin":
            failed = libc.renamex_np(*ends, 2)  # RENAME_SWAP
        else:
            failed = libc.renameat2(-100, ends[0], -100, ends[1], 2)  # AT_FDCWD, RENAME_EXCHANGE
    except AttributeError:  # an older system
        failed, code = True, errno.ENOSYS
    else:
        code = ctypes.get_errno()
    if failed:
        sentence = f"cannot be replaced at once here ({os.strerror(code)}); write to a new folder, and remove this one"
        raise CaptureError(sentence, path=str(other))


# --- locks ------------------------------------------------------------------------------------------------------------


@contextmanager
def try_lock(folder: Path) -> Iterator[bool]:
    """Whether this process has the lock of a folder, which it holds during the block; False if another process has it,
    or the folder is gone. Raises OSError where there are no locks."""
    has_lock = False
    with ExitStack() as held:
        with suppress(BlockingIOError, FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            has_lock = os.path.samestat(os.fstat(handle), folder.lstat())
        yield has_lock


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Waits for the lock of a folder and holds it; on file systems without locks it does nothing."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# --- temporary folders ------------------------------------------------------------------------------------------------


def scratch(owner: object, prefix: str) -> Path:
    """A temporary folder that is removed with ``owner``, at the latest at the end of the process."""
    folder, process = Path(tempfile.mkdtemp(prefix=prefix)), os.getpid()
    weakref.finalize(owner, lambda: remove(folder) if os.getpid() == process else None)  # not by a forked one
    return folder


def user_cache(name: str) -> Path:
    """A folder of the user's cache directory, or of the directory that ``CDCWB_CACHE`` names."""
    configured = os.environ.get("CDCWB_CACHE")
    return (Path(configured).expanduser() if configured else user_cache_path("cdcwb")) / name


def remove(path: Path) -> None:
    """Removes a file or a folder if it is there, also where Spark's tasks of an interrupted job still write to it."""
    for _ in range(_TRIES):
        with suppress(OSError):
            if not path.is_dir() or path.is_symlink():
                path.unlink(missing_ok=True)
                return
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE)
