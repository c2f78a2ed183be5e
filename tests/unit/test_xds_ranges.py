"""Parts of an order that runs through a whole table, and what the command refuses before a JVM is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcwb.cli import main
from cdcwb.spark import session

HEAD = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "get_spark", lambda: pytest.fail("a JVM is started for nothing"))
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "1,idu=1,N,4,2026-03-01 10:00:00,,usr,,,\n")
    return path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--to", "no/where.xml"], "there is no folder"),
        (["--to", "log.csv"], "one file of all documents ends in .xml or .xds"),
        (["--to", "x.xml", "--decisions", "x.json"], "expected a file that ends in .jsonl"),
        (["--to", "x.xml", "--batch-size", "129"], "expected 1 to 128"),
        (["--to", "x.xml", "--as-of", "2026-01-01"], "only with future_events=true"),
        (["--to", "x.xml", "-o", "precedense=log"], "Did you mean 'precedence'?"),
        (["--to", "x.xml", "-o", "delimeter=;"], "Did you mean 'delimiter'?"),
        (["--to", "x.xml", "--driver-user", "a", "-o", "driver_user=b"], "is given twice"),
        (["--to", "x.xml", "--snapshot", "usr=a.csv", "--snapshot", "usr=b.csv"], "two snapshots of table 'usr'"),
        (["--to", "x.xml", "--snapshot", "usr=missing.csv"], "missing.csv"),
    ],
)
def test_what_cannot_be_used_is_said_before_a_jvm_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: Path, given: list[str], said: str
) -> None:
    monkeypatch.chdir(log.parent)
    assert main(["xds", str(log), *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
