"""Avro schemas of a Confluent schema registry: from a folder of ``<id>.avsc`` files, or from the registry itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import httpx

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.source import fetched

__all__ = ["LOGIN", "read_registry", "without_login"]

LOGIN: Final = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
"""The environment variable with the user and password of a registry (``user:password``), as Confluent's tools have
it."""

_SECONDS: Final = 10.0
_RETRIES: Final = 2


def read_registry(where: str, ids: Iterable[int]) -> dict[int, str]:
    """The schema texts of those ids that the registry has.

    ``where`` is a folder that holds a file ``<id>.avsc`` (or ``.json``) for each schema, as the schema itself or as the
    registry's answer ``{"schema": "…"}``; or the URL of a registry, of which ``GET /schemas/ids/<id>`` is asked. User
    and password are those of the URL, or of the environment (:data:`LOGIN`); they are never shown.

    Raises OptionError where there is no such folder, CaptureError where the registry does not answer.
    """
    if urlsplit(where).scheme in ("http", "https"):
        return _from_url(where, ids)
    folder = fetched(where).expanduser()
    if not folder.is_dir():
        raise OptionError(f"option registry: expected a folder of <id>.avsc files or an http(s) URL, found {where!r}")
    return _from_folder(folder, ids)


def without_login(options: Mapping[str, Any]) -> dict[str, Any]:
    """Reader options that can be stored and shown: the URL of a registry without user and password, which go to the
    environment (:data:`LOGIN`), where this process and those that it starts find them."""
    url = str(options.get("registry") or "")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return dict(options)
    os.environ[LOGIN] = ":".join(_login(parts))
    return {**options, "registry": urlunsplit(_bare(parts))}


def _bare(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2])


def _login(parts: SplitResult) -> tuple[str, str]:
    return unquote(parts.username or ""), unquote(parts.password or "")


def _from_folder(folder: Path, ids: Iterable[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for number in ids:
        for name in (f"{number}.avsc", f"{number}.json"):
            path = folder / name
            if not path.is_file():
                continue
            try:
                found[number] = _schema(path.read_text(encoding="utf-8-sig"))
            except (OSError, ValueError, RecursionError) as reason:
                raise CaptureError(f"cannot be read as an Avro schema ({reason})", path=str(path)) from None
            break
    return found


def _schema(text: str) -> str:
    content = json.loads(text)
    if isinstance(content, dict) and isinstance(content.get("schema"), str) and "fields" not in content:
        return str(content["schema"])
    return text


def _from_url(url: str, ids: Iterable[int]) -> dict[int, str]:
    parts = urlsplit(url)
    shown = urlunsplit(_bare(parts))
    user, colon, password = os.environ.get(LOGIN, "").partition(":")
    login = _login(parts) if "@" in parts.netloc else (user, password) if colon else None
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
