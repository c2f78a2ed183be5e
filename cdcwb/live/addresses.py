"""URLs of topics and databases, and the configuration of their clients.

Logins and certificates are in a file of ``name=value`` lines or in the environment, never in a URL, because URLs are
stored and shown. Nothing here quotes a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.moments import moment
from cdcwb.formats.options import nearest

KAFKA_CONFIG: Final = "CDCWB_KAFKA_CONFIG"
"""The environment variable that names the file with the configuration of Kafka's client (librdkafka)."""

JDBC_CONFIG: Final = "CDCWB_JDBC_CONFIG"
"""The environment variable that names the file with user, password and properties of a database driver."""

_KAFKA: Final = "CDCWB_KAFKA_"  # followed by a property of the client: CDCWB_KAFKA_SASL_PASSWORD
_JDBC: Final = "CDCWB_JDBC_"
_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?$|pwd|passwd|password|secret|token|credential|jaas|key\.pem|oauthbearer\.config",
    re.IGNORECASE,
)
_JAVA: Final = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (PEM)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM)",
}
"""Properties of the Java client, and their equivalents in librdkafka."""


# --- configuration ----------------------------------------------------------------------------------------------------


def kafka_settings(
    file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Properties of librdkafka from a file (None: the one that :data:`KAFKA_CONFIG` names), overridden by the
    environment (``CDCWB_KAFKA_SASL_PASSWORD`` is ``sasl.password``). Raises OptionError for a file that cannot be read,
    and for a property that only the Java client has."""
    settings = {name.lower(): value for name, value in _properties(file or environ.get(KAFKA_CONFIG)).items()}
    for name, value in environ.items():
        if name.startswith(_KAFKA) and name != KAFKA_CONFIG:
            settings[name.removeprefix(_KAFKA).lower().replace("_", ".")] = value
    for name in settings:
        if name in _JAVA:
            raise OptionError(f"{name} is a property of the Java client; give {_JAVA[name]}")
    settings.pop("bootstrap.servers", None)  # the URL has them
    return settings


def jdbc_settings(
    file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """User, password, ``driver`` (a class), ``packages`` (Maven coordinates) and the driver's own properties from a
    file (None: the one that :data:`JDBC_CONFIG` names), overridden by the environment. Without a user and a password
    the driver's own configuration is used (``.pgpass``, a wallet …). Raises OptionError."""
    variables = {f"{_JDBC}{name.upper()}": name for name in ("user", "password", "driver", "packages")}
    settings = _properties(file or environ.get(JDBC_CONFIG))
    return settings | {name: environ[variable] for variable, name in variables.items() if variable in environ}


def _properties(path: str | os.PathLike[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if path is None:
        return settings
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8-sig").splitlines()
    except OSError as reason:
        raise OptionError(f"the client's configuration cannot be read ({reason.strerror})", path=str(path)) from None
    except UnicodeDecodeError:
        raise OptionError("expected lines of name=value", path=str(path)) from None
    for line in filter(None, map(str.strip, lines)):
        name, equals, value = line.partition("=")
        if not equals and line[0] not in "#!":  # the line is not quoted: it may have a password
            raise OptionError("expected lines of name=value", path=str(path))
        if line[0] not in "#!":
            settings[name.strip()] = value.strip()
    return settings


def hidden(text: str, settings: Mapping[str, str]) -> str:
    """A text with the secrets of a configuration replaced by ``…``."""
    for name, value in settings.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "…")
    return text


# --- topics -----------------------------------------------------------------------------------------------------------

_SERVER: Final = re.compile(r"(?:\[[^]]+\]|[^:]+)(?::[0-9]{1,5})?")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_TOPICS: Final = "expected kafka://HOST:PORT/TOPIC[,TOPIC] or kafka://HOST:PORT/^PATTERN"

Point = str | int | datetime
"""Where a range begins or ends: ``earliest``, ``latest``, an offset of every partition, or a time."""


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
        servers = re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0]
        if "@" in servers:
            raise OptionError(
                "a Kafka URL has no user and password, because URLs are stored and shown; give sasl.username and "
                f"sasl.password in a file that {KAFKA_CONFIG} names, or as {_KAFKA}SASL_USERNAME and "
                f"{_KAFKA}SASL_PASSWORD"
            )
        # a regular expression may have what is a query or a fragment elsewhere
        topics = unquote(url.partition("://")[2].partition("/")[2])
        if not url.lower().startswith("kafka://") or not servers or not topics:
            raise OptionError(f"{_TOPICS}, found {url!r}")
        for server in servers.split(","):
            if not _SERVER.fullmatch(server):
                raise OptionError(f"{_TOPICS}, found {url!r}: {server!r} is not HOST:PORT")
        if topics.startswith("^"):
            try:
                re.compile(topics)
            except re.error as reason:
                raise OptionError(f"the pattern {topics!r} is not a regular expression ({reason})") from None
            return cls(servers, pattern=topics)
        if "?" in topics:
            raise OptionError(f"{_TOPICS}; properties of the client are given in a file that {KAFKA_CONFIG} names")
        names = tuple(dict.fromkeys(filter(None, topics.split(","))))
        wrong = next((name for name in names if not _TOPIC.fullmatch(name)), None if names else topics)
        if wrong is not None:
            raise OptionError(f"{_TOPICS}; {wrong!r} is not the name of a topic")
        return cls(servers, names)

    @property
    def url(self) -> str:
        """The URL."""
        return f"kafka://{self.servers}/{self.pattern or ','.join(self.names)}"

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


def as_point(value: Any, name: str) -> Point:
    """A point as it was given; of a text ``earliest``, ``latest``, an offset, or an ISO 8601 time (UTC if it has no
    zone); a date is its midnight. Raises OptionError."""
    if isinstance(value, datetime | int):
        return value
    text = (value.isoformat() if isinstance(value, date) else str(value)).strip()
    if text.lower() in ("earliest", "beginning"):
        return "earliest"
    if text.lower() in ("latest", "end"):
        return "latest"
    if text.isascii() and text.isdecimal():
        return int(text)
    time = moment(text if len(text) > len("2025-03-23") else f"{text}T00:00")
    if time is None:
        wanted = "earliest, latest, an offset or a time such as 2025-03-23T10:57:19Z"
        raise OptionError(f"{name}: expected {wanted}, found {text!r}")
    return time


# --- databases --------------------------------------------------------------------------------------------------------

_SECRET_IN_URL: Final = re.compile(
    r"[?&;:,(]\s*[\w.]*(?:password|passwd|passphrase|pwd|secret|token|credential)[\w.]*\s*=", re.IGNORECASE
)
_LOGIN_IN_URL: Final = re.compile(r"//[^/?;]*@|^jdbc:oracle:\w+:[^@/]+(?:/[^@]*)?@", re.IGNORECASE)
_NAME: Final = r'(?:"(?:[^"]|"")+"|[^\W\d][\w$#]*)'
_TABLE: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")


@dataclass(frozen=True, slots=True)
class Vendor:
    """The settings for the databases of one vendor.

    ``driver``: the class; ``package``: Maven coordinates of a driver that cdcwb fetches (None: the user names it).
    ``quote``: the quote of names. ``as_text``: the type to which the server casts times and unbounded numbers, so that
    the JVM's time zone and Spark's precision do not change them. ``first``: the first statement of a session.
    """

    driver: str = ""
    package: str | None = None
    quote: str = '"'
    as_text: str = ""
    first: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


_MYSQL: Final[Mapping[str, Any]] = {
    "quote": "`",
    "as_text": "CHAR",
    "first": "SET time_zone = '+00:00'",
    # prepared on the server: values are binary; a FLOAT as text would have six digits
    "properties": {"tinyInt1isBit": "false", "yearIsDateType": "false", "useServerPrepStmts": "true"},
}
_VENDORS: Final[Mapping[str, Vendor]] = {
    "postgresql": Vendor(
        "org.postgresql.Driver", "org.postgresql:postgresql:42.7.8", as_text="text", first="SET TIME ZONE 'UTC'"
    ),
    "mariadb": Vendor("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.6", **_MYSQL),
    "mysql": Vendor("com.mysql.cj.jdbc.Driver", **_MYSQL),
    "oracle": Vendor("oracle.jdbc.OracleDriver"),
    "sqlserver": Vendor("com.microsoft.sqlserver.jdbc.SQLServerDriver"),
    "informix-sqli": Vendor("com.informix.jdbc.IfxDriver"),
    "db2": Vendor("com.ibm.db2.jcc.DB2Driver"),
}


@dataclass(frozen=True, slots=True)
class Address:
    """A database: its JDBC URL, which has no password."""

    url: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parses a URL. Raises OptionError for a URL with a password (without quoting it), or not of JDBC."""
        if _LOGIN_IN_URL.search(url) or _SECRET_IN_URL.search(url):
            raise OptionError(
                "a JDBC URL must not contain a login, a password or a token, because URLs are stored and shown; give "
                f"user and password in a file that {JDBC_CONFIG} names, or as {_JDBC}USER and {_JDBC}PASSWORD"
            )
        if not re.match(r"jdbc:[\w-]+:.", url, re.IGNORECASE):
            raise OptionError(f"expected a JDBC URL such as jdbc:postgresql://HOST:PORT/DATABASE, found {url!r}")
        return cls(f"jdbc:{url[len('jdbc:') :]}")

    @property
    def scheme(self) -> str:
        """``postgresql``, ``oracle`` …"""
        return self.url.split(":")[1].lower()

    @property
    def vendor(self) -> Vendor:
        """The settings of its vendor; empty for an unknown one."""
        return _VENDORS.get(self.scheme, Vendor())

    @property
    def spark_url(self) -> str:
        """The URL for Spark, whose dialect for MariaDB is that of MySQL."""
        if self.scheme != "mariadb":
            return self.url
        rest = self.url.split(":", 2)[2]
        return f"jdbc:mysql:{rest}{'&' if '?' in rest else '?'}permitMysqlScheme=true"

    def driver(self, settings: Mapping[str, str]) -> str:
        """The class of its driver. Raises OptionError if none is known."""
        driver = settings.get("driver") or self.vendor.driver
        if not driver:
            raise OptionError(
                f"no driver is known for jdbc:{self.scheme}: give driver=CLASS and packages=GROUP:ARTIFACT:VERSION in "
                f"a file that {JDBC_CONFIG} names"
            )
        return driver

    def packages(self, settings: Mapping[str, str]) -> list[str]:
        """The Maven coordinates of its driver."""
        named = [package.strip() for package in settings.get("packages", "").split(",") if package.strip()]
        return named or [package for package in (self.vendor.package,) if package and not settings.get("driver")]

    def quoted(self, name: str) -> str:
        """A column's name in SQL."""
        quote = self.vendor.quote
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"


@dataclass(frozen=True, slots=True)
class SqlTableName:
    """The name of a table in SQL: parts in double quotes are exact, others have the case that the database gives."""

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SqlTableName:
        """Parses ``schema.table``, ``table`` or ``"Schema"."Table"``. Raises OptionError."""
        if not _TABLE.fullmatch(text):
            raise OptionError(
                f"expected a table such as schema.table, found {text!r}; put a name that is not a plain word in double "
                "quotes"
            )
        return cls(tuple(re.findall(_NAME, text)))

    @property
    def label(self) -> str:
        """``schema.table``, without quotes."""
        return ".".join(map(_unquoted, self.parts))

    def sql(self, address: Address) -> str:
        """The name in a statement."""
        return ".".join(address.quoted(_unquoted(part)) if part[0] == '"' else part for part in self.parts)


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part[0] == '"' else part
