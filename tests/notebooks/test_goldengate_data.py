"""Notebooks over the GoldenGate trail in ``data/``: a gap, a restart after an abend, a cut end, compressed updates.

What has to come out stands in ``data/README.md``, which a unit test holds against the files.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.reports import Report, report_of

VOID = "8.1.1000@00000000420000006495"  # made void by RestartAbend; it comes again as 8.1.1000


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of("goldengate", tmp_path_factory)


def row_of(html: str, transaction: str) -> list[str]:
    """The cells of a transaction's row in the table of what is incomplete or rolled back."""
    table = html[html.index("what is missing") :]
    row = table[table.index(f">{transaction}<") :]
    return re.findall(r">([^<>]+)</td>", row[: row.index("</tr>")])


def test_a_record_that_is_missing_makes_a_gap_in_its_transaction(trail: Report) -> None:
    facts = trail.facts
    assert (facts["transactions"], facts["transactions_complete"], facts["transactions_gaps"]) == (45, 44, 1)
    assert facts["transactions_no_begin"] == facts["transactions_no_end"] == facts["transactions_unknown"] == 0
    assert "1 of 45 transactions incomplete" in facts["verdict"]
    assert facts["problem_codes"] == {"truncated": 1, "gap": 1, "repeated": 1}
    cells = " ".join(row_of(trail.html, "10.1.1000"))
    assert "193 bytes of the trail" in cells
    assert "RBA 1040" in cells


def test_what_extract_wrote_before_it_broke_off_is_rolled_back_and_comes_again(trail: Report) -> None:
    facts = trail.facts
    assert (facts["transactions_committed"], facts["transactions_rolled_back"]) == (44, 1)
    assert facts["transactions_open"] == 0
    assert facts["changes_by_outcome"] == {"committed": 146, "rolled_back": 4}
    assert facts["unfinished_transactions"] == ["10.1.1000", VOID]
    cells = row_of(trail.html, VOID)
    assert "rolled back" in cells
    assert cells[-2:] == ["00000000420000006495", "00000000420000007252"]
    assert {"8.1.1000", VOID} <= {name for name, _ in facts["longest_transactions"]}


def test_a_record_printed_twice_is_one_change(trail: Report) -> None:
    facts = trail.facts
    assert facts["changes"] == facts["transaction_changes"] == 150
    assert facts["changes_by_operation"] == {"INSERT": 83, "UPDATE": 42, "DELETE": 23, "DDL": 1, "TRUNCATE": 1}
    assert facts["ledger"] == "closes"


def test_times_are_utc_though_the_text_is_not(trail: Report) -> None:
    assert trail.facts["first_time"].startswith("2026-07-14T06:30:01.049130")
    assert trail.facts["last_time"].startswith("2026-07-14T06:31:51.323090")
    zones = {value for name, value in trail.facts["detected"].items() if name.endswith(" time_zone")}
    assert zones == {"+02:00"}
    assert trail.facts["transactions_without_time"] == 0


def test_positions_are_whole_in_tables_and_trail_file_and_byte_on_the_axis(trail: Report) -> None:
    assert trail.facts["first_position"] == "00000000410000000920"
    assert trail.facts["last_position"] == "00000000430000010423"
    ticks = json.loads(re.findall(r'"ticktext":(\[[^\]]+\])', trail.html)[0])
    assert all(re.fullmatch(r"trail 4[123]<br>\d{1,2},\d{3}", tick) for tick in ticks)
    assert {tick[:8] for tick in ticks} == {"trail 41", "trail 42", "trail 43"}
    assert "log position (bytes of trail" in trail.html


def test_nothing_is_asked_of_a_trail_that_it_does_not_have(trail: Report) -> None:
    assert "<dt>restart position</dt>" not in trail.html
    assert "<dt>undone changes</dt>" not in trail.html
    assert '<th scope="col" class="text">user</th>' not in trail.html
    assert trail.facts["undone_changes"] == {}


def test_compressed_updates_show_which_columns_they_changed_and_when(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The figures are those of the column lines below FieldComp records, less the key columns of the definitions."""
    masks = report_of("goldengate", tmp_path_factory, "change_masks")
    facts = masks.facts
    assert (facts["updates"], facts["updates_told_by"], facts["updates_not_told"]) == (42, {"log": 42}, 0)
    assert (facts["columns_changed"], facts["updates_idle"], facts["heatmap_updates"]) == (15, 1, 59)
    assert facts["heatmap_tables"] == ["shop.customer", "shop.orders", "shop.order_line"]
    changes = {name: number for name, number in facts["column_changes"].items() if number}
    assert changes == {
        "shop.customer.city": 6, "shop.customer.d_v2": 1, "shop.customer.discount": 10, "shop.customer.full_name": 6,
        "shop.customer.is_member": 5, "shop.customer.rating": 5, "shop.customer.since": 4,
        "shop.order_line.goods": 1, "shop.order_line.place": 1, "shop.order_line.quantity": 2,
        "shop.orders.customer_id": 3, "shop.orders.note": 4, "shop.orders.placed_at": 3, "shop.orders.state": 5,
        "shop.orders.total": 3,
    }  # fmt: skip
    assert "Changed columns from the log record" in masks.html
    assert "No key is known" not in masks.html
