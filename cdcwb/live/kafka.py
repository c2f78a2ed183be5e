"""Topics of a Kafka cluster: URLs, the configuration of the client, and the offsets of ranges.

Uses ``confluent-kafka`` (librdkafka): no JVM is started.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from cdcwb.errors import CaptureError, OptionError, SourceDownError
from cdcwb.formats.moments import moment
from cdcwb.formats.options import nearest

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

__all__ = [
    "CONFIG",
    "SCHEME",
    "Client",
    "Point",
    "Range",
    "Topics",
    "as_environment",
    "as_point",
    "connected",
    "is_kafka",
    "kafka_settings",
    "parse_point",
    "partitions",
    "ranges",
    "read_properties",
]

SCHEME: Final = "kafka"
CONFIG: Final = "CDCWB_KAFKA_CONFIG"
"""The environment variable that names the file with the client's configuration."""
_VARIABLE: Final = "CDCWB_KAFKA_"  # followed by a property of the client: CDCWB_KAFKA_SASL_PASSWORD

_ANSWERS: Final = 15.0  # seconds in which a cluster answers
_PAUSE: Final = 0.2  # before it is asked again
_EARLIEST: Final = ("earliest", "beginning")
_LATEST: Final = ("latest", "end")
_SERVER: Final = re.compile(r"(?:\[[^]]+\]|[^:]+)(?::[0-9]{1,5})?")
_SECRET: Final = re.compile(r"password|secret|token|jaas|key\.pem|oauthbearer\.config", re.IGNORECASE)
_JAVA: Final = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (PEM)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM)",
}
"""Properties of the Java client, and their equivalents in librdkafka."""

_READ: Final = {
    "group.id": "cdcwb",  # required, and never used: partitions are assigned, and no offset is committed
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "32768",
    "fetch.queue.backoff.ms": "20",  # until a full queue is looked at again
    "log_level": "0",  # failures are reported as errors
}

Point = str | int | datetime | Mapping[str, Mapping[int, int]]
"""Where a range begins or ends: ``earliest``, ``latest``, an offset of every partition, a time, or the offset of each
partition by topic."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Some topics of a cluster: their names, or a regular expression that matches the complete name."""

    servers: str
    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def parse(cls, url: str) -> Topics:
        """The topics of ``kafka://host:port[,host:port]/topic[,topic]`` or ``…/^regular expression``. Raises
        OptionError; a password is not quoted."""
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise OptionError(
                "a Kafka URL has no user and password, because URLs are stored and shown; give sasl.username and "
                f"sasl.password in a file that {CONFIG} names, or as {_VARIABLE}SASL_USERNAME and "
                f"{_VARIABLE}SASL_PASSWORD"
            )
        # a regular expression may hold what urlsplit takes for a query or a fragment
        topics = unquote(url.partition("://")[2].partition("/")[2])
        form = "expected kafka://HOST:PORT/TOPIC[,TOPIC] or kafka://HOST:PORT/^PATTERN"
        if parts.scheme != SCHEME or not parts.netloc or not topics:
            raise OptionError(f"{form}, found {url!r}")
        wrong_server = next((one for one in parts.netloc.split(",") if not _SERVER.fullmatch(one)), None)
        if wrong_server is not None:
            raise OptionError(f"{form}, found {url!r}: {wrong_server!r} is not HOST:PORT")
        if topics.startswith("^"):
            try:
                re.compile(topics)
            except re.error as reason:
                raise OptionError(f"the pattern {topics!r} is not a regular expression ({reason})") from None
            return cls(parts.netloc, pattern=topics)
        names = tuple(dict.fromkeys(filter(None, topics.split(","))))
        wrong = [name for name in names if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", "..")]
        if "?" in topics:
            raise OptionError(f"{form}; properties of the client are given in a file that {CONFIG} names")
        if wrong or not names:
            raise OptionError(f"{form}; {wrong[0] if wrong else topics!r} is not the name of a topic")
        return cls(parts.netloc, names)

    @property
    def url(self) -> str:
        """The URL."""
        return f"{SCHEME}://{self.servers}/{self.pattern or ','.join(self.names)}"

    def select(self, known: Sequence[str]) -> list[str]:
        """Those of the cluster's topics that are meant. Raises CaptureError if there are none, or a name is unknown."""
        if self.pattern is not None:
            topics = [name for name in known if re.fullmatch(self.pattern, name) and not name.startswith("__")]
            if not topics:
                raise CaptureError(f"no topic matches {self.pattern}", path=self.url)
            return sorted(topics)
        for name in self.names:
            if name not in known:
                raise CaptureError(f"there is no topic {name!r}.{nearest(name, known)}", path=self.url)
        return sorted(self.names)


class Range(NamedTuple):
    """The messages of a partition with offsets from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int


def is_kafka(path: Any) -> bool:
    """Is it the URL of topics?"""
    return isinstance(path, str) and path.lower().startswith(f"{SCHEME}://")


def as_point(value: Any, name: str) -> Point:
    """A point as it was given: text is parsed, a date is its midnight. Raises OptionError."""
    if isinstance(value, datetime | int | Mapping):
        return value
    return parse_point(value.isoformat() if isinstance(value, date) else str(value), name)


def parse_point(text: str, name: str) -> Point:
    """``earliest``, ``latest``, an offset, an ISO 8601 time (UTC if it has no zone), or offsets as JSON, as Spark has
    them (``{"topic": {"0": 42}}``). Raises OptionError."""
    text = text.strip()
    if text.lower() in (*_EARLIEST, *_LATEST):
        return "earliest" if text.lower() in _EARLIEST else "latest"
    if text.isascii() and text.isdecimal():
        return int(text)
    if text.startswith("{"):
        try:
            return {topic: {int(p): int(at) for p, at in o.items()} for topic, o in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError) as reason:
            raise OptionError(f'{name}: expected offsets as {{"topic": {{"0": 42}}}} ({reason})') from None
    time = moment(text if len(text) > len("2025-03-23") else f"{text}T00:00")
    if time is None:
        wanted = "earliest, latest, an offset or a time such as 2025-03-23T10:57:19Z"
        raise OptionError(f"{name}: expected {wanted}, found {text!r}")
    return time


# --- configuration ----------------------------------------------------------------------------------------------------


def kafka_settings(
    file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The configuration of the client: properties of librdkafka from a file (``name=value`` lines; without one, the
    file that :data:`CONFIG` names), and from the environment (``CDCWB_KAFKA_SASL_PASSWORD`` is ``sasl.password``),
    which win.

    Raises OptionError for a file that cannot be read, and for a property that only the Java client has.
    """
    path = file or environ.get(CONFIG)
    settings = {} if path is None else {name.lower(): value for name, value in read_properties(Path(path)).items()}
    for name, value in environ.items():
        if name.startswith(_VARIABLE) and name != CONFIG:
            settings[name.removeprefix(_VARIABLE).lower().replace("_", ".")] = value
    for name in settings:
        if name in _JAVA:
            raise OptionError(f"{name} is a property of the Java client; give {_JAVA[name]}")
    settings.pop("bootstrap.servers", None)  # the URL has them
    return settings


def read_properties(path: Path) -> dict[str, str]:
    """The configuration of a client from a file of ``name=value`` lines. Raises OptionError, without quoting a line."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", "!"), strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case
    try:
        parser.read_string(f"[client]\n{path.expanduser().read_text(encoding='utf-8-sig')}")
    except OSError as reason:
        raise OptionError(f"the client's configuration cannot be read ({reason.strerror})", path=str(path)) from None
    except (configparser.Error, UnicodeDecodeError):  # the reason would quote the line, which may hold a password
        raise OptionError("expected lines of name=value", path=str(path)) from None
    return dict(parser["client"])


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment in which :func:`kafka_settings` finds this configuration, and no other file."""
    return {CONFIG: os.devnull, **{f"{_VARIABLE}{s.upper().replace('.', '_')}": settings[s] for s in settings}}


def hidden(text: str, settings: Mapping[str, str]) -> str:
    """A text without the secrets of a configuration."""
    for name, value in settings.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "…")
    return text


# --- the cluster ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Client:
    """A consumer of a cluster, and the last error that it reported of itself."""

    topics: Topics
    settings: Mapping[str, str]
    answers: float
    consumer: Consumer = field(init=False)
    error: KafkaError | None = None

    def failed(self, what: str, error: KafkaError | None = None) -> CaptureError:
        """``what`` went wrong, and why, as what it is: a cluster that is down, or one that refuses."""
        from confluent_kafka import KafkaError

        self.consumer.poll(0)  # takes errors that wait to be reported
        refused = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
        refused |= {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
        is_refused = self.error is not None and self.error.code() in refused
        cause = self.error if is_refused or error is None else error
        reason = "" if cause is None else f" ({hidden(cause.str(), self.settings).rstrip('. ')})"
        is_down = cause is None or cause.code() < 0  # the client's own codes: no connection, time is up
        kind = SourceDownError if is_down and not is_refused else CaptureError
        return kind(f"{what}{reason}", path=self.topics.url)


@contextmanager
def connected(topics: Topics, settings: Mapping[str, str], answers: float = _ANSWERS) -> Iterator[Client]:
    """A client of the cluster, which answers within so many seconds. Raises OptionError for a property that the client
    does not know."""
    from confluent_kafka import Consumer, KafkaException

    client = Client(topics, settings, min(answers, _ANSWERS))

    def note(error: KafkaError) -> None:
        client.error = error

    own = {name: value for name, value in settings.items() if not name.startswith("kafka.")}
    try:
        client.consumer = Consumer({**_READ, **own, "bootstrap.servers": topics.servers, "error_cb": note})
    except KafkaException as reason:
        text = hidden(reason.args[0].str(), settings)
        raise OptionError(f"the Kafka client refuses its configuration: {text}") from None
    try:
        yield client
    finally:
        client.consumer.close()


def partitions(client: Client) -> tuple[str, list[tuple[str, int]]]:
    """The id of the cluster, and the partitions of its topics that are meant. Raises SourceDownError if it does not
    answer, CaptureError for topics that do not exist."""
    from confluent_kafka import KafkaException

    try:
        metadata = client.consumer.list_topics(timeout=client.answers)
    except KafkaException as reason:
        raise client.failed("the cluster does not answer", reason.args[0]) from None
    known = [name for name, topic in metadata.topics.items() if topic.error is None]
    names = client.topics.select(known)
    cluster = str(metadata.cluster_id or "")
    return cluster, [(name, number) for name in names for number in sorted(metadata.topics[name].partitions)]


def ranges(client: Client, of: Sequence[tuple[str, int]], start: Point, end: Point) -> list[Range]:
    """The current offsets of each partition from ``start`` to ``end``, limited to those that the cluster still has,
    with ``end`` at least ``start``. A time is the first message at or after it."""
    from confluent_kafka import KafkaException, TopicPartition

    try:
        limits = {partition: _limits(client, TopicPartition(*partition)) for partition in of}
        if any(limit is None for limit in limits.values()):
            raise client.failed("the cluster does not answer")
        first, last = (_offsets(client, limits, point) for point in (start, end))
    except KafkaException as reason:
        raise client.failed("the offsets of its partitions cannot be read", reason.args[0]) from None
    return [Range(*partition, first[partition], max(first[partition], last[partition])) for partition in of]


def _limits(client: Client, partition: Any) -> Any:
    """The first offset of a partition and the one after its last; retries while a leader is being elected."""
    from confluent_kafka import KafkaError, KafkaException

    until = time.monotonic() + client.answers
    while True:
        try:
            return client.consumer.get_watermark_offsets(partition, timeout=client.answers, cached=False)
        except KafkaException as reason:
            in_election = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
            if reason.args[0].code() not in in_election or time.monotonic() > until:
                raise
            time.sleep(_PAUSE)


def _offsets(
    client: Client, limits: Mapping[tuple[str, int], tuple[int, int]], point: Point
) -> dict[tuple[str, int], int]:
    from confluent_kafka import TopicPartition

    def clip(partition: tuple[str, int], at: int) -> int:
        low, high = limits[partition]
        return min(max(at, low), high)

    if isinstance(point, datetime):
        time = point.replace(tzinfo=UTC) if point.tzinfo is None else point
        wanted = [TopicPartition(*partition, max(int(time.timestamp() * 1000), 0)) for partition in limits]
        answers = client.consumer.offsets_for_times(wanted, timeout=client.answers)
        # none is so late: the end
        return {(t.topic, t.partition): t.offset if t.offset >= 0 else limits[t.topic, t.partition][1] for t in answers}
    if isinstance(point, int):
        return {partition: clip(partition, point) for partition in limits}
    if isinstance(point, Mapping):
        missing = [f"{topic}-{number}" for topic, number in limits if number not in point.get(topic, {})]
        if missing:
            raise OptionError(f"offsets by partition: there is none for {', '.join(missing[:5])}")
        return {partition: clip(partition, point[partition[0]][partition[1]]) for partition in limits}
    return {partition: low if point == "earliest" else high for partition, (low, high) in limits.items()}
