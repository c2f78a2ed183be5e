"""The notebook ``capture`` over every capture in ``data/``: what ``data/README.md`` says is what the page says.

And the questions of ``transactions`` that are not about one format: how many were open at once, how long changes
waited, and where positions do not rise.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcwb.cli import main
from cdcwb.errors import OptionError
from cdcwb.filters import NO_TABLE
from cdcwb.report import execute, notebook_path, read_facts
from cdcwb.report.facts import headline
from cdcwb.report.kernel import Kernel
from tests.reports import DATA

FORMATS = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "idm-event-log", "debezium")
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(kernel: Kernel) -> Run:
    """Runs a notebook over a capture of ``data/``, with parameters; the same again is not run again."""
    made: dict[str, Any] = {}

    def ran(notebook: str, name: str, **parameters: Any) -> Any:
        asked = json.dumps([notebook, name, parameters])
        if asked not in made:
            given = {"path": str(DATA / name), **parameters}
            executed = execute(notebook_path(notebook), given, lambda _: None, kernel)
            data = [out.get("data", {}) for cell in executed["cells"] for out in cell.get("outputs", ())]
            text = "\n".join(item.get("text/html", "") for item in data)
            made[asked] = SimpleNamespace(facts=read_facts(executed), html=text)
        return made[asked]

    return ran


FILES = {"gbase8s": 3, "qlik-kafka": 10, "qlik-change-table": 14, "goldengate": 3, "idm-event-log": 1, "debezium": 1}
BYTES = {
    name: sum(file.stat().st_size for file in (DATA / name).rglob("*") if file.is_file() and file.suffix != ".dfm")
    for name in FILES
}
CHANGES = {
    "gbase8s": 900,
    "qlik-kafka": 367,
    "qlik-change-table": 362,
    "goldengate": 150,
    "idm-event-log": 302,
    "debezium": 80,
}
TABLES = {"gbase8s": 6, "qlik-kafka": 5, "qlik-change-table": 5, "goldengate": 3, "idm-event-log": 5, "debezium": 3}
MALFORMED = {"gbase8s": 41, "qlik-kafka": 398, "qlik-change-table": 0, "goldengate": 0, "debezium": 359}


@pytest.mark.parametrize("name", FORMATS)
def test_files_tables_and_changes_are_those_of_the_readme(run: Run, name: str) -> None:
    facts = run("capture", name).facts
    assert facts["format"] == name
    assert len(facts["files"]) == FILES[name]
    assert facts["bytes"] == BYTES[name]
    assert facts["changes"] == CHANGES[name]
    assert len([table for table, done in facts["tables"].items() if done and table != NO_TABLE]) == TABLES[name]
    assert sum(sum(done.values()) for done in facts["tables"].values()) == CHANGES[name]
    assert facts["changes_over_time"] + sum(facts["changes_without_time"].values()) == CHANGES[name]


@pytest.mark.parametrize("name", FORMATS)
def test_every_byte_is_accounted_for_and_the_page_says_so(run: Run, name: str) -> None:
    page = run("capture", name)
    assert page.facts["ledger"] == "closes"
    counted = sum(page.facts[f"{part}_bytes"] for part in ("record", "filler", "malformed"))
    assert counted == page.facts["bytes"]
    assert page.facts["malformed_bytes"] == MALFORMED.get(name, page.facts["malformed_bytes"])
    assert "All bytes are accounted for, each in exactly one event" in page.html


@pytest.mark.parametrize("name", FORMATS)
def test_each_problem_has_a_line_that_shows_the_record_there(
    run: Run, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run("capture", name)
    facts = page.facts
    assert sum(facts["problem_codes"].values()) == facts["problems"] > 0
    commands = {place: command for code, place, _, command in facts["problem_places"] if command}
    assert commands
    for file, command in commands.items():
        words = shlex.split(command)
        assert words[:3] == ["cdcwb", "inspect", file]
        assert main(words[1:]) == 0
        assert f"{file}, offset" in capsys.readouterr().out


@pytest.mark.parametrize("name", FORMATS)
def test_health_is_said_of_the_capture_and_other_pages_begin_with_their_own_answer(run: Run, name: str) -> None:
    about, answered = run("capture", name), run("transactions", name)
    assert about.facts["verdict"] == answered.facts["verdict"]
    assert escape(about.facts["verdict"]) in about.html
    assert '<div class="cdcwb-verdict' not in answered.html
    assert f'<p class="cdcwb-answer">{escape(headline(answered.facts))}</p>' in answered.html


def test_versions_and_what_was_detected_are_told(run: Run) -> None:
    facts = run("capture", "gbase8s").facts
    assert facts["table_versions"] == len(facts["versions"]) == 7
    assert facts["detected"]["capture byte_order"] == "little"
    assert run("capture", "goldengate").facts["table_versions"] == 10
    assert facts["problem_codes"]["malformed"] == 1
    assert facts["events_by_record_type"]["CDC_REC_TIMEOUT"] == 2


def test_a_part_of_a_capture_says_that_its_ledger_cannot_close(run: Run) -> None:
    page = run("capture", "qlik-kafka", tables=["orders"])
    assert page.facts["ledger"] is None
    assert list(page.facts["tables"]) == ["shop.orders"]
    assert "Only a part of the capture is shown" in page.html


def test_up_to_six_transactions_of_the_stream_are_interleaved(run: Run) -> None:
    page = run("transactions", "gbase8s")
    assert page.facts["concurrency_in_log"] == 6
    assert page.facts["concurrency_most"] == 6
    assert "Changes have no time of their own" in page.html
    assert page.facts["change_latency_known"] == 0
    assert page.facts["transaction_latency_known"] == 125


def test_what_was_lost_and_what_came_twice_in_the_topics_is_found(run: Run) -> None:
    facts = run("transactions", "qlik-kafka").facts
    assert facts["numbers_missing"] == {"shop.orders-1.txt, partition 1": 1}
    assert facts["gaps"] == 1
    ((_, file, _),) = facts["positions_twice_places"]
    assert (facts["positions_twice"], Path(file).name) == (1, "shop.order_line-0.txt")
    assert facts["positions_back"] == 0
    assert facts["change_latency_known"] == 327
    assert facts["change_latency_negative"] > 0  # the server's clock was set back


def test_a_record_of_the_trail_that_was_printed_twice_is_found(run: Run) -> None:
    facts = run("transactions", "goldengate").facts
    ((position, file, _),) = facts["positions_twice_places"]
    assert (position, Path(file).name) == ("00000000430000001732", "logdump-000000043.txt")
    assert (facts["gaps"], facts["positions_back"], facts["change_latency_negative"]) == (1, 0, 0)


def test_change_tables_rise_though_pairs_share_their_number(run: Run) -> None:
    facts = run("transactions", "qlik-change-table").facts
    assert (facts["positions_twice"], facts["positions_back"], facts["gaps"]) == (0, 0, 0)
    assert facts["change_latency_known"] == 322 - 3  # three have no time


def test_an_event_log_without_transactions_says_so_and_its_ids_are_looked_at(run: Run) -> None:
    page = run("transactions", "idm-event-log")
    assert page.facts["transactions"] == page.facts["concurrency_most"] == 0
    assert page.facts["transaction_latency_known"] == page.facts["change_latency_known"] == 0
    assert "There are no transactions" in page.html
    assert (page.facts["positions_twice"], page.facts["positions_back"]) == (2, 2)
    assert page.facts["numbers_missing"]["the log"] > 0


def test_only_transactions_that_fit_are_on_the_page(run: Run) -> None:
    whole = run("transactions", "gbase8s").facts
    page = run("transactions", "gbase8s", outcomes=["rolled back", "open"])
    assert page.facts["transactions"] == 7
    assert page.facts["changes_by_outcome"] == {
        name: n for name, n in page.facts["changes_by_outcome"].items() if name in ("rolled_back", "open", "undone")
    }
    assert (page.facts["transactions_rolled_back"], page.facts["transactions_open"]) == (6, 1)
    assert "Only a part is shown: outcome rolled back or open." in page.html
    longest = [us for _, us in whole["longest_transactions"]]
    few = run("transactions", "gbase8s", least_seconds=longest[4] / 1_000_000)
    assert few.facts["transactions"] == sum(us >= longest[4] for us in longest)
    assert few.facts["longest_transactions"] == whole["longest_transactions"][: few.facts["transactions"]]
    assert few.facts["concurrency_counted"] <= few.facts["transactions"]


def test_a_filter_that_nothing_fits_leaves_an_empty_page_that_says_so(run: Run) -> None:
    page = run("transactions", "goldengate", users=["nobody"])
    assert page.facts["transactions"] == page.facts["changes"] == 0
    assert "No transaction fits: transactions of nobody." in page.html


def test_wrong_wishes_end_in_one_sentence_that_names_them_all() -> None:
    wrong = {"path": str(DATA / "gbase8s"), "outcomes": ["comitted"], "least_bytes": -1}
    with pytest.raises(OptionError, match=r"Did you mean 'committed'\?.*; least_bytes: expected a whole number"):
        execute(notebook_path("transactions"), wrong, say=lambda _: None)
