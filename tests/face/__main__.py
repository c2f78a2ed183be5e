"""Writes what users see now to ``tests/face/expected``; ``git diff`` shows what changed.

Arguments: names of files there, without ``.json``; none: all."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.face.cases import CASES, IN_DATA
from tests.face.commands import COMMANDS, commands_of
from tests.face.face import EXPECTED, answers_of, face_of, reports_of
from tests.face.options import USES, uses_of
from tests.quick_spark import one_compiler, quick_session

FACES: dict[str, tuple[Any, Callable[[Any, Path], Any]]] = {name: (case, face_of) for name, case in CASES.items()}
FACES |= {f"{name}-answers": (CASES[name], answers_of) for name in IN_DATA}
FACES |= {f"{name}-reports": (CASES[name], reports_of) for name in IN_DATA}
FACES |= {"options": (USES, uses_of), "commands": (COMMANDS, commands_of)}


def main(names: list[str]) -> None:
    """Writes the faces with these names."""
    one_compiler()
    quick_session()
    for name in names or FACES:
        case, made = FACES[name]
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(made(case, Path(folder)), indent=1, ensure_ascii=False)
        (EXPECTED / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text):,} characters\n")
        sys.stdout.flush()


main(sys.argv[1:])
