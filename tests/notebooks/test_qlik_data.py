"""The notebook ``transactions`` over the Qlik captures in ``data/``: they hand over committed work only.

What has to come out stands in ``data/README.md``, which a unit test holds against the files.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.reports import Report, report_of


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of("qlik-kafka", tmp_path_factory)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of("qlik-change-table", tmp_path_factory)


def test_what_is_missing_in_committed_transactions_is_listed(kafka: Report) -> None:
    facts = kafka.facts
    assert (facts["transactions"], facts["transactions_committed"], facts["transactions_complete"]) == (80, 80, 78)
    assert (facts["transactions_gaps"], facts["transactions_no_begin"], facts["transactions_no_end"]) == (1, 1, 0)
    assert facts["transactions_open"] == facts["transactions_rolled_back"] == 0
    assert [name[-6:] for name in facts["unfinished_transactions"]] == ["120009", "12004F"]
    assert {"gap", "no_begin", "clock", "truncated"} == set(facts["problem_codes"])
    assert re.search(r"1 of its events 1 to 5 (is|are) missing", kafka.html)
    assert "the first event that is there has number 2" in kafka.html
    assert "2 of 80 transactions incomplete" in facts["verdict"]


def test_the_rows_of_the_full_load_are_told_apart(kafka: Report, tables: Report) -> None:
    for report, changes in ((kafka, 327), (tables, 322)):
        assert report.facts["changes"] == changes + 40
        assert report.facts["changes_by_outcome"] == {"committed": changes}
        assert report.facts["changes_by_operation"]["REFRESH"] == 40
        assert f"with {changes} changes to 5 tables in" in report.facts["what"]
        assert "and 40 rows of a full load" in report.facts["what"]
        assert "in no transaction (40)" in report.html
        assert "not given" not in report.html


def test_nothing_is_asked_of_the_source_that_it_does_not_have(kafka: Report, tables: Report) -> None:
    for report in (kafka, tables):
        assert "<dt>restart position</dt>" not in report.html
        assert "<dt>undone changes</dt>" not in report.html
        assert "committed changes only" in report.html
        assert '<th scope="col" class="text">user</th>' not in report.html
        assert report.facts["undone_changes"] == {}


def test_nobody_claims_that_transactions_are_complete_where_it_is_not_known(tables: Report) -> None:
    facts = tables.facts
    assert facts["transactions"] == facts["transactions_unknown"] == 81
    assert facts["transactions_unfinished"] == 0
    assert "Every transaction was committed." in tables.html
    assert "Of 81 transactions it is not known whether an event is missing" in tables.html
    assert facts["tone"] == "warning"
    assert set(facts["problem_codes"]) == {"apply_exception", "clock"}


def test_positions_are_whole_in_tables_and_hovers_and_short_on_the_axis(kafka: Report, tables: Report) -> None:
    for report in (kafka, tables):
        assert re.fullmatch(r"20260203\d{27}", report.facts["first_position"])
        ticks = json.loads(re.findall(r'"ticktext":(\[[^\]]+\])', report.html)[0])
        assert len(ticks) == 5
        assert all(re.fullmatch(r"08:0\d:\d\d\.\d\d<br>…\d{4}", tick) for tick in ticks)
        assert "2026-02-03: commit time and end of the change number" in report.html


def test_files_are_named_below_the_capture_and_every_byte_is_in_an_event(kafka: Report, tables: Report) -> None:
    assert kafka.facts["ledger"] == tables.facts["ledger"] == "closes"
    assert ">shop.stock_move-1.txt</td>" in kafka.html
    assert ">shop.orders__ct/20260203-080205870.csv</td>" in tables.html
    assert tables.facts["detected"]["shop.orders mask_offset"] == "7"
    assert tables.facts["detected"]["shop.orders mask_order"] == "big"
