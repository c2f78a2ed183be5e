"""Questions of event logs, over one log that is small enough to be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdcwb
from cdcwb import xds
from cdcwb.analysis.continuity import continuity
from cdcwb.analysis.event_log import log_events, log_rows
from cdcwb.analysis.xds import publish_log
from cdcwb.errors import CaptureError
from cdcwb.xds import Settings

if TYPE_CHECKING:
    from cdcwb import Capture

HEAD = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value"
# a: inserted, changed, told of by the table         b: changed and changed back       c: came and went
# d: changed, deleted      e: deleted, came again    f: old values that do not follow
ROWS = """
1,id=a,N,1,t0,,usr,x,,1
2,id=a,N,1,t0,,usr,y,,1
3,id=a,N,2,t1,,usr,x,1,2
4,id=a,N,8,t1,,usr,y,,
5,id=b,N,2,t2,,usr,x,1,2
6,id=b,N,3,t3,,usr,x,2,1
7,id=c,N,1,t4,,usr,x,,1
8,id=c,N,4,t5,,usr,,,
9,id=d,N,2,t6,,usr,x,1,2
10,id=d,N,4,t7,,usr,,,
11,id=e,N,4,t8,,usr,,,
12,id=e,N,1,t9,,usr,x,,7
13,id=f,N,2,t10,,usr,x,1,2
14,id=f,N,2,t11,,usr,x,1,3
15,id=f,N,6,t12,,usr,,,
16,id=f,N,2,t13,,usr,x,9,4
17,id=f,N,2,t14,,usr,x,,5
18,id=f,X,9,t15,,usr,x,0,0
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    rows = ROWS
    for number in range(16):
        rows = rows.replace(f",t{number},", f",2026-03-01 10:00:{number:02},")
    path.write_text(HEAD + rows)
    return cdcwb.load(path)


def test_rows_are_those_of_the_log_in_the_columns_that_publishing_takes(capture: Capture) -> None:
    rows = log_rows(log_events(capture)).table()
    assert rows.schema.equals(xds.ROWS)
    found = rows.sort_by("offset").to_pylist()
    assert [row["record_id"] for row in found] == [str(number) for number in range(1, 19)]
    assert (found[0]["status"], found[0]["perpetrator"], found[17]["event_type"]) == ("N", None, "9")
    assert found[0]["event_us"] == 1_772_359_200_000_000
    assert not any(row["repeated"] for row in found)


def test_what_a_reduced_log_lacks_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    text = "table_key,event_type,table_name,column_name,old_value,new_value\nid=1,1,usr,a,,x\nid=1,4,usr,,,\n"
    path.write_text(text)
    rows = log_rows(log_events(cdcwb.load(path, format="idm-event-log"))).table().sort_by("offset").to_pylist()
    assert [(row["record_id"], row["status"], row["perpetrator"], row["event_us"]) for row in rows] == [
        ("1", "N", None, None),
        ("2", "N", None, None),
    ]


def test_a_row_with_bytes_that_are_not_in_the_character_set_is_in_no_document(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "\n1,id=1,N,1,2026-03-01 10:00:00,,usr,a,,J\xe9\n2,id=1,N,1,2026-03-01 10:00:00,,usr,b,,x\n"
    path.write_bytes((HEAD + rows).encode("latin-1"))
    published = publish_log(cdcwb.load(path), Settings())
    decided = published.decisions.sorted(["offset"]).table().to_pylist()
    reason = "column new_value: expected text in utf-8, found bytes 4ae9"
    assert [(row["decision"], row["reason"]) for row in decided] == [
        ("invalid", reason),
        ("published", "published in document 1"),
    ]
    published = publish_log(cdcwb.load(path, charset="latin-1"), Settings())
    assert published.summary.decisions == {"published": 2}


def test_an_old_value_that_is_not_the_value_before_breaks_continuity(capture: Capture) -> None:
    found = continuity(capture).listed
    assert [(row["kind"], row["key"]) for row in found] == [("gap", {"id": "f"}), ("gap", {"id": "f"})]


def test_these_questions_are_refused_of_other_captures(capture: Capture) -> None:
    other = cdcwb.load(Path(__file__).parents[2] / "data" / "gbase8s")
    with pytest.raises(CaptureError, match="event logs"):
        log_events(other)
