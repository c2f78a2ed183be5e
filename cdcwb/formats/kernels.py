"""Compiled loops: functions over arrays that numba compiles when they are first called.

A sequential decoder is a loop with state. Such loops are *kernels*: functions of numbers and NumPy arrays that write
into arrays. They may call other kernels, and use no Python objects. The same function also runs uncompiled, about two
hundred times slower: if only a few bytes are read (:func:`interpreted`), and everywhere with ``CDCWB_COMPILED=0`` in
the environment.

Kernels are written for both: bytes are widened when they are read (``np.int64(text[i])``), because NumPy's ``uint8``
overflows uncompiled, and indices stay inside of their arrays, because compiled code does not check them.

Compiled code is stored in the user's cache directory, by a hash of the sources of the kernel's package and of
``cdcwb.formats``: all processes, environments and checkouts with the same sources share it. What came with the package,
in its ``__pycache__``, is used instead; ``CDCWB_KERNELS=beside`` in the environment makes that.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Spans = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Int: TypeAlias = Any
"""A whole number: of Python in an interpreted kernel, of 64 bits in a compiled one."""

P = ParamSpec("P")
R = TypeVar("R")

_NEVER_COMPILED: Final = os.environ.get("CDCWB_COMPILED") == "0"
_INTERPRETED: Final = ContextVar("interpreted", default=_NEVER_COMPILED)
_MANY: Final = 1 << 16  # bytes
_HERE: Final = Path(__file__).parent


def interpreted() -> contextlib.AbstractContextManager[None]:
    """Runs kernels uncompiled inside of this context: nothing is imported or compiled for a few bytes."""
    return _running(True)


def compiled_for(size: int) -> contextlib.AbstractContextManager[None]:
    """Runs kernels compiled inside of this context if they read many bytes, wherever they are otherwise interpreted:
    then compiling costs less."""
    return _running(_INTERPRETED.get() and (size <= _MANY or _NEVER_COMPILED))


@contextlib.contextmanager
def _running(interpreted: bool) -> Iterator[None]:
    token = _INTERPRETED.set(interpreted)
    try:
        yield
    finally:
        _INTERPRETED.reset(token)


class CompiledKernel(Generic[P, R]):
    """A function decorated with :func:`kernel`. Calling it runs it, compiled or not."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = cast("FunctionType", function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function."""
        function = self.plain if _INTERPRETED.get() else self.compiled
        return cast("R", function(*args, **kwargs))

    @cached_property
    def plain(self) -> FunctionType:
        """The function, interpreted by Python."""
        return self._linked("plain")

    @cached_property
    def compiled(self) -> Any:
        """The function, compiled by numba for the types of its arguments at the first call with them."""
        from numba import njit

        dispatcher = njit(nogil=True, boundscheck=False, error_model="numpy", _nrt=False)(self._linked("compiled"))
        dispatcher._cache = _cache_class()(dispatcher.py_func)
        return dispatcher

    def _linked(self, way: str) -> FunctionType:
        """A copy of the function whose kernels are either all compiled or all interpreted."""
        function, names = self.function, self.function.__globals__
        used = {name: names[name] for name in function.__code__.co_names if isinstance(names.get(name), CompiledKernel)}
        linked = {name: getattr(one, way) for name, one in used.items() if one is not self}
        copy = FunctionType(
            function.__code__, {**names, **linked}, function.__name__, function.__defaults__, function.__closure__
        )
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        return copy


def read_only(buffer: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The same bytes, read-only and contiguous: a kernel would be compiled for each type of array."""
    view = np.ascontiguousarray(buffer).view()
    view.flags.writeable = False
    return view


def kernel(function: Callable[P, R]) -> CompiledKernel[P, R]:
    """Makes a function of numbers and arrays a kernel. It must be at the top level of its module."""
    return CompiledKernel(function)


@cache
def _stamp(package: Path) -> str:
    """A hash of the sources of a package's kernels: numba detects changes of one file only, not of imported kernels and
    constants, which may be in the parent folder."""
    sources = sorted({source for folder in (package, package.parent, _HERE) for source in folder.glob("*.py")})
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


@cache
def _folder(package: Path) -> Path:
    """The folder of the compiled kernels of a package, its time set to now."""
    beside = package / "__pycache__"
    if os.environ.get("CDCWB_KERNELS") == "beside" or any(beside.glob("*.nbi")):
        return beside
    folder = _shared() / _stamp(package)[:16]
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    return folder


def _shared() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("cdcwb") / "kernels"


def forget_unused(days: int = 30) -> None:
    """Removes compiled kernels of sources that no process has used for so many days."""
    with contextlib.suppress(OSError):
        for folder in _shared().iterdir():
            if time.time() - folder.stat().st_mtime > days * 86_400:
                shutil.rmtree(folder, ignore_errors=True)


@cache  # once in a process
def _announce() -> None:
    """A line at a terminal, so that the wait has a reason."""
    if sys.stderr.isatty():
        sys.stderr.write("cdcwb: compiling the loops of the decoders for this machine, once: about 20 s a format …\n")


@cache
def _cache_class() -> Any:
    """numba's cache of compiled functions, in :func:`_folder` and by :func:`_stamp`."""
    import numba
    from numba.core import caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def __init__(self, function: FunctionType) -> None:
            self.package = Path(function.__code__.co_filename).parent
            self.line = function.__code__.co_firstlineno

        def get_cache_path(self) -> str:
            return str(_folder(self.package))

        def get_source_stamp(self) -> str:
            return _stamp(self.package)

        def get_disambiguator(self) -> str:
            return f"{self.line}-{numba.__version__}"  # environments that share the package keep their own

        @classmethod
        def from_function(cls, function: FunctionType, _file: str) -> Any:
            return cls(function)

    class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)

    class Cache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Implementation

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """None, if the kernel has to be compiled."""
            found = None
            with contextlib.suppress(OSError):  # the folder may be that of another user
                found = super().load_overload(sig, target_context)
            if found is None:
                _announce()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            """With a read-only folder kernels are only compiled again."""
            with contextlib.suppress(OSError):
                super().save_overload(sig, data)

    return Cache
