"""The captures in data/ are small, made by the script that is said to make them, and are what their README says."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def content(folder: Path) -> dict[str, bytes]:
    made = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "README.md")
    return {str(p.relative_to(folder)): p.read_bytes() for p in made}


def test_the_script_makes_the_captures_byte_for_byte(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "make_data.py", "--to", tmp_path], check=True, cwd=ROOT)
    assert content(tmp_path) == content(DATA)


def test_the_captures_are_small() -> None:
    assert sum(map(len, content(DATA).values())) < 300_000


def test_the_readme_says_what_is_there() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    data = b"".join((DATA / "gbase8s" / f"stream-{number}.bin").read_bytes() for number in (1, 2, 3))
    counts: Counter[int] = Counter()
    noise = at = 0
    while at < len(data):
        header, payload, scheme, number = struct.unpack_from(">4I", data, at)
        if scheme != 66:
            at, noise = at + 1, noise + 1
            continue
        counts[number] += 1
        at += header + payload
    assert at == len(data)
    assert f"{counts.total():,} records" in readme
    assert f"{round(len(data) / 1000)} kB" in readme
    changes = counts[40] + counts[41] + counts[43] + counts[119]
    assert (
        f"{changes}: {counts[40]} inserts, {counts[43]} updates, {counts[41]} deletes, {counts[119]} truncate" in readme
    )
    ended = f"{counts[2]} committed, {counts[3]} rolled back, {counts[1] - counts[2] - counts[3]} without an end"
    assert re.search(rf"{counts[1]}, up to .*{ended}", readme)
    assert f"by {counts[62]} rollbacks to a savepoint" in readme
    assert f"{noise} bytes of noise" in readme
    labels = json.loads((DATA / "gbase8s.labels.json").read_text(encoding="utf-8"))
    assert all(name.removeprefix("shop.") in readme for name in labels.values())
    assert counts[200] == 7
    assert counts[201] == 2
    assert counts[202] == 1
