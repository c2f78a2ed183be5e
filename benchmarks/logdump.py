"""Logdump text read by the compiled loop against the same line by line, and against awk.

Two texts: one with all switches on (GHDR, DETAIL DATA, GGSTOKEN DETAIL, HEADERTOKEN DETAIL) and one with GHDR alone.
The plain way parses line by line and decodes every body to column texts, record by record; it is the
reference reader of the tests. awk prints one line for each record: either all that its header block, record
line and name say, as the reader of headers does, or only time, operation, table, length, RBA and place in its
transaction. Files are read anew in every run of the readers, as awk does.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from cdcwb.formats.goldengate.decode import Printed, Records
from cdcwb.formats.goldengate.decode.printed import boundary, scan

from benchmarks.captures import CACHE
from benchmarks.measure import in_turn
from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, Wanted
from cdcwb.formats.goldengate.layout import GUESS
from tests.goldengate_text import walk_one
from tests.reference.goldengate import value_of
from tests.reference.logdump.printed import split_text

__all__ = [
    "AWK", "AWK_SIX_FIELDS", "PLAIN", "PROMISES", "STYLES", "awk", "difference", "make_text", "measure", "run_awk",
]  # fmt: skip

PLAIN = "line by line"
AWK = "awk, a line a record"
AWK_SHORT = "awk, six fields of it"
STYLES = ("all switches", "GHDR alone")

PROMISES = {"events with images": (PLAIN, 5), "headers only": (AWK, 1)}
"""What each has to be faster than, and how many times as fast it has to be."""

_PLAIN_BYTES = 8_000_000  # of the text, for the plain reader
_SCRIPT = r"""
/^Hdr-Ind/ { ind = substr($0, 22, 3); part = substr($0, 52, 3) }
/^UndoFlag/ { undo = substr($0, 22, 3); half = substr($0, 52, 3) }
/^RecLength/ { length_ = substr($0, 14, 6); io_time = $NF }
/^IOType/ { type = substr($0, 14, 6); node = substr($0, 44, 6) }
/^TransInd/ { place = substr($0, 22, 3); format = substr($0, 52, 3) }
/^SyskeyLen/ { key = substr($0, 14, 6); incomplete = substr($0, 52, 3) }
/^AuditRBA/ { log_ = substr($0, 14, 11); at = $NF }
/^Continued/ { goes_on = substr($0, 22, 3); count = substr($0, 52, 3) }
/^[0-9][0-9][0-9][0-9]\// { time = $1 " " $2; operation = $3; size = $5; rba = $7 }
/^Name:/ {
  print time, operation, $2, size, rba, place, ind, part, undo, half, length_, io_time, type, node, format, key, \
    incomplete, log_, at, goes_on, count
}
"""
AWK_SIX_FIELDS = r"""
/^TransInd/ { place = substr($0, 23, 2) }
/^[0-9][0-9][0-9][0-9]\// { time = $1 " " $2; operation = $3; size = $5; rba = $7 }
/^Name:/ { print time, operation, $2, size, rba, place }
"""
_EPOCH_US = 210866760000000000
_FIRST_US = 1_765_000_000_000_000
_OPERATIONS = ((5, "Insert", "A"), (15, "FieldComp", "A"), (15, "FieldComp", "A"), (3, "Delete", "B"))
_TABLES = ("shop.orders", "shop.order_lines", "billing.invoices", "crm.customers")


# --- the text ---------------------------------------------------------------------------------------------------------


def make_text(count: int, style: str, seed: int = 11) -> Path:
    """A file of so many records, transactions of one to eight of them."""
    path = CACHE / f"logdump-{count}-{style.replace(' ', '-')}-{seed}.txt"
    if path.exists():
        return path
    CACHE.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    part = path.with_suffix(".part")
    rba, left, first = 1063, 0, True
    with part.open("w", encoding="ascii", newline="\n") as file:
        for number in range(count):
            if not left:
                left, first = rng.randint(1, 8), True
            left -= 1
            place = (3 if first else 2) if not left else (0 if first else 1)
            first = False
            rba += _write(file.write, rng, style == STYLES[0], number, rba, place)
    part.rename(path)
    return path


def _write(write: Callable[[str], int], rng: Random, whole: bool, number: int, rba: int, place: int) -> int:
    io_type, operation, half = rng.choice(_OPERATIONS)
    size = 1 if io_type == 3 else rng.randint(4, 8)
    cells = [_value(rng, at) for at in range(size)]
    body = b"".join(at.to_bytes(2, "little") + len(cell).to_bytes(2, "little") + cell for at, cell in enumerate(cells))
    moment = _FIRST_US + number * 1_370_011
    stamp = np.datetime64(moment, "us").item()
    time = f"{stamp:%Y/%m/%d %H:%M:%S}.{stamp.microsecond // 1000:03}.{stamp.microsecond % 1000:03}"
    log, at_log = 4000 + number // 1000, rng.randrange(1 << 30)
    tokens = (
        (0x52, "ORAROWID", b"AAAShSAAEAAA%06dAC\0\1" % (number % 1_000_000)),
        (0x4C, "LOGCSN", b"%d" % (13_328_166 + number)),
        (0x36, "TRANID", b"%d.%d.%d" % (number % 40, number % 33, 2000 + number // 33)),
    )
    ghdr = (
        bytes([0x45, 0x0C, 0, ord(half)]) + len(body).to_bytes(2, "little") + bytes([io_type, 255])
        + (moment + _EPOCH_US).to_bytes(8, "little") + at_log.to_bytes(4, "little") + bytes(4)
        + log.to_bytes(4, "little") + bytes([place, 0x52, 0, 0, 0, 1, 0, 0])
    )  # fmt: skip
    area = sum(4 + len(value) for _, _, value in tokens)
    total = 4 + (4 + len(ghdr)) + (4 + len(body)) + (4 + area) + 4
    if whole:
        write(_token(0x47, "Record Header", total) + _token(0x48, "GHDR", len(ghdr)) + _hexed(ghdr))
        write(_token(0x44, "Data", len(body)) + _token(0x54, "GGS Tokens", area))
        write(_token(0x5A, "Record Trailer", total))
    write("_" * 67 + "\n")
    write(f"""\
Hdr-Ind    :     E  (x45)     Partition  :     .  (x0c)
UndoFlag   :     .  (x00)     BeforeAfter:     {half}  (x{ord(half):02x})
RecLength  :{len(body):6}  (x{len(body):04x})   IO Time    : {time}
IOType     :{io_type:6}  (x{io_type:02x})     OrigNode   :   255  (xff)
TransInd   :     .  (x{place:02x})     FormatType :     R  (x52)
SyskeyLen  :     0  (x00)     Incomplete :     .  (x00)
AuditRBA   :{log:11}       AuditPos   : {at_log}
Continued  :     N  (x00)     RecCount   :     1  (x01)

{time} {operation:<20} Len {len(body):5} RBA {rba}
Name: {_TABLES[number % len(_TABLES)]}  (TDR Index: {number % len(_TABLES) + 1})
{"After " if half == "A" else "Before"} Image:{"":45}Partition x0c   G  {"bmes"[place]}
""")
    write(_hexed(body))
    if whole:
        for at, cell in enumerate(cells):
            write(f"Column {at} (0x{at:04x}), Length {len(cell)} (0x{len(cell):04x}).\n" + _hexed(cell))
        write("\nGGS tokens:\n")
        for code, name, value in tokens:
            write(_token(code, name, len(value)) + _hexed(value))
    write("\n")
    return total


def _value(rng: Random, at: int) -> bytes:
    if at % 3 == 0:
        return bytes(2) + rng.randrange(1 << 40).to_bytes(8, "big")
    if at % 3 == 1:
        return bytes(2) + f"20{rng.randrange(10, 30)}-0{rng.randrange(1, 10)}-1{at}:10:20:30.123456789".encode()
    text = "".join(rng.choice("abcdefghijklmnop ") for _ in range(rng.randrange(4, 60))).encode()
    return bytes(2) + len(text).to_bytes(2, "little") + text


def _token(code: int, name: str, length: int) -> str:
    return f"TokenID x{code:02x} '{chr(code)}' {name:<17}Info x00  Length {length:4}\n"


def _hexed(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 20):
        part = data[at : at + 20]
        shown = "".join(chr(code) if 0x20 <= code < 0x7F else "." for code in part)
        lines.append(f" {part.hex(' ', -2):<50}| {shown}\n")
    return "".join(lines)


# --- what is measured -------------------------------------------------------------------------------------------------


def _read(path: Path, bodies: bool) -> Records:
    return scan(np.memmap(path, np.uint8, "r"), bodies=bodies)


def _plan(path: Path) -> Any:
    form = get_format("goldengate")
    return form.plan([str(path)], {}, lambda function, tasks: [function(task) for task in tasks])


def _events(plan: Any, wanted: Wanted) -> int:
    form = get_format("goldengate")
    return sum(len(batch) for split in range(len(plan.splits)) for batch in form.read(plan, split, wanted))


def _plainly(text: bytes) -> list[tuple[Printed, dict[str, str | None]]]:
    """Every record with its columns as text, line by line and value by value."""
    out = []
    for record in split_text(text):
        image = {}
        for cell in walk_one(record.body or b"", "little") or ():
            value = (record.body or b"")[cell.start : cell.stop]
            image[f"c{cell.index}"] = None if cell.indicator == 0xFFFF else value_of(value, GUESS, "little").text
        out.append((record, image))
    return out


def difference(path: Path) -> str | None:
    """What the two readers and awk say that is not the same; None if they agree."""
    text = np.fromfile(path, np.uint8)
    head = text[: boundary(text, 1_000_000)]
    plain, found = split_text(head.tobytes()), scan(head)
    with tempfile.TemporaryDirectory() as folder:
        few = Path(folder) / "few.txt"
        few.write_bytes(head.tobytes())
        plan = _plan(few)
        batches = list(get_format("goldengate").read(plan, 0, EVERYTHING))
    images = [row["after"] or row["before"] for batch in batches for row in batch.to_pylist()]
    if [dict(image) for image in images] != [image for _, image in _plainly(head.tobytes())]:
        return "the events have other images than the plain reader"
    if len(plain) != len(found) or found.extras:
        return f"{len(plain)} records line by line, {len(found)} column-wise, {len(found.extras)} of them unusual"
    for row, record in enumerate(plain):
        first, last = found.body_at[row].tolist()
        ours = (found.start[row], found.rba[row], found.moment[row] > 0, found.bytes[first:last].tobytes())
        if ours != (record.start, record.rba, True, record.body):
            return f"record at {record.start}: {ours} is not {record}"
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "listing"
        run_awk(_SCRIPT, path, listing)
        lines = listing.read_text("ascii").splitlines()
    records = _read(path, bodies=False)
    told = [int(line.split()[5]) for line in lines]
    return None if told == records.rba.tolist() else "awk lists other records"


def awk() -> str | None:
    """The awk of this machine: mawk, which is the fastest, before the others."""
    return next(filter(None, map(shutil.which, ("mawk", "gawk", "awk"))), None)


def run_awk(script: str, path: Path, listing: Path) -> None:
    """Writes what a script prints of a file to ``listing``. Raises SystemExit without awk."""
    program = awk()
    if program is None:
        raise SystemExit("no awk was found")
    with listing.open("wb") as out:
        subprocess.run([program, script, str(path)], stdout=out, check=True, env={**os.environ, "LC_ALL": "C"})


def _awk_seconds(script: str, path: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_awk(script, path, Path(os.devnull))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(path: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of processor time for the whole text by way of reading; :data:`PLAIN` is reckoned from a part of it."""
    text = np.fromfile(path, np.uint8)
    part = text[: boundary(text, min(_PLAIN_BYTES, text.size))].tobytes()
    plan = _plan(path)
    works = {
        "headers only": lambda: len(_read(path, bodies=False)),
        "with bytes of bodies": lambda: len(_read(path, bodies=True)),
        "events without images": lambda: _events(plan, Wanted(images=False)),
        "events with images": lambda: _events(plan, EVERYTHING),
        PLAIN: lambda: len(_plainly(part)),
    }
    scripts = {AWK: _SCRIPT, AWK_SHORT: AWK_SIX_FIELDS}
    taken: dict[str, list[float]] = {name: [] for name in (*works, *scripts)}
    for script in scripts.values():
        _awk_seconds(script, path)
    for _ in range(rounds):
        for name, seconds in in_turn(works, 1).items():
            taken[name] += seconds
        for name, script in scripts.items():
            taken[name].append(_awk_seconds(script, path))
    taken[PLAIN] = [seconds * text.size / len(part) for seconds in taken[PLAIN]]
    return taken
