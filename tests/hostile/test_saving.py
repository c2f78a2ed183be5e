"""``cdcwb save`` deletes nothing that it did not write: a saved capture appears whole or not at all, and is private as
far as the umask says."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcwb.cli import main
from cdcwb.writing import folder_beside
from cdcwb_synth import generate

Moments = Callable[[Callable[[str], None]], None]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saving") / "made"
    return generate("gbase8s", changes=5, seed=1, to=folder, all_types=False) / "capture"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saving") / "other"
    return generate("gbase8s", changes=9, seed=2, to=folder, all_types=False) / "capture"


_callback: list[Callable[[str], None]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _callback and event == "open" and isinstance(arguments[0], str) and "w" in str(arguments[1]):
        _callback[0](arguments[0])


sys.addaudithook(_hook)  # it cannot be taken away again


@pytest.fixture
def when_described() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Calls a function once, at the moment when a save writes the description, its last file."""

    def set_callback(function: Callable[[], None]) -> None:
        def once(path: str) -> None:
            if path.endswith("cdcwb.json"):
                _callback.clear()
                function()

        _callback[:] = [once]

    yield set_callback
    _callback.clear()


def save(capture: Path, to: Path, *more: str) -> int:
    return main(["save", str(capture), "--to", str(to), *more])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _folder(at: Path) -> None:
    at.mkdir()
    (at / "notes.txt").write_text("mine")


def _link(at: Path) -> None:
    at.symlink_to("elsewhere")


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["new", "overwrite"])
@pytest.mark.parametrize("make", [_folder, Path.touch, _link], ids=["folder", "file", "link"])
def test_what_somebody_creates_at_the_target_during_a_save_stays(
    make: Callable[[Path], None],
    overwrite: tuple[str, ...],
    capture: Path,
    tmp_path: Path,
    when_described: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "saved"
    when_described(lambda: make(target))
    assert save(capture, target, *overwrite) == 2
    error = capsys.readouterr().err
    assert str(target) in error
    assert "not overwritten" in error
    assert names(tmp_path) == ["saved"]
    assert not (target / "cdcwb.json").exists()
    if make is _folder:
        assert (target / "notes.txt").read_text() == "mine"


def test_a_capture_that_somebody_puts_in_place_of_the_one_to_be_replaced_stays(
    capture: Path, tmp_path: Path, when_described: Callable[[Callable[[], None]], None]
) -> None:
    target = tmp_path / "saved"
    assert save(capture, target) == 0

    def swap() -> None:
        target.rename(tmp_path / "moved")
        _folder(target)

    when_described(swap)
    assert save(capture, target, "--overwrite") == 2
    assert (target / "notes.txt").read_text() == "mine"
    assert names(tmp_path) == ["moved", "saved"]


def test_an_empty_folder_is_filled_and_a_link_leads_to_the_new_capture(
    capture: Path, other: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert save(capture, tmp_path / "link") == 0
    assert save(other, tmp_path / "link", "--overwrite") == 0
    assert (tmp_path / "link").is_symlink()
    assert str(other) in (tmp_path / "real" / "cdcwb.json").read_text()
    assert names(tmp_path) == ["link", "real"]


def test_a_link_to_itself_is_not_replaced(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "loop"
    target.symlink_to(target)
    assert save(capture, target) == 2
    assert "already exists; not overwritten" in capsys.readouterr().err
    assert names(tmp_path) == ["loop"]


def test_of_three_saves_at_once_exactly_one_succeeds(
    capture: Path, tmp_path: Path, when_described: Callable[[Callable[[], None]], None]
) -> None:
    """All three are ready at the same moment: no one has written to the target yet."""
    target, codes, ready = tmp_path / "saved", list[int](), threading.Barrier(3)
    _callback[:] = [lambda path: ready.wait(30) if path.endswith("cdcwb.json") else None]  # type: ignore[func-returns-value]
    threads = [threading.Thread(target=lambda: codes.append(save(capture, target))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 2, 2]
    assert names(tmp_path) == ["saved"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from cdcwb.cli import main
from cdcwb.explore import explore
capture, target = sys.argv[1:]
DEEDS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.dlsym")
sys.stdout = sys.stderr = open(os.devnull, "w")
main(["save", capture, "--to", target + "-first"])  # imports everything

def killed_at(moment):
    child = os.fork()
    if child == 0:
        left = moment
        def hook(event, arguments):
            nonlocal left
            if event in DEEDS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        os._exit(main(["save", capture, "--to", target, "--overwrite"]))
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)

moment, lost = 1, []
while killed_at(moment):
    if not Path(target, "cdcwb.json").is_file() or len(list(Path(target).glob("*/*.parquet"))) != 6:
        lost.append(moment)
        break
    moment += 1
sys.__stdout__.write(f"{moment} {lost}")
"""


def test_an_overwriting_save_that_is_killed_leaves_the_old_or_the_new_capture(
    capture: Path, other: Path, tmp_path: Path
) -> None:
    target = tmp_path / "saved"
    assert save(other, target) == 0
    run = subprocess.run(
        [sys.executable, "-c", _KILLED, str(capture), str(target)], capture_output=True, text=True, check=True
    )
    moments, lost = run.stdout.split(" ", 1)
    assert int(moments) > 20, "the save was killed at that many moments"
    assert lost == "[]"
    assert names(tmp_path) == ["saved", "saved-first"]  # the last save removed what others had left


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002], ids=oct)
def test_a_saved_capture_has_the_permissions_of_the_umask(mask: int, capture: Path, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        assert save(capture, tmp_path / "saved") == 0
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "saved", *(tmp_path / "saved").rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o777 & ~mask}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o666 & ~mask}


_MARKING = """
import sys
from cdcwb.explore import explore
explorer = explore(sys.argv[1]).explorer
explorer.apply("record >= 1")
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    explorer.choose(number)
    explorer.mark(f"note {number}")
    if number % 5 == 0:
        explorer.save_filter(f"filter {number}")
"""


def test_bookmarks_of_two_processes_are_all_kept(tmp_path: Path) -> None:
    made = generate("gbase8s", changes=120, seed=1, to=tmp_path / "made", all_types=False) / "capture"
    target = tmp_path / "saved"
    assert save(made, target) == 0
    ranges = [("0", "50"), ("50", "100")]
    runs = [subprocess.Popen([sys.executable, "-c", _MARKING, str(target), *some]) for some in ranges]
    assert [run.wait() for run in runs] == [0, 0]
    assert len(json.loads((target / "marks.json").read_text())["marks"]) == 100
    assert len(json.loads((target / "filters.json").read_text())["filters"]) == 20


_KILLED_AT_RENAMING = """
import os, signal, sys
from cdcwb.cli import main

def hook(event, arguments):
    if event == "os.rename" and ".cdcwb-" in str(arguments[0]):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (["export", "--view", "changes"], "changes.jsonl"),
        (["export", "--view", "changes"], "changes.parquet"),
        (["xds", "-o", "keys=101:customer_id"], "documents"),
    ],
)
def test_what_a_killed_command_left_is_removed_by_the_next_one_but_not_what_a_running_one_has(
    command: list[str], target: str, capture: Path, tmp_path: Path
) -> None:
    arguments = [*command, str(capture), "--to", str(tmp_path / target)]
    killed = subprocess.run([sys.executable, "-c", _KILLED_AT_RENAMING, *arguments], check=False)
    assert (killed.returncode, len(names(tmp_path))) == (-signal.SIGKILL, 1)
    assert not [path for path in tmp_path.rglob("*.*") if path.suffix in (".jsonl", ".parquet")]
    with folder_beside(tmp_path / target) as running, folder_beside(tmp_path / "other") as other:
        assert main(arguments) == 0
        assert names(tmp_path) == sorted([running.name, other.name, target])
