"""What can be told of topics without a cluster: URLs, points, the configuration of the client; and files of a
partition, whose places are offsets."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.cli import main
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import inspect
from cdcwb.formats.containers.detect import probe
from cdcwb.formats.containers.kafka_rows import PARTITION
from cdcwb.formats.containers.message_files import locate, read
from cdcwb.live.addresses import KAFKA_CONFIG, Topics, as_point, hidden, kafka_settings
from cdcwb.opening import check_capture

WORD = "planted-word"


def test_the_url_of_topics() -> None:
    assert Topics.parse("kafka://a:9092,b:9093/shop.orders,cdc-metadata") == Topics(
        "a:9092,b:9093", ("shop.orders", "cdc-metadata")
    )
    pattern = Topics.parse(r"kafka://a:9092/^shop\.(x|y{1,2})#?")
    assert pattern.pattern == r"^shop\.(x|y{1,2})#?"
    for one in (pattern, Topics.parse("kafka://a:9092/t")):
        assert Topics.parse(one.url) == one


def test_a_pattern_selects_topics_by_their_whole_names_and_none_of_kafkas_own() -> None:
    known = ["shop.b", "shop.a", "myshop.a", "shop.a.dlq", "__consumer_offsets"]
    assert Topics.parse(r"kafka://a/^shop\.\w").select(known) == ["shop.a", "shop.b"]
    assert Topics.parse("kafka://a/^.*").select(known) == sorted(known[:-1])
    with pytest.raises(CaptureError, match="no topic matches"):
        Topics.parse("kafka://a/^x").select(known)
    with pytest.raises(CaptureError, match=r"no topic 'shop\.c'.*Did you mean"):
        Topics.parse("kafka://a/shop.c").select(known)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://a:9092",
        "kafka://a:9092/",
        "kafka:///t",
        "kafka://a/t u",
        "kafka://a/../x",
        "kafka://a/^(",
        "kafka://a/,",
    ],
)
def test_what_is_no_url_of_topics(url: str) -> None:
    with pytest.raises(OptionError):
        Topics.parse(url)


@pytest.mark.parametrize("url", [f"kafka://u:{WORD}@a/t", f"kafka://a/t?sasl.password={WORD}"])
def test_a_url_with_a_password_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        Topics.parse(url)
    assert WORD not in str(refused.value)


def test_topics_are_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identify", f"kafka://u:{WORD}@a/t"]) == 2
    told = capsys.readouterr().err
    assert "`cdcwb capture URL --to DIR` copies the messages of topics to files" in told
    assert WORD not in told
    with pytest.raises(OptionError, match="topics are opened without other paths"):
        check_capture(["kafka://a/t", "b.json"])


def test_points() -> None:
    assert [as_point(text, "--from") for text in ("earliest", "END", "42")] == [
        "earliest", "latest", 42,
    ]  # fmt: skip
    moments = ("2026-03-01", "2026-03-01T00:00", "2026-03-01T01:00:00+01:00")
    assert {as_point(text, "--from") for text in moments} == {datetime(2026, 3, 1, tzinfo=UTC)}
    assert as_point(date(2026, 3, 1), "start") == datetime(2026, 3, 1, tzinfo=UTC)
    for text in ("yesterday", "-1", "{}x", '{"t": 7}', "2026-13-01"):
        with pytest.raises(OptionError, match="--from"):
            as_point(text, "--from")


def test_the_configuration_is_a_file_and_the_environment_which_wins(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# a comment\nbootstrap.servers=elsewhere:1\nsasl.username = reader\nsasl.password=p=%(x)s;#1\n")
    given = {KAFKA_CONFIG: str(path), "CDCWB_KAFKA_SASL_USERNAME": "other", "PATH": "x"}
    assert kafka_settings(None, given) == {"sasl.username": "other", "sasl.password": "p=%(x)s;#1"}
    with pytest.raises(OptionError, match=r"sasl\.jaas\.config is a property of the Java client; give sasl\.username"):
        kafka_settings(None, {"CDCWB_KAFKA_SASL_JAAS_CONFIG": WORD})
    path.write_text(f"sasl.password {WORD}\n")
    with pytest.raises(OptionError, match="expected lines of name=value") as refused:
        kafka_settings(path, {})
    assert WORD not in str(refused.value)
    assert hidden(f"bad {WORD} at x", {"sasl.password": WORD, "client.id": "x"}) == "bad … at x"


def partition(folder: Path, offsets: list[int]) -> Path:
    """A file of a partition of which some offsets are gone."""
    count = len(offsets)
    columns = {
        "value": [json.dumps({"headers": {"operation": "INSERT"}, "data": {"id": at}}).encode() for at in offsets],
        "topic": ["t"] * count, "partition": pa.array([0] * count, pa.int32()), "offset": offsets,
    }  # fmt: skip
    table = pa.table(columns).replace_schema_metadata({PARTITION: b"{}"})
    path = folder / f"{offsets[0]:020}.parquet"
    pq.write_table(table, path, row_group_size=2)
    return path


def test_places_in_a_file_of_a_partition_are_offsets(tmp_path: Path) -> None:
    offsets = [40, 41, 45, 46, 60]
    path = partition(tmp_path, offsets)
    container = probe(str(path), {})
    assert (container.unit, container.extent) == ("message", 5)
    found = [int(at) for batch in read(container, 1, 5, batch=2) for at in batch.offset]
    assert found == offsets[1:]
    assert locate(container, 45).facts["offset"].to_pylist() == ["45"]
    for gone in (44, 39, 61, 2):
        with pytest.raises(CaptureError, match=f"the file has no message with offset {gone}"):
            locate(container, gone)
    shown = inspect(path, 46, "qlik-kafka")
    assert (shown.offset, shown.length, shown.event["offset_unit"]) == (46, 1, "message")
