"""An index is never read from a capture, and one of the cache that was damaged is built again: never a signal, and
never another answer."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cdcwb.cli.app import main
from cdcwb.explore import explore

DATA = Path(__file__).parents[2] / "data"
FILTERS = ('operation == "UPDATE"', 'table == "shop.customer" and outcome == "committed"', 'after.state == "PAID"')


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capture") / "saved"
    assert (
        main(["save", str(DATA / "gbase8s"), "--to", str(folder), "-o", f"labels={DATA / 'gbase8s.labels.json'}"]) == 0
    )
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "index"


def answers(path: Path) -> list[object]:
    """What the explorer shows of a capture."""
    explorer = explore(path).explorer
    shown: list[object] = [explorer.index.records, explorer.page(700, 3), explorer.detail()["values"]]
    for line in FILTERS:
        explorer.apply(line)
        explorer.advance()
        shown.append((line, explorer.shown, explorer.page(0, 2)))
    return shown


@pytest.fixture(scope="module")
def expected(capture: Path) -> list[object]:
    return answers(capture)


Damage = Callable[[Path, random.Random], None]


def cut(at: Callable[[int], int]) -> Damage:
    def damage(file: Path, _random: random.Random) -> None:
        file.write_bytes(file.read_bytes()[: at(file.stat().st_size)])

    return damage


def negative(file: Path, _random: random.Random) -> None:
    """Every 4 bytes that are a small number, as offsets are, become negative."""
    data = bytearray(file.read_bytes())
    for at in range(0, len(data) - 3, 4):
        if data[at + 3] == 0:
            data[at + 3] = 0xFF
    file.write_bytes(data)


def flip(file: Path, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def folder(file: Path, _random: random.Random) -> None:
    file.unlink()
    file.mkdir()
    (file / "something").write_text("else")


def link(file: Path, _random: random.Random) -> None:
    target = file.with_name("elsewhere")
    file.rename(target)
    target.write_bytes(target.read_bytes()[:-9])
    file.symlink_to(target)


def pipe(file: Path, _random: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGES: dict[str, Damage] = {
    "emptied": cut(lambda _: 0),
    "one byte": cut(lambda _: 1),
    "eight bytes": cut(lambda _: 8),
    "half": cut(lambda size: size // 2),
    "all but a page": cut(lambda size: size - 4096),
    "all but a byte": cut(lambda size: size - 1),
    "deleted": lambda file, _: file.unlink(),
    "a folder": folder,
    "a link": link,
    "a pipe": pipe,
    "random bytes": lambda file, chance: file.write_bytes(chance.randbytes(file.stat().st_size)) and None,
    "zeros": lambda file, _: file.write_bytes(bytes(file.stat().st_size)) and None,
    "negative offsets": negative,
    "a byte more": lambda file, _: file.write_bytes(file.read_bytes() + b"\0") and None,
    "not readable": lambda file, _: file.chmod(0),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_index_is_built_again(name: str, capture: Path, cache: Path, expected: list[object]) -> None:
    assert answers(capture) == expected
    files = sorted(cache.iterdir())
    assert len(files) == 2  # of records and of changes
    for file in files:
        DAMAGES[name](file, random.Random(1))
    assert answers(capture) == expected
    assert answers(capture) == expected  # from what was built again


def test_a_flipped_bit_is_found_wherever_it_is(capture: Path, cache: Path, expected: list[object]) -> None:
    assert answers(capture) == expected
    chance = random.Random(2)
    for _ in range(12):
        for file in cache.iterdir():
            flip(file, chance)
        assert answers(capture) == expected


def test_the_index_of_another_capture_is_not_used(
    capture: Path, cache: Path, expected: list[object], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    assert main(["save", str(DATA / "qlik-kafka"), "--to", str(other)]) == 0
    assert answers(capture) == expected
    own = {file.name.partition(".")[2]: file for file in cache.iterdir()}
    explorer = explore(other).explorer
    explorer.apply('outcome == "committed"')
    for file in set(cache.iterdir()) - set(own.values()):
        shutil.copy(file, own[file.name.partition(".")[2]])
    assert answers(capture) == expected
    first, second = own.values()  # and its files in each other's place
    content = first.read_bytes()
    shutil.copy(second, first)
    second.write_bytes(content)
    assert answers(capture) == expected


def test_an_index_in_a_capture_is_not_read_and_none_is_written_there(
    capture: Path, cache: Path, expected: list[object], tmp_path: Path
) -> None:
    forged = Path(shutil.copytree(capture, tmp_path / "forged"))
    for name in ("explorer", "explorer-changes", "explorer-events"):
        (forged / name).mkdir()
        for file in ("numbers.arrow", "changes.arrow", "text-kind.arrow", "index.json", "about.json"):
            (forged / name / file).write_bytes(random.Random(3).randbytes(5000))
    before = {path: path.stat().st_mtime_ns for path in forged.rglob("*")}
    assert answers(forged) == expected
    assert {path: path.stat().st_mtime_ns for path in forged.rglob("*")} == before


def test_the_index_of_files_is_in_the_cache_and_built_again_when_damaged(cache: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    explorer = explore(DATA / "idm-event-log", folder=notes).explorer
    expected = explorer.page(10, 20)
    assert list(notes.iterdir()) == []
    (file,) = cache.iterdir()
    flip(file, random.Random(4))
    assert explore(DATA / "idm-event-log", folder=notes).explorer.page(10, 20) == expected


def test_the_cache_is_for_its_user_only(capture: Path, cache: Path, expected: list[object]) -> None:
    cache.mkdir(parents=True, mode=0o777)
    cache.chmod(0o777)
    assert answers(capture) == expected
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in cache.iterdir()} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("what", ["the directory", "its folder", "a file"])
def test_a_cache_of_another_user_is_not_used(what: str, capture: Path, cache: Path, expected: list[object]) -> None:
    assert answers(capture) == expected
    files = sorted(cache.iterdir())
    changed = {"the directory": [cache.parent], "its folder": [cache], "a file": files}[what]
    before = [file.stat().st_ino for file in files]
    for path in changed:
        os.chown(path, 12345, 12345)
    assert answers(capture) == expected
    assert ([file.stat().st_ino for file in files] == before) == (what != "a file")


@pytest.mark.parametrize("what", ["a file", "a link", "a file in the way of the directory"])
def test_a_cache_that_cannot_be_used_is_done_without(
    what: str, capture: Path, cache: Path, expected: list[object], tmp_path: Path
) -> None:
    if what == "a file in the way of the directory":
        cache.parent.write_text("")
    else:
        cache.parent.mkdir()
        if what == "a file":
            cache.write_text("")
        else:
            (tmp_path / "elsewhere").mkdir()
            cache.symlink_to(tmp_path / "elsewhere")
    assert answers(capture) == expected
    assert what != "a link" or list((tmp_path / "elsewhere").iterdir()) == []


USES = """
import sys
from pathlib import Path
from cdcwb.explore import explore
from cdcwb.index import store
store.MOST_BYTES = int(sys.argv[2])
seen = set()
for step in range(int(sys.argv[3])):
    explorer = explore(sys.argv[1]).explorer
    explorer.apply('table == "shop.customer" and outcome == "committed"')
    seen.add((explorer.index.records, explorer.shown, str(explorer.page(0, 50)), str(explorer.detail()["values"])))
    for file in Path(sys.argv[4]).glob("*") if step % 3 == 0 else ():
        file.unlink(missing_ok=True)
print(len(seen), sorted(seen))
"""


def test_processes_that_build_use_and_evict_one_index_give_one_answer(capture: Path, cache: Path) -> None:
    def start(most: int) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", USES, str(capture), str(most), "12", str(cache)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    processes = [start(10**10), start(1)]  # the second one evicts whatever is not its own
    ended = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for _, _, code in ended] == [0, 0], ended
    assert ended[0][0] == ended[1][0]
    assert ended[0][0].startswith("1 ")
