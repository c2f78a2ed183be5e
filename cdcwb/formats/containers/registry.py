"""Avro schemas of a Confluent schema registry: from a folder of ``<id>.avsc`` files, or from the registry itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.source import fetched

LOGIN: Final = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
"""The environment variable with the user and password of a registry (``user:password``), as Confluent's tools have
it."""

_OF_URL: Final = "CDCWB_REGISTRY"
"""The environment variable with the URL of the registry that was last named with user and password."""

_named: set[str] = set()
"""The hosts, with their ports, of the registries that calls have named."""

_SECONDS: Final = 10.0
_RETRIES: Final = 2


def read_registry(where: str, ids: Iterable[int]) -> dict[int, str]:
    """The schema texts of those ids that the registry has.

    ``where`` is a folder that holds a file ``<id>.avsc`` (or ``.json``) for each schema, as the schema itself or as the
    registry's answer ``{"schema": "…"}``; or the URL of a registry that a call has named (:func:`without_login`), of
    which ``GET /schemas/ids/<id>`` is asked. User and password are those of the URL, or of the environment
    (:data:`LOGIN`); they are never shown, and not sent to a host to which the registry redirects.

    Raises OptionError where there is no such folder, or no call has named the URL, CaptureError where the registry does
    not answer.
    """
    parts = _parts(where)
    if parts is not None:
        return _from_url(parts, ids)
    folder = fetched(where).expanduser()
    if not folder.is_dir():
        raise OptionError(f"option registry: expected a folder of <id>.avsc files or an http(s) URL, found {where!r}")
    return _from_folder(folder, ids)


def without_login(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reader options of a call as they can be stored and shown: the URL of a registry without user and password, which
    go to the environment (with its host, in :data:`_OF_URL`), where this process and those that it starts find them.
    From now on the registry may be asked: a URL that only a file names, such as the description of a saved capture, is
    refused."""
    parts = _parts(str(options.get("registry") or ""))
    if parts is None:
        return dict(options)
    _named.add(_host(parts))
    if "@" not in parts.netloc:
        return dict(options)
    os.environ[_OF_URL] = urlunsplit(parts._replace(path="", query="", fragment=""))
    return {**options, "registry": _without_user(parts)}


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
    except ValueError as reason:
        raise OptionError(f"option registry: {reason}") from None
    return parts if parts.scheme in ("http", "https") else None


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2].lower()


def _without_user(parts: SplitResult) -> str:
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _from_folder(folder: Path, ids: Iterable[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for number in ids:
        path = next(filter(Path.is_file, (folder / f"{number}.avsc", folder / f"{number}.json")), None)
        try:
            if path is not None:
                found[number] = _schema(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as reason:
            raise CaptureError(f"cannot be read as an Avro schema ({reason})", path=str(path)) from None
    return found


def _schema(text: str) -> str:
    content = json.loads(text)
    if isinstance(content, dict) and isinstance(content.get("schema"), str) and "fields" not in content:
        return str(content["schema"])
    return text


def _from_url(parts: SplitResult, ids: Iterable[int]) -> dict[int, str]:
    shown = _without_user(parts)
    if _host(parts) not in _named and ids:
        raise OptionError(
            f"the schema registry {_host(parts)} is not asked, because only a file names it: give it with -o registry=…"
        )
    import httpx

    of_url = urlsplit(os.environ.get(_OF_URL, ""))
    user, colon, password = os.environ.get(LOGIN, "").partition(":")
    own = parts if "@" in parts.netloc else of_url if _host(of_url) == _host(parts) else None
    login = (user, password) if colon else None
    if own is not None:
        login = unquote(own.username or ""), unquote(own.password or "")
    found: dict[int, str] = {}
    transport = httpx.HTTPTransport(retries=_RETRIES)
    with httpx.Client(transport=transport, timeout=_SECONDS, follow_redirects=True, auth=login) as client:
        for number in ids:
            try:
                answer = client.get(f"{shown.rstrip('/')}/schemas/ids/{number}")
                if answer.status_code == httpx.codes.NOT_FOUND:
                    continue
                answer.raise_for_status()
                found[number] = _schema(answer.text)
            except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as reason:
                raise CaptureError(
                    f"the schema registry does not return schema {number} ({reason})", path=shown
                ) from None
    return found
