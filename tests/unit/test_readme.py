"""The README and the other pages tell the truth: their commands, options, files and numbers exist."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

from cdcwb.cli.app import cli
from cdcwb.formats import FORMATS, get_format
from cdcwb_synth import FORMAT_OPTIONS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    cdcwb (.+?)(?: {2,}#.*)?$", TEXT, re.MULTILINE)
DOCUMENTS = [ROOT / "data" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INDENTED = sorted(
    {
        command.replace("\\\n", " ")
        for page in DOCUMENTS
        for command in re.findall(r"^    cdcwb (.+(?:(?<=\\)\n.+)*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
)
ON_PAGE = {"goldengate-export": "goldengate"}  # of another format
PAGES = {
    name: (ROOT / "docs" / "capturing" / f"{name}.md").read_text(encoding="utf-8")
    for name in FORMATS
    if name not in ON_PAGE
}
SHELL = [
    (name, command)
    for name, page in PAGES.items()
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for command in re.findall(r"^cdcwb (.+)$", block, re.MULTILINE)
]
PYTHON = [
    (name, block)
    for name, page in PAGES.items()
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if "cdcwb.load" in block
]
OF_ROWS = {"name", "order_by", "format"}  # what load() takes besides the format's options


def options_of(page: str) -> set[str]:
    """The options of the formats on a page."""
    return {option for name in FORMATS if ON_PAGE.get(name, name) == page for option in get_format(name).options}


def test_the_readme_shows_every_command() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(cli.commands)


@pytest.mark.parametrize("command", [*COMMANDS, *INDENTED])
def test_a_command_of_the_readme_and_the_pages_is_understood(command: str) -> None:
    name, *arguments = shlex.split(command, comments=True)
    assert isinstance(cli.commands[name].make_context(name, arguments), click.Context)


def test_modules_of_the_page_on_architecture_and_of_its_picture_are_there() -> None:
    docs = ROOT / "docs"
    page, picture = docs / "architecture.md", docs / "images" / "architecture.svg"
    modules = set(re.findall(r"[\w/]+\.py\b", page.read_text(encoding="utf-8") + picture.read_text(encoding="utf-8")))
    folders = ROOT, ROOT / "cdcwb", ROOT / "cdcwb" / "formats", ROOT / "cdcwb" / "formats" / "gbase8s"
    assert modules
    assert [name for name in sorted(modules) if not any((folder / name).is_file() for folder in folders)] == []


def test_what_the_readme_names_is_there() -> None:
    linked = re.findall(r"\]\(([\w./-]+)\)", TEXT)
    given = re.findall(r"\bdata/[\w./-]*\w", "\n".join(COMMANDS))
    assert linked
    assert given
    assert [name for name in linked + given if not (ROOT / name).exists()] == []


def test_the_targets_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    assert set(re.findall(r"^    make (\S+)|`make (\S+)`", TEXT, re.MULTILINE)) <= {(name, "") for name in targets} | {
        ("", name) for name in targets
    }


@pytest.mark.parametrize("command", [command for command in COMMANDS if " -o " in command])
def test_an_option_in_a_command_of_the_readme_is_one(command: str) -> None:
    words = shlex.split(command)
    known = (
        set(FORMAT_OPTIONS[words[1]])
        if words[0] == "synth"
        else {option for name in FORMATS for option in get_format(name).options}
    )
    given = {words[number + 1].partition("=")[0] for number, word in enumerate(words) if word == "-o"}
    assert given <= known


@pytest.mark.parametrize(("name", "command"), SHELL, ids=[command for _, command in SHELL])
def test_a_command_on_how_to_open_a_capture_is_understood(name: str, command: str) -> None:
    command_name, *arguments = shlex.split(command)
    context = cli.commands[command_name].make_context(command_name, list(arguments))
    given = {key for key, _ in context.params.get("pairs", ())}
    assert given <= options_of(name)


@pytest.mark.parametrize(("name", "block"), PYTHON, ids=range(len(PYTHON)))
def test_an_option_of_load_in_the_pages_on_capturing_is_one(name: str, block: str) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cdcwb.load"
    ]
    assert calls
    for call in calls:
        assert {keyword.arg for keyword in call.keywords} <= options_of(name) | OF_ROWS


def test_every_format_has_a_page_that_ends_in_how_to_open_a_capture() -> None:
    assert {name for name, _ in SHELL} == {name for name, _ in PYTHON} == set(PAGES)
    for name, page in PAGES.items():
        options = set(re.findall(r"`-o (\w+)=", page))
        assert options <= options_of(name)
        assert all((ROOT / "docs" / folder / f"{name}.md").is_file() for folder in ("formats", "capturing"))


def test_the_page_on_the_command_line_lists_every_reader_option() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    listed = {
        name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text)))
        for name, text in re.findall(r"^\| `?([\w-]+)`? \| (.*`.*) \|$", page, re.MULTILINE)
        if name in ("all", *FORMATS)
    }
    for name in FORMATS:
        assert listed["all"] | listed[name] == set(get_format(name).options)
