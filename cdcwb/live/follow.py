"""``cdcwb follow``: a saved capture of topics that is kept up to date while messages are written.

    DIR/messages/         the messages, byte for byte, as ``cdcwb capture`` writes them (:mod:`cdcwb.live.recorder`)
    DIR/units/            their tables, step by step (:mod:`cdcwb.live.units`)
    DIR/generations/      saved captures: the tables of all units after a step
    DIR/follow.json       the units, and the newest generation
    DIR/status.json       the progress

Each step captures the new messages, decodes them, and updates the transactions that they share with earlier steps. A
step is complete when ``follow.json`` is replaced; a step that was interrupted before is repeated with the same files of
messages. So no message is duplicated or missing, however the process ended, and no second record of offsets is needed.

Merged steps have one file of messages for each partition (:mod:`cdcwb.formats.files`), so the number of
files, which every step plans, grows with the logarithm of the number of steps.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError, OptionError, SourceDownError
from cdcwb.formats.dissector import Assembling, Pairing, Run
from cdcwb.formats.files import extent_of, natural_key, partition_of
from cdcwb.live import EVERY, FILE_BYTES, PATIENCE
from cdcwb.live.following import messages_in
from cdcwb.live.kafka import Point, Topics
from cdcwb.live.recorder import join_files, record
from cdcwb.live.units import Renamed, Unit, Units
from cdcwb.planned import Planned
from cdcwb.saved import FOLLOWED, GENERATIONS, STATUS, is_free, write_description
from cdcwb.writing import write_text

__all__ = ["Follower", "Step"]

_MOST: Final = 200_000  # messages of one step
_SHARE: Final = 0.25  # largest share of the time for steps: long steps run less often
_AGAIN: Final = 1.0  # seconds until a cluster that does not answer is asked again
_KEPT: Final = 120.0  # seconds until a generation is removed that nobody has open
_VERSION: Final = 1
_NOT: Final = "it follows a topic: cdcwb follow continues it"

Plans = Callable[[Sequence[str], Run], Planned]
"""Plans the files of a capture."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did: the messages that it added, how many are left to be read, how many there are in all, and the
    seconds that it took."""

    messages: int
    behind: int
    all: int
    seconds: float


@dataclass
class Follower:
    """Follows topics into a folder. ``plans`` has the settings for reading the files of messages; ``about`` must be the
    same whenever the folder is continued: the format and its options as JSON."""

    topics: Topics
    folder: Path
    plans: Plans
    about: Mapping[str, Any]
    start: Point = "earliest"
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    patience: float = PATIENCE
    most: int = _MOST
    _state: dict[str, Any] = field(init=False, default_factory=dict)
    _units: Units = field(init=False, repr=False)
    _behind: int | None = field(init=False, default=None)
    _used: set[bytes] = field(init=False, default_factory=set, repr=False)
    _remembered: dict[bytes, bytes] = field(init=False, default_factory=dict, repr=False)

    def run(self, show: Callable[[Step], None], every: float = EVERY, once: bool = False) -> None:
        """Takes steps until it is interrupted, or, with ``once``, until no message is left that was there when the
        last step began. ``show`` is given every step.

        Raises SourceDownError if the cluster does not answer for ``patience`` seconds; CaptureError if the folder
        cannot be continued, or messages were deleted before they were read.
        """
        with self._held():
            heard = time.monotonic()
            while True:
                try:
                    step = self.step()
                except SourceDownError as reason:
                    self._keep_status(error=reason.sentence)
                    if time.monotonic() - heard > self.patience:
                        raise
                    time.sleep(_AGAIN)
                    continue
                heard = time.monotonic()
                show(step)
                if step.behind:
                    continue
                if once:
                    return
                time.sleep(max(every, step.seconds / _SHARE) - step.seconds)

    def step(self) -> Step:
        """Captures new messages and adds them to the tables."""
        began = time.monotonic()
        done = record(
            self.topics, self._messages, self.start, "latest", self.settings, patience=self.patience, most=self.most
        )
        known = set(self._state["files"])
        fresh = [file for path in self._messages.rglob("*.parquet") if (file := self._named(path)) not in known]
        if fresh:
            self._add(sorted(fresh, key=natural_key))
        self._keep_status(behind=done.left)
        return Step(done.messages, done.left, self._state["messages"], time.monotonic() - began)

    # --- the folder ---------------------------------------------------------------------------------------------------

    @property
    def _messages(self) -> Path:
        return self.folder / "messages"

    def _named(self, path: Path) -> str:
        return str(path.relative_to(self._messages))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Locks the folder against a second process."""
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / FOLLOWED).is_file():
            raise CaptureError("holds something else; follow the topic into an empty folder", path=str(self.folder))
        for folder in (self._messages, self.folder / "units", self.folder / GENERATIONS):
            folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CaptureError("another process follows a topic into this folder", path=str(self.folder)) from None
            self._open()
            yield

    def _open(self) -> None:
        """Reads the state of the folder. Raises CaptureError if it has other topics, another format or other
        options."""
        path = self.folder / FOLLOWED
        settings = {"topics": self.topics.pattern or ",".join(self.topics.names), **self.about}
        if not path.exists():
            self._state = {"version": _VERSION, **settings, "generation": None, "files": [], "units": [], "messages": 0}
            write_text(path, json.dumps(self._state))
        self._state = json.loads(path.read_text(encoding="utf-8"))
        if self._state["version"] != _VERSION:
            raise CaptureError(f"was written in version {self._state['version']}", path=str(path))
        for name, value in settings.items():
            if self._state[name] != value:
                raise OptionError(
                    f"{name}: the folder was begun with {self._state[name]!r}, found {value!r}; follow into another "
                    "folder",
                    path=str(self.folder),
                )
        self._units = Units(self.folder / "units", [Unit(**unit) for unit in self._state["units"]])
        self._tidy()

    def _tidy(self) -> None:
        """Removes the files of an interrupted step, and generations that no process reads."""
        self._units.tidy()
        known = set(self._state["files"])
        last: dict[str, int] = {}  # last offset in the tables, by partition
        for file in known:
            last[partition_of(file)] = max(last.get(partition_of(file), -1), (extent_of(file) or (-1, -1))[1])
        for path in self._messages.rglob("*.parquet"):
            file, extent = self._named(path), extent_of(path.name)
            if file not in known and extent and extent[0] <= last.get(partition_of(file), -1):
                path.unlink()  # its messages are in a known file
        now = time.time()
        for folder in (self.folder / GENERATIONS).iterdir():  # a process may have read follow.json just before
            is_old = folder.name != self._state["generation"] and now - folder.stat().st_mtime > _KEPT
            if is_old and is_free(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _keep_status(self, behind: int | None = None, error: str | None = None) -> None:
        """Writes the progress to the status file."""
        now = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "pid": os.getpid(), "error": error}
        self._behind = self._behind if behind is None else behind
        status = {**now, "behind": self._behind, "messages": self._state["messages"]}
        write_text(self.folder / STATUS, json.dumps(status))

    # --- a step -------------------------------------------------------------------------------------------------------

    def _add(self, fresh: list[str]) -> None:
        files = [*self._state["files"], *fresh]
        self._used = set()
        planned = self.plans([str(self._messages / file) for file in files], self._run)
        _check(planned, self.topics.url)
        pieces = _pieces(planned)
        marks = {number: [mark for _, _, mark in some] for number, some in pieces.items()}
        gone = [u for u in self._units.all if u.marks != [mark for file in u.files for mark in marks[file]]]
        wanted = [(u.files, u.steps) for u in gone]
        wanted.append((list(range(len(files) - len(fresh), len(files))), 1))
        made = []
        for numbers, steps in wanted:
            own = [piece for number in numbers for piece in pieces[number]]
            made.append(self._units.make(numbers, [mark for _, _, mark in own], _only(planned, own), steps))
        self._units.add(made, gone)
        unit = self._units.merge()
        if unit is not None:
            files, planned = self._join(unit, files)
        self._remembered = {key: u for key, u in self._remembered.items() if key in self._used}
        self._commit(files, planned)

    def _join(self, unit: Unit, files: list[str]) -> tuple[list[str], Planned]:
        """Merges the files of each partition in the last unit, up to :data:`FILE_BYTES`, so that the time of a step
        does not grow with the number of steps. Returns the new files of the capture, and their plan.

        The old files are removed when ``follow.json`` names the new ones (:meth:`_tidy`).
        """
        first = min(unit.files)
        runs: list[list[str]] = []
        for file in sorted((files[number] for number in unit.files), key=natural_key):
            same = runs and partition_of(runs[-1][0]) == partition_of(file)
            if not same or sum(map(self._size, [*runs[-1], file])) > FILE_BYTES:
                runs.append([])
            runs[-1].append(file)
        merged: dict[str, str] = {}  # the new file of each old one
        for run in runs:
            target = run[0] if len(run) == 1 else self._named(join_files([self._messages / file for file in run]))
            merged |= dict.fromkeys(run, target)
        left = [*files[:first], *dict.fromkeys(merged.values())]
        planned = self.plans([str(self._messages / file) for file in left], self._run)
        pieces, of_unit = _pieces(planned), list(range(first, len(left)))
        number = {file: at for at, file in enumerate(left)}
        paths = {str(self._messages / old): str(self._messages / new) for old, new in merged.items()}
        numbers = [number[merged.get(file, file)] for file in files]
        marks = [mark for at in of_unit for _, _, mark in pieces[at]]
        self._units.rename(unit, Renamed(paths, numbers), of_unit, marks)
        return left, planned

    def _size(self, file: str) -> int:
        return (self._messages / file).stat().st_size

    def _commit(self, files: list[str], planned: Planned) -> None:
        """Writes a new generation of the tables, and names it in ``follow.json``."""
        name = f"{int(self._state['generation'] or 0) + 1:08}"
        folder = self.folder / GENERATIONS / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._units.show(folder, planned)
        write_description(folder, planned.format.name, planned.files, planned.facts, {"not": _NOT})
        units = [unit.as_dict() for unit in self._units.all]
        messages = messages_in(planned.facts)
        self._state |= {"generation": name, "files": files, "units": units, "messages": messages}
        write_text(self.folder / FOLLOWED, json.dumps(self._state))
        self._tidy()

    def _run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Maps a function over tasks, with a cache of the results of earlier steps: files of messages do not
        change."""
        results = []
        for task in tasks:
            key = blake2b(pickle.dumps((function, task)), digest_size=16).digest()
            self._used.add(key)
            if key not in self._remembered:
                self._remembered[key] = pickle.dumps(function(task))
            results.append(pickle.loads(self._remembered[key]))
        return results


def _check(planned: Planned, url: str) -> None:
    """Raises CaptureError for a capture that cannot be assembled in parts, OptionError for invalid options."""
    form = planned.format
    if planned.mode != "PERMISSIVE" or not planned.with_images or planned.keys:
        raise OptionError("a topic is followed without the options keys, images and mode: give them to cdcwb.load")
    if isinstance(form, Assembling) or form.pairing not in (Pairing.NONE, Pairing.TRANSACTION):
        raise CaptureError(f"{form.name} is no format of topics that can be followed", path=url)


def _pieces(planned: Planned) -> dict[int, list[tuple[int, int, str]]]:
    """The pieces of each file: number of the split, index in it, and fingerprint."""
    numbers = {entry["file"]: entry["file_index"] for entry in planned.files}
    by_file: dict[int, list[tuple[int, int, str]]] = {number: [] for number in numbers.values()}
    for split, (pieces, marks) in enumerate(zip(planned.format.pieces(planned.plan), planned.marks, strict=True)):
        for at, (piece, mark) in enumerate(zip(pieces, marks, strict=True)):
            by_file[numbers[piece.files[0]]].append((split, at, mark))
    return by_file


def _only(planned: Planned, pieces: Sequence[tuple[int, int, str]]) -> Planned:
    """The capture of some pieces of its splits."""
    plan = copy.copy(planned.plan)
    plan.splits = [[planned.plan.splits[split][at]] for split, at, _ in pieces]
    some = copy.copy(planned)
    some.plan = plan
    return some
