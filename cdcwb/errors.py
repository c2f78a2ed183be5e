"""The exceptions of cdcwb.

    CaptureError                    anything that makes a capture, an option or an argument unusable
    ├── UnknownFormatError          no format recognises the capture, or the format's name is not known
    ├── OptionError                 an option is unknown or its value unusable (names the nearest match)
    ├── MalformedRecordError        a record cannot be understood and the mode is FAILFAST
    │   └── TruncatedRecordError    the bytes end inside a record (also an EOFError)
    ├── ChangedFileError             a file became shorter while it was read
    ├── SourceDownError             a live source does not answer; the next run may succeed
    └── MissingDependencyError      something is missing (Java, Chromium, a client); the message names the package

All of them pickle, so they can be sent from a worker process. A known location is in the attributes ``path`` (file),
``offset`` (bytes into the decompressed file), ``needed`` and ``available`` (bytes).
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CaptureError",
    "ChangedFileError",
    "MalformedRecordError",
    "MissingDependencyError",
    "OptionError",
    "SourceDownError",
    "TruncatedRecordError",
    "UnknownFormatError",
]


class CaptureError(Exception):
    """A capture, an option or an argument cannot be used; the message is one sentence for the user.

    ``path``, ``offset`` (bytes), ``needed`` and ``available`` (bytes) are None if they do not apply. ``advice`` has
    lines for the user to copy.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        needed: int | None = None,
        available: int | None = None,
        advice: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.needed = needed
        self.available = available
        self.advice = advice

    @property
    def sentence(self) -> str:
        """The message with its location, without the advice."""
        location = ""
        if self.path is not None:
            location = self.path if self.offset is None else f"{self.path} at offset {self.offset}"
        elif self.offset is not None:
            location = f"offset {self.offset}"
        text = f"{location}: {self.message}" if location else self.message
        if self.needed is not None and self.available is not None:
            text += f" (needed {self.needed} bytes, {self.available} are there)"
        return text

    def __str__(self) -> str:
        return "\n".join((self.sentence, *self.advice))

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows instead of a stack trace: the sentence and the advice, in which the control
        characters of captured text are escaped."""
        lines = (f"{type(self).__name__}: {self.sentence}", *self.advice)
        return ["".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line) for line in lines]

    def __reduce__(self) -> tuple[object, ...]:
        about = {name: getattr(self, name) for name in ("path", "offset", "needed", "available", "advice")}
        return _rebuild, (type(self), self.message, about)


def _rebuild(kind: type[CaptureError], message: str, about: dict[str, Any]) -> CaptureError:
    return kind(message, **about)


class UnknownFormatError(CaptureError):
    """No format recognises the capture, or the format's name is not known."""


class OptionError(CaptureError):
    """An option is unknown, or its value cannot be used."""


class MalformedRecordError(CaptureError):
    """A record cannot be understood, and the mode is FAILFAST."""


class TruncatedRecordError(MalformedRecordError, EOFError):
    """The bytes end inside a record."""


class ChangedFileError(CaptureError):
    """A file became shorter while it was read."""


class SourceDownError(CaptureError):
    """A live source does not answer; the request itself is valid."""


class MissingDependencyError(CaptureError):
    """A package that pip or a package manager installs is missing; the message names it."""
