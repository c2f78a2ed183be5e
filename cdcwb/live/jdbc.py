"""JDBC URLs of databases, their drivers and settings, names of tables, and ranges of ids as SQL conditions.

No JVM is started; :mod:`cdcwb.live.database` reads through Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cdcwb.errors import CaptureError, OptionError
from cdcwb.live.kafka import read_properties
from cdcwb.words import joined

__all__ = [
    "CONFIG",
    "Address",
    "Id",
    "TableKind",
    "TableName",
    "find_id",
    "hidden",
    "is_jdbc",
    "jdbc_settings",
    "ranges",
]

CONFIG: Final = "CDCWB_JDBC_CONFIG"
"""The environment variable that names the file with user, password and properties of the driver."""
_VARIABLES: Final = {
    "CDCWB_JDBC_USER": "user",
    "CDCWB_JDBC_PASSWORD": "password",
    "CDCWB_JDBC_DRIVER": "driver",
    "CDCWB_JDBC_PACKAGES": "packages",
}
_OWN: Final = ("driver", "packages")
"""Settings that are not properties of a connection: the driver's class, and its Maven coordinates."""

_SCHEME: Final = "jdbc:"
_SECRET: Final = re.compile(r"pass(word|wd|phrase)?$|pwd|passwd|password|secret|token|credential", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(
    r"[?&;:,(]\s*[\w.]*(?:password|passwd|passphrase|pwd|secret|token|credential)[\w.]*\s*=", re.IGNORECASE
)
_LOGIN_IN_URL: Final = re.compile(r"//[^/?;]*@|^jdbc:oracle:\w+:[^@/]+(?:/[^@]*)?@", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[^\W\d][\w$#]*")


# --- databases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vendor:
    """The settings for the databases of one vendor.

    ``driver``: the class; ``package``: Maven coordinates of a driver that cdcwb fetches (None: the user names it).
    ``quote``: the quote of names. ``as_text``: the type to which the server casts times and unbounded numbers, so that
    the JVM's time zone and Spark's precision do not change them. ``first``: the first statement of a session.
    """

    driver: str
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
                f"user and password in a file that {CONFIG} names, or as CDCWB_JDBC_USER and CDCWB_JDBC_PASSWORD"
            )
        if not re.match(r"jdbc:[\w-]+:.", url, re.IGNORECASE):
            raise OptionError(f"expected a JDBC URL such as jdbc:postgresql://HOST:PORT/DATABASE, found {url!r}")
        return cls(_SCHEME + url[len(_SCHEME) :])

    @property
    def scheme(self) -> str:
        """``postgresql``, ``oracle`` …"""
        return self.url.split(":")[1].lower()

    @property
    def vendor(self) -> Vendor:
        """The settings of its vendor; empty for an unknown one."""
        return _VENDORS.get(self.scheme, Vendor(""))

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
                f"a file that {CONFIG} names"
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


def is_jdbc(path: Any) -> bool:
    """Whether a path is the URL of a database."""
    return isinstance(path, str) and path.lower().startswith(_SCHEME)


def jdbc_settings(
    file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """User, password, ``driver``, ``packages`` and the driver's own properties: from a file of ``name=value`` lines
    (by default the file that :data:`CONFIG` names), overridden by the environment. Without a user and a
    password the driver's own configuration is used (``.pgpass``, a wallet …). Raises OptionError for a file that cannot
    be read."""
    path = file or environ.get(CONFIG)
    settings = {} if path is None else read_properties(Path(path))
    return settings | {name: environ[variable] for variable, name in _VARIABLES.items() if variable in environ}


def hidden(text: str, settings: Mapping[str, str]) -> str:
    """A text with the secrets of a configuration replaced by ``…``."""
    for name, value in settings.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "…")
    return text


def connection(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that are properties of a connection."""
    return {name: value for name, value in settings.items() if name not in _OWN}


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table in SQL: parts in double quotes are exact, others have the case that the database gives."""

    parts: tuple[str, ...]
    exact: tuple[bool, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parses ``schema.table``, ``table`` or ``"Schema"."Table"``. Raises OptionError."""
        parts, exact, at = [], [], 0
        for match in re.finditer(r'(?:"((?:[^"]|"")+)"|([^."]+))(\.|$)', text):
            if match.start() != at or (match[2] is not None and not _PLAIN.fullmatch(match[2])):
                break
            parts.append(match[2] if match[1] is None else match[1].replace('""', '"'))
            exact.append(match[1] is not None)
            at = match.end()
        if (
            at != len(text)
            or not parts
            or text.endswith(".")
            or parts[0][0] in "._"
            or any("/" in part for part in parts)
        ):
            raise OptionError(
                f"expected a table such as schema.table, found {text!r}; put a name that is not a plain word in double "
                "quotes"
            )
        return cls(tuple(parts), tuple(exact))

    @property
    def label(self) -> str:
        """``schema.table``, without quotes."""
        return ".".join(self.parts)

    def sql(self, address: Address) -> str:
        """The name in a statement."""
        parts = zip(self.parts, self.exact, strict=True)
        return ".".join(address.quoted(part) if exact else part for part, exact in parts)


class TableKind:
    """The kind of a table, which decides how new rows are recognised."""

    EVENTS: Final = "events"
    """An event log: rows are identified by record_id."""
    CHANGES: Final = "changes"
    """A change table: rows are equal if all their values are."""
    CONTROL: Final = "control"
    """A control table: it has no id, and is read from its beginning each time."""
    PARENT: Final = "parent"
    """A table to which an event log refers; its present rows answer query-back."""


@dataclass(frozen=True, slots=True)
class Id:
    """The kind of a table, and the column that orders its rows (None: none)."""

    kind: str
    column: str | None


def find_id(table: TableName, columns: Sequence[str], chosen: str | None = None) -> Id:
    """The id of a table by the names of its columns: ``record_id``, or ``change_seq`` with the prefix of header
    columns; ``chosen`` names that of an event log whose columns have other names. Raises OptionError."""
    from cdcwb.formats.qlik_change_table.layout import CONTROL_PREFIX, find_prefix

    if chosen is not None:
        for name in columns:
            if name == chosen or name.casefold() == chosen.casefold():
                return Id(TableKind.EVENTS, name)
        raise OptionError(f"{table.label} has no column {chosen!r}; there are {joined(columns)}")
    if table.parts[-1].casefold().startswith(CONTROL_PREFIX):
        return Id(TableKind.CONTROL, None)
    prefix = find_prefix(columns)
    for name in columns:
        if prefix is not None and name.casefold() == f"{prefix.text}change_seq".casefold():
            return Id(TableKind.CHANGES, name)
    for name in columns:
        if name.casefold() == "record_id":
            return Id(TableKind.EVENTS, name)
    raise OptionError(
        f"{table.label} is not a change table, a control table or an event log: expected a column header__change_seq "
        f"or record_id, found {joined(list(columns)[:20])}; name that of an event log with --id-column or id_column="
    )


# --- ranges of ids ----------------------------------------------------------------------------------------------------


def as_id(text: str, name: str) -> str:
    """Checks that an id has only digits. Raises OptionError."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal()):
        raise OptionError(f"{name}: expected an id or the first digits of a change_seq for a database, found {text!r}")
    return text


def literal(value: Any, is_text: bool) -> str:
    """An id in a condition. Raises CaptureError for a number with decimal places."""
    if is_text:
        return "'" + str(value).replace("'", "''") + "'"
    match = re.fullmatch(r"(-?\d+)(?:\.0*)?", str(value))
    if match is None:
        raise CaptureError(f"expected ids that are whole numbers, found {value!r}")
    return match[1]


def ranges(column: str, low: str, high: str, is_text: bool, parts: int) -> list[str]:
    """Conditions that divide the ids from ``low`` to ``high`` into up to ``parts`` ranges of equal width, in order.

    Text ids are compared as texts; they are divided only if both limits are digits of the same length.
    """
    integers = all(re.fullmatch(r"-?\d+", limit) for limit in (low, high))
    if not integers or (is_text and len(low) != len(high)):
        return [f"{column} >= {literal(low, is_text)} AND {column} <= {literal(high, is_text)}"]
    first, last = int(low), int(high)
    parts = max(1, min(parts, last - first + 1))
    edges = [first + (last + 1 - first) * number // parts for number in range(parts + 1)]
    texts = [str(edge).zfill(len(low)) if is_text else str(edge) for edge in edges]
    conditions = []
    for number in range(parts):
        end = f"< {literal(texts[number + 1], is_text)}" if number < parts - 1 else f"<= {literal(high, is_text)}"
        conditions.append(f"{column} >= {literal(texts[number], is_text)} AND {column} {end}")
    return conditions
