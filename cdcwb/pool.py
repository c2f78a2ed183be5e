"""Functions run in other processes of this machine: ``run(function, inputs)``.

The processes are ``python -m cdcwb.pool``, started when they are first needed. They do not import the program that
uses them, as those of :mod:`multiprocessing` do, so a script needs no ``if __name__ == "__main__"``. An idle process
ends after a minute, and all end with the program.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from cdcwb import machine
from cdcwb.errors import CaptureError

T = TypeVar("T")

_IDLE: Final = 60  # seconds
_ENDED: Final = "a process of cdcwb that read a part of the capture has ended, perhaps because memory was short"

_waiting: list[_Worker] = []
_lock: Final = threading.Lock()
_tasks: Final = [0, 0]


def tasks() -> tuple[int, int]:
    """How many of the tasks that run have ended, and how many there are; 0 and 0 if none run."""
    return _tasks[0], _tasks[1]


def run(function: Callable[[Any], T], inputs: Sequence[Any]) -> list[T]:
    """The results of a function for all inputs, in order. The function is one of a module, or a partial of one. Raises
    what it raises."""
    return list(each(function, inputs))


def each(function: Callable[[Any], T], inputs: Sequence[Any]) -> Iterator[T]:
    """:func:`run`, with each result as soon as it and those of earlier inputs are there. What was begun is ended if the
    iterator is closed."""
    count = min(machine.cores(), len(inputs))
    if count < 2:
        yield from map(function, inputs)
        return
    _tasks[:] = [0, len(inputs)]
    idle = [_take() for _ in range(count)]
    busy = list(idle)

    def call(task: Any) -> T:
        worker = idle.pop()
        result: T = worker.call(function, task)
        idle.append(worker)  # not one that has failed
        _tasks[0] += 1
        return result

    threads = ThreadPoolExecutor(count, "cdcwb-pool")
    try:
        yield from threads.map(call, inputs)
    except BaseException:
        for worker in busy:
            worker.end()
        raise
    finally:
        _tasks[:] = [0, 0]
        threads.shutdown(cancel_futures=True)
        with _lock:
            _waiting.extend(worker for worker in idle if worker.runs)


@atexit.register
def _end_all() -> None:
    for worker in _waiting:
        worker.end()


def _take() -> _Worker:
    with _lock:
        while _waiting:
            worker = _waiting.pop()
            if worker.runs:
                return worker
            worker.end()  # it had waited too long; its pipes are open
    return _Worker()


class _Worker:
    """One of the other processes."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        path = os.pathsep.join(dict.fromkeys(folder or str(Path.cwd()) for folder in sys.path))
        self._is_new = True
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cdcwb.pool"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """Ends it, whatever it does."""
        self._process.kill()
        with suppress(OSError):
            self._process.__exit__(None, None, None)

    def call(self, function: Callable[[Any], T], task: Any) -> T:
        """The result of a function. Raises what it raises, and CaptureError if the process ends."""
        sending, receiving = self._process.stdin, self._process.stdout
        assert sending is not None
        assert receiving is not None
        is_new, self._is_new = self._is_new, False
        try:
            pickle.dump((function, task, dict(os.environ)), sending)
            sending.flush()
            is_result, result = pickle.load(receiving)
        except (OSError, EOFError):
            if is_new:
                raise CaptureError(_ENDED) from None
            self.end()  # it had waited too long
            self._start()
            return self.call(function, task)
        if not is_result:
            raise result
        return result  # type: ignore[no-any-return]


def _serve() -> None:
    """Answers calls until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program ends its processes
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no result
    while select.select([calls], [], [], _IDLE)[0]:
        try:
            function, task, environ = pickle.load(calls)
        except EOFError:
            return
        os.environ.update(environ)  # credentials may have been set since the process was started
        try:
            answer = True, function(task)
        except Exception as reason:
            answer = False, reason
        try:
            pickle.dump(answer, results)
            results.flush()
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    _serve()
