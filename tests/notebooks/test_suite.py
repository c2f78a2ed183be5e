"""The whole suite over one small capture, twice: as it is, and with a column that is not to be seen."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcwb.cli import main
from cdcwb.report import notebook_path, run_suite
from cdcwb.report.facts import declared_facts, headline
from cdcwb.report.html import SIZE_LIMIT
from cdcwb.report.suite import Suite, members
from cdcwb_synth import generate

COLUMN = "full_name"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 changes of a trail, whose header tokens and bodies hold the values as text."""
    folder = tmp_path_factory.mktemp("suite") / "made"
    return generate("goldengate", changes=300, seed=12, to=folder, tables=4, rate=3.0, concurrency=3)


@pytest.fixture(scope="module")
def values(made: Path) -> set[str]:
    """What the column held, where it is long enough to be told from anything else."""
    rows = pq.read_table(made / "truth" / "changes.parquet").to_pylist()
    images = [row[name] for row in rows for name in ("before", "after") if row[name] is not None]
    found = {dict(image).get(COLUMN) for image in images}
    long = {value for value in found if value is not None and len(value) > 5}
    assert len(long) > 20
    return long


@pytest.fixture(scope="module")
def plain(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Suite]:
    folder = tmp_path_factory.mktemp("reports") / "plain"
    return folder, run_suite(made / "capture", folder, fail_if=["transactions > 0", "changes == 0"])


@pytest.fixture(scope="module")
def redacted(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Suite]:
    folder = tmp_path_factory.mktemp("reports") / "redacted"
    return folder, run_suite(made / "capture", folder, redact=[f"shop.customer.{COLUMN}"])


def test_every_notebook_has_its_page_and_its_facts(plain: tuple[Path, Suite]) -> None:
    folder, suite = plain
    assert suite.failed == {}
    stems = sorted(path.stem for path in members().values())
    assert sorted(suite.facts) == stems
    names = [f"{stem}.{kind}" for stem in stems for kind in ("html", "json")]
    found = sorted(path.name for path in folder.iterdir() if not re.fullmatch(r"cdcwb-[0-9a-f]{16}\.js", path.name))
    assert found == sorted([*names, "index.html"])
    index = (folder / "index.html").read_text()
    for stem in stems:
        assert f'href="{stem}.html"' in index
        assert (folder / f"{stem}.html").stat().st_size < SIZE_LIMIT


KIND: dict[str, Any] = {
    "number": lambda value: isinstance(value, int | float) or value.lstrip("-").isdigit(),
    "text": lambda value: isinstance(value, str),
    "truth": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "counts": lambda value: all(isinstance(number, int) for number in value.values()),
    "values": lambda value: isinstance(value, dict),
}
OF_EVENT_LOGS = {f"decisions_{name}" for name in ("skipped", "invalid", "waiting", "no_effect", "overridden")}
OF_EVENT_LOGS |= {"decisions_needs_snapshot", "objects", "objects_shown"}
NOT_ALWAYS = {"histogram_transactions", "same_on_spark", "changes_on_spark"}


def test_a_notebook_records_the_facts_that_it_declares(plain: tuple[Path, Suite]) -> None:
    for path in members().values():
        declared, recorded = declared_facts(path), plain[1].facts[path.stem]
        assert set(recorded) <= set(declared), path.stem
        assert set(declared) - set(recorded) <= OF_EVENT_LOGS | NOT_ALWAYS, path.stem
        wrong = [name for name, value in recorded.items() if value is not None and not KIND[declared[name]](value)]
        assert wrong == [], path.stem


def test_the_facts_are_one_flat_object_that_says_where_it_is_from(plain: tuple[Path, Suite], made: Path) -> None:
    folder, suite = plain
    for stem, facts in suite.facts.items():
        written: dict[str, Any] = json.loads((folder / f"{stem}.json").read_text())
        assert not any(isinstance(value, dict) for value in written.values())
        assert (written["notebook"], written["capture"]) == (stem, str(made / "capture"))
        assert all(written[name] == value for name, value in facts.items() if not isinstance(value, dict))
    written = json.loads((folder / "02_transactions.json").read_text())
    transactions = pq.read_table(made / "truth" / "transactions.parquet").num_rows
    assert written["transactions"] == transactions
    assert written["open_transactions"] == written["transactions_open"]
    assert written["changes"] == sum(
        count for name, count in written.items() if name.startswith("changes_by_operation.")
    )


def test_every_report_and_its_entry_begin_with_an_answer_of_their_own(plain: tuple[Path, Suite]) -> None:
    folder, suite = plain
    answers = {stem: headline(facts) for stem, facts in suite.facts.items()}
    assert len(set(answers.values())) == len(members())
    assert [stem for stem, facts in suite.facts.items() if "headline" not in facts] == ["01_capture"]
    index = html.unescape(re.sub("</?span[^>]*>", "", (folder / "index.html").read_text()))
    for stem, answer in answers.items():
        assert index.count(f'<a href="{stem}.html">{answer}') == 1
        assert json.loads((folder / f"{stem}.json").read_text())["headline"] == answer


def test_a_suite_says_the_same_as_a_report_of_its_own(plain: tuple[Path, Suite], made: Path, tmp_path: Path) -> None:
    _, suite = plain
    target = tmp_path / "alone.html"
    assert main(["report", "transactions", str(made / "capture"), "--to", str(target)]) == 0
    alone = json.loads(target.with_suffix(".json").read_text())
    for name, value in suite.facts["02_transactions"].items():
        if not isinstance(value, dict):
            assert alone[name] == value, name


def test_pages_speak_of_the_capture_and_not_of_what_was_kept(plain: tuple[Path, Suite], made: Path) -> None:
    folder, _ = plain
    for page in folder.glob("*.html"):
        text = page.read_text()
        assert "cdcwb-suite-" not in text
        assert str(made / "capture") in text.replace("<wbr>", "")


def test_thresholds_are_judged_over_all_reports(plain: tuple[Path, Suite]) -> None:
    _, suite = plain
    assert len(suite.judgement.broken) == 1
    assert suite.judgement.broken[0].startswith("transactions > 0: it is ")
    assert "02_transactions" in suite.judgement.broken[0]
    assert suite.judgement.unknown == []


def test_the_values_of_a_column_are_nowhere_in_the_reports(
    plain: tuple[Path, Suite], redacted: tuple[Path, Suite], values: set[str]
) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in plain[0].glob("*.html"))
    assert any(value in shown for value in values)  # where nothing is taken out, they are
    folder, suite = redacted
    assert suite.failed == {}
    for file in sorted(folder.iterdir()):
        text = file.read_text(encoding="utf-8")
        for value in values:
            told = {value, json.dumps(value)[1:-1], value.encode().hex()}
            assert not any(spelling in text for spelling in told), (file.name, value)


def test_a_report_says_what_was_taken_out_of_it(redacted: tuple[Path, Suite]) -> None:
    folder, _ = redacted
    page = (folder / f"{notebook_path('transactions').stem}.html").read_text()
    assert f"Values taken out: shop.customer.{COLUMN}" in page


def test_every_number_is_the_same_without_the_values(plain: tuple[Path, Suite], redacted: tuple[Path, Suite]) -> None:
    for stem, facts in plain[1].facts.items():
        for name, value in facts.items():
            if isinstance(value, int | float):
                assert redacted[1].facts[stem][name] == value, (stem, name)


def test_a_column_that_the_capture_does_not_have_ends_in_one_sentence_and_no_report(made: Path, tmp_path: Path) -> None:
    from cdcwb.errors import OptionError

    with pytest.raises(OptionError, match=r"there is no column 'shop.customer.name' in the capture") as caught:
        run_suite(made / "capture", tmp_path / "out", redact=["shop.customer.name"])
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("out/*"))
