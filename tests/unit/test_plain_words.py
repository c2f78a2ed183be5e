"""Sentences that a user reads have the words of the field: those of Debezium, Kafka, Spark and Wireshark."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from cdcwb import model
from cdcwb.cli.app import cli

ROOT: Final = Path(__file__).parents[2]
NOT_OURS: Final = re.compile(
    r"""\b(?:
        (?:stands?|stood)\s+(?:in|at|behind|before|there|of|as|for|still)\b
      | bears?\s+(?:a|no|an|the)\b
      | told\s+by\b | tells\s+(?:it|which|whether)\b
      | (?<!there\s)(?:is|are|was|were)\s+no\s+
        (?:record|row|change|option|column|event|file|folder|table|capture|transaction|parameter|message|time|JSON)\b
      | (?:is|are)\s+none\s+of\b | that\s+(?:is|are)\s+none\b
      | not\s+whole\b
      | behind\s+(?:the|it|a|its|them|each|records?)\b
      | (?:is|are|was|were)\s+taken\s+apart\b | takes?\s+apart\b
      | (?:goes|go|went)\s+on\b
      | parted\s+by\b | hands?\s+over\b | guessed\b | in\s+silence\b
      | ledger\s+(?:closes|is\s+open)\b
      | needs?\s+a\s+look\b | steps?\s+back\b | stands?\s+twice\b
      | whole\s+or\s+not\s+at\s+all\b
      | handed\s+in\b | for\s+good\b | so\s+to\s+say\b | told\s+apart\b | (?:is|are)\s+told\b | (?:is|was|were)\s+said\b
      | that\s+there\s+is\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words and forms that are not used for these meanings; what may be meant otherwise is not among them."""


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that are more than a word; docstrings, and what is given to ``re.compile``, aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    aside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    patterns = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "re.compile"]
    aside |= {id(part) for call in patterns for part in ast.walk(call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in aside:
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inner | aside):
            yield node.lineno, node.value


def test_sentences_of_the_package_have_the_words_of_the_field() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {wrong[0]!r} in {text[:120]!r}"
        for path in sorted((ROOT / "cdcwb").rglob("*.py"))
        for line, text in sentences(path)
        for wrong in NOT_OURS.finditer(text)
    ]
    assert found == []


HELD: Final = ("cdcwb/**/*", *(f"{folder}/**/*" for folder in ("cdcwb_synth", "benchmarks", "scripts")))
"""Files whose docstrings and comments are held to the same words."""

NOT_YET: Final = (
    "cdcwb/formats/debezium",
    "cdcwb/formats/messages",
    "cdcwb/formats/qlik",
    "cdcwb/formats/qlik_kafka",
    "cdcwb/formats/source.py",
    "cdcwb/spark/jobs.py",
)
"""Parts of the package whose docstrings and comments have not been rewritten; the others are held to STRICT as well."""

STRICT: Final = re.compile(
    r"\b(?:told|tells?|says?|said|stands?|bears|laid|lies|behind|beside|whole|goes\s+on|taken\s+apart|parted|hands\s+over)\b",
    re.IGNORECASE,
)
MEANT_OTHERWISE: Final = re.compile(r"``[^`]*``|\bstands? for\b|\bwhole[- ](?:number|second)s?\b", re.IGNORECASE)
"""Names in code, and forms of these words that have no plainer ones."""


def remarks(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, or the comments of a script."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        for comment in re.finditer(r"/\*[\s\S]*?\*/|//\s.*", source):
            yield source[: comment.start()].count("\n") + 1, " ".join(comment[0].split())
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    comments = [
        token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
    ]
    for token in comments:
        yield token.start[0], token.string


def is_done(path: Path) -> bool:
    """Whether a file is in a rewritten part of the package."""
    return path.relative_to(ROOT).parts[0] == "cdcwb" and not any(path.is_relative_to(ROOT / part) for part in NOT_YET)


def test_docstrings_and_comments_have_the_words_of_the_field() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {wrong[0]!r}"
        for path in sorted(path for files in HELD for path in ROOT.glob(files))
        if path.suffix in (".py", ".js") and (is_done(path) or not path.is_relative_to(ROOT / "cdcwb"))
        for line, text in remarks(path)
        for wrong in (
            *NOT_OURS.finditer(text),
            *(STRICT.finditer(MEANT_OTHERWISE.sub("", text)) if is_done(path) else ()),
        )
    ]
    assert found == []


def test_help_has_the_words_of_the_field() -> None:
    for command in [(), *((name,) for name in cli.commands)]:
        shown = " ".join(CliRunner().invoke(cli, [*command, "--help"], terminal_width=200).output.split())
        assert [wrong[0] for wrong in NOT_OURS.finditer(shown)] == [], command


def test_columns_and_problems_have_the_words_of_the_field() -> None:
    fields = [field for schema in model.TABLES.values() for field in schema]
    columns = [f"{field.name} {(field.metadata or {}).get(b'comment', b'').decode()}" for field in fields]
    headings = [problem.heading for problem in model.Problem]
    assert [wrong[0] for text in (*columns, *headings) for wrong in NOT_OURS.finditer(text)] == []


def test_documents_have_the_words_of_the_field() -> None:
    found = []
    for page in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "data" / "README.md"]:
        text = page.read_text(encoding="utf-8")
        found += [f"{page.name}:{text.count(chr(10), 0, w.start()) + 1}: {w[0]!r}" for w in NOT_OURS.finditer(text)]
    assert found == []
