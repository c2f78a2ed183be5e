"""The promises of the house that can be read off the source: imports run one way, and some things are never used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from cdcwb.capture import ABOVE
from cdcwb.formats import FORMATS

ROOT = Path(__file__).parents[2]
SYNTH = ROOT / "cdcwb_synth"
MODULES = sorted([*(ROOT / "cdcwb").rglob("*.py"), *SYNTH.rglob("*.py")])

# From the outside in: a module may import from its own room and from the layers below, never from a neighbour in the
# same layer and never upwards.
LAYERS = (
    ("cli",),
    ("views",),
    ("report", "explore"),
    ("analysis",),
    ("charts", "xds"),
    ("saving", "testing"),
    ("index",),
    ("__init__",),  # cdcwb itself, the public face
    ("capture",),
    ("opening", "filtering"),
    ("tables",),
    ("local_tables",),
    ("stored", "filters"),
    ("spark", "live"),
    ("spark_rows",),
    ("dataset",),
    ("formats",),
    ("model",),
    ("pool", "times", "writing"),
    ("errors", "machine"),
    ("words",),
)
# Exports of a trail: their tables may be defined by DEFGEN files, as those of Logdump text are.
BORROWED = {"goldengate_export": {"goldengate"}}
# Types of layers above that are named where nothing is imported of them when a module runs.
TYPES = {"cdcwb.capture": {"views", "index"}}
# Beside the layers: what reads nothing of a capture. cdcwb_synth writes captures and their truth, and imports nothing
# of what reads them.
BESIDE = {"doctor": {"machine", "errors"}, "cdcwb_synth": set()}


def place(module: str) -> str:
    """The room a module is in: the name after ``cdcwb``, or the package beside it."""
    parts = module.split(".")
    if parts[0] != "cdcwb":
        return parts[0]
    return parts[1] if len(parts) > 1 else "__init__"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The syntax tree of a module."""
    return tuple(ast.walk(ast.parse(path.read_bytes())))


ROOMS = {entry.stem for entry in (ROOT / "cdcwb").iterdir()}
NAMES = {name_of(path) for path in MODULES}


def names_in(node: ast.AST) -> list[str]:
    """The modules of cdcwb that an import statement imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module == "cdcwb":
        names = [f"cdcwb.{alias.name}" if alias.name in ROOMS else "cdcwb" for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        below = [alias.name for alias in node.names if f"{module}.{alias.name}" in NAMES]
        names = [f"{module}.{name}" for name in below] or [module]
    else:
        names = []
    return [name for name in names if name.partition(".")[0] in ("cdcwb", "cdcwb_synth")]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules of cdcwb that a file imports, in functions and for its types too."""
    return tuple(name for node in nodes(path) for name in names_in(node))


def at_once(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Modules of cdcwb that are imported as soon as a file is."""
    for node in statements:
        yield from names_in(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from at_once([*node.body, *node.orelse])
        elif isinstance(node, (ast.ClassDef, ast.Try)):
            yield from at_once(node.body)


def allowed(room: str) -> set[str]:
    """The rooms that modules of a room may import from."""
    if room in BESIDE:
        return {room} | BESIDE[room]
    (depth,) = (number for number, layer in enumerate(LAYERS) if room in layer)
    below = {name for layer in LAYERS[depth + 1 :] for name in layer}
    return {room} | below | (set(BESIDE) if room == "cli" else set())


def test_imports_run_one_way() -> None:
    wrong = {}
    for path in MODULES:
        known = allowed(place(name_of(path))) | TYPES.get(name_of(path), set())
        wrong[name_of(path)] = sorted(name for name in imports(path) if place(name) not in known)
    assert {name: used for name, used in wrong.items() if used} == {}


def test_what_a_layer_above_has_is_only_named() -> None:
    for path in MODULES:
        upwards = TYPES.get(name_of(path), set())
        tree = ast.parse(path.read_bytes())
        run = {
            id(node) for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for node in function.body
        }
        in_functions = {name for node in ast.walk(tree) if id(node) in run for name in names_in(node)}
        assert {place(name) for name in {*at_once(tree.body)} | in_functions} & upwards == set(), name_of(path)


def test_modules_above_are_found_by_one_table() -> None:
    """Methods of a capture that need a layer above find it when they are called: by ``ABOVE`` in ``cdcwb.capture``."""
    assert {place(module) for module in ABOVE.values()} == {"analysis", "saving", "views"}
    assert {*ABOVE.values()} <= NAMES
    finders = {name_of(path) for path in MODULES if "import_module(" in path.read_text(encoding="utf-8")}
    assert finders == {"cdcwb.capture"}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {}
    for path in MODULES:
        used = {*at_once(ast.parse(path.read_bytes()).body)}
        graph[name_of(path)] = {name for name in used if name in NAMES and name != name_of(path)}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


FORMAT_ROOMS = {entry.module.split(".")[2] for entry in FORMATS.values()}


def test_formats_do_not_import_each_other() -> None:
    """What two formats need stands beside them, in ``cdcwb.formats`` itself; nothing there knows a format."""
    wrong = []
    for path in sorted((ROOT / "cdcwb" / "formats").rglob("*.py")):
        room = [*name_of(path).split("."), ""][2]
        refused = FORMAT_ROOMS - {room} - BORROWED.get(room, set())
        used = [name for name in imports(path) if name.startswith("cdcwb.formats.")]
        wrong += [f"{name_of(path)}: {name}" for name in used if name.split(".")[2] in refused]
    assert wrong == []


def test_what_all_formats_share_names_none() -> None:
    """Formats are found by their entry points: the engine, Spark, the index and containers know no name of one."""
    small = {name.replace("-", "_") for name in FORMATS}  # a format may be one module
    shared = [path for path in (ROOT / "cdcwb" / "formats").glob("*.py") if path.stem not in small]
    for room in ("formats/containers", "formats/arrays", "spark", "index"):
        shared += (ROOT / "cdcwb" / room).glob("*.py")
    wrong = []
    for path in shared:
        texts = {node.value for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        wrong += [f"{name_of(path)}: {name}" for name in FORMATS if name in texts]
    assert wrong == []


def test_formats_that_are_written_do_not_import_each_other() -> None:
    rooms = {path.name for path in SYNTH.iterdir() if (path / "__init__.py").exists()}
    for room in rooms:
        used = {name for path in (SYNTH / room).glob("*.py") for name in imports(path)}
        of_synth = {name.split(".")[1] for name in used if name.startswith("cdcwb_synth.")}
        assert of_synth & (rooms - {room}) == set(), room


@pytest.mark.parametrize("module", ["cdcwb", "cdcwb.cli", "cdcwb.doctor", "cdcwb.formats", "cdcwb.spark.session"])
def test_importing_does_not_load_spark(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_to_identify_a_file_loads_neither_pandas_nor_a_compiler() -> None:
    code = "import sys; from cdcwb.formats import identify; print(identify(sys.argv[1]).format)\n"
    code += "sys.exit(bool({'pandas', 'numba'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, str(ROOT / "data" / "gbase8s" / "stream-1.bin")]
    found = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "gbase8s\n")


def test_spark_is_used_by_its_dataframe_interface_alone() -> None:
    """No RDD, no JVM objects, no caching: the same code has to run on Spark Connect, and at any size."""
    for path in MODULES:
        used = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        assert used & {"rdd", "_jvm", "_jdf", "_sc", "cache", "persist"} == set(), name_of(path)


def test_no_window_runs_over_a_whole_capture() -> None:
    """``Window`` is always partitioned: without, one task would get every row."""
    known = {"partitionBy", "unboundedPreceding", "unboundedFollowing", "currentRow"}
    for path in MODULES:
        first = {id(node.value): node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        windows = [node for node in nodes(path) if isinstance(node, ast.Name) and node.id == "Window"]
        if "pyspark" not in path.read_text(encoding="utf-8"):
            continue  # a class of the package
        assert {first.get(id(node)) for node in windows} <= known, name_of(path)


def test_notebooks_are_kept_without_outputs() -> None:
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert code, path
        run = [cell["source"] for cell in code if cell["outputs"] or cell["execution_count"] is not None]
        assert run == [], path
