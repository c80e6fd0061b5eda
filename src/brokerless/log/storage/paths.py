"""Paths and URLs as text: joined, split, compared and named, with their credentials hidden.

A path is a ``str`` everywhere: a local path (also as ``file:///...``), or anything that fsspec knows (``s3://...``,
``memory://...``, ``zip://member::s3://...``). fsspec is imported only when a path needs it. ``storage_options`` are
handed to fsspec's file system. What keeps a path from being read is an :class:`UnreadableError` that names the path.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from brokerless.errors import UsageError
from brokerless.log import names

StorageOptions = Mapping[str, Any]
"""What fsspec's file system is made with."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
_FILE_URL = re.compile(r"file:(//(localhost)?)?(?=/)")
_NAMES_OF_STORES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
"""What else Hadoop's file systems call the store that a URL is of."""
_HOSTS = re.compile(r"(abfs://[^/@]+)@[^/]+|(oss://[^/.]+)\.[^/]+")

TIERED = "tiered://"
"""What the path of a log directory begins with that is made of a bucket's objects (``log/tiered``)."""

RUNNING_CLUSTER = "kafka://"
"""What the URL of a running cluster begins with."""

_WITH_KEY = re.compile(r"(s3a?)://((?!arn:)[^/:@]+):([^@]+)@(.*)", re.DOTALL)  # a secret key may have a slash
_WITH_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/:@]*):([^/]*)@(.*)", re.DOTALL)
_CREDENTIALS = re.compile(r"\b(([A-Za-z][A-Za-z0-9+.-]*):/{1,2})[^\s/:@]+:[^\s@]+@")
_SIGNATURE = re.compile(r"(?i)x-(amz|goog)-(signature|credential|security-token)|signature|sig|token|access_token")
_AZURE = ("abfs://", "abfss://", "az://", "adl://")
_NO_HOSTS = ("file", "local", "memory", "zip", "tar", "libarchive", "github", "git", "hf")
"""Protocols in whose URLs a colon and an ``@`` are parts of names."""


def without_credentials(path: str) -> tuple[str, dict[str, Any]]:
    """Return a path without the key, password or signature that its URL has, and these as options of fsspec: what shows
    the path does not show them."""
    if not is_remote(path) or ("@" not in path and "?" not in path):
        return path, {}
    parts, options = path.split("::"), dict[str, Any]()
    for number, part in enumerate(parts):
        protocol = part.partition("://")[0]
        parts[number], signature = _without_signature(part)
        parts[number], login = _without_login(parts[number])
        own = {**signature, **login}
        options |= own if number == 0 else {protocol: own} if own else {}
    return "::".join(parts), options


def _without_login(url: str) -> tuple[str, dict[str, Any]]:
    match = _WITH_KEY.fullmatch(url) or _WITH_PASSWORD.fullmatch(url)
    if match is None or match[1].lower() in _NO_HOSTS:
        return url, {}
    protocol, user, secret = match[1], unquote(match[2]), unquote(match[3])
    url = f"{protocol}://{match[4]}"
    if protocol.startswith("s3"):
        return url, {"key": user, "secret": secret}
    if protocol.startswith("http"):
        return url, {"headers": {"Authorization": f"Basic {b64encode(f'{user}:{secret}'.encode()).decode()}"}}
    return url, {"user" if protocol == "webhdfs" else "username": user, "password": secret}


def _without_signature(url: str) -> tuple[str, dict[str, Any]]:
    """A URL that is signed for a while, as object stores give them: without its query."""
    place, mark, query = url.partition("?")
    if not mark or not any(_SIGNATURE.fullmatch(each.partition("=")[0]) for each in query.split("&")):
        return url, {}
    if place.startswith(("http://", "https://")):
        return place, {"params": dict(parse_qsl(query, keep_blank_values=True))}
    return (place, {"sas_token": query}) if place.startswith(_AZURE) else (url, {})


def hide_credentials(text: str) -> str:
    """Return a text without the keys and passwords of the URLs in it, also of those that were taken for local paths."""
    return _CREDENTIALS.sub(lambda found: found[0] if found[2].lower() in _NO_HOSTS else found[1], text)


def join(path: str, name: str) -> str:
    """Return a name in a directory, as a path; in a chained URL the path inside comes first and gets the name."""
    if not is_remote(path):
        return os.path.join(path, name)  # noqa: PTH118 - a Path would drop what the user gave ("./")
    parts = path.split("::")
    at = next((index for index, part in enumerate(parts) if "://" in part), 0)
    parts[at] += name if parts[at].endswith("/") else "/" + name
    return "::".join(parts)


def directory_name(path: str) -> str:
    """Return the name of the directory that a path leads to: ``.`` and ``..`` and trailing slashes are resolved."""
    if is_remote(path):
        part = next((part for part in path.split("::") if "://" in part), path)
        return part.rstrip("/").rpartition("/")[2]
    return os.path.basename(os.path.abspath(local(path)))  # noqa: PTH100, PTH119 - links keep their own name


def named(path: str) -> str:
    """Return a path that a user gave. Raises :class:`UsageError` for an empty one, as a variable of a script is that
    was not set: it is not the working directory."""
    if not path:
        raise UsageError("a path is empty; give one, or . for the working directory")
    return path


def parent_directory(path: str) -> str | None:
    """Return the directory that a path is in; None for what is a whole archive, or a bucket."""
    if path.startswith(f"{TIERED}::"):
        return None
    if is_remote(path):
        parts = path.split("::")
        at = next((index for index, part in enumerate(parts) if "://" in part), 0)
        if path.startswith(TIERED) and parts[at].strip("/").count("/") == 2:
            return "::".join([TIERED, *parts[1:]])
        parts[at] = parts[at].rstrip("/").rpartition("/")[0]
        return None if parts[at].endswith((":/", "/")) or "://" not in parts[at] else "::".join(parts)
    return os.path.dirname(os.path.abspath(local(path)))  # noqa: PTH100, PTH120 - links keep their own name


def partition_above(path: str) -> names.PartitionDirectory | None:
    """Return the partition whose directory a file is in, by the directory's name; None for any other directory."""
    above = parent_directory(path)
    return None if above is None else names.parse_partition_directory(directory_name(above))


def containing_directory(path: str) -> str | None:
    """Return the directory that a directory is in, links followed; None for a whole archive, or a bucket."""
    return parent_directory(path if is_remote(path) else str(Path(local(path)).resolve()))


def is_local_within(path: str, directory: str) -> bool:
    """Return whether a path of this machine is a directory or in it, links followed; False for a URL, or what is no
    path."""
    with suppress(OSError, ValueError, RuntimeError):
        if not is_remote(path) and not is_remote(directory):
            inner, outer = Path(local(path)).resolve(), Path(local(directory)).resolve()
            return inner == outer or outer in inner.parents
    return False


def is_remote(path: str) -> bool:
    """Return whether fsspec reads this path: a URL, but not of this machine's files."""
    return _URL.match(path) is not None and (_FILE_URL.match(path) is None or "::" in path)


def local(path: str) -> str:
    """Return a path of this machine as its system knows it: without ``file:``."""
    return _FILE_URL.sub("", path, count=1)


def same_place(path: str) -> str:
    """Return one text for all forms in which engines write a place: ``file:/``, ``file:///``, and plain paths; stores
    of objects under each of their schemes, with the host of an account or without. To compare, not to open."""
    if not is_remote(path):
        return os.path.normpath(local(path))
    scheme, mark, rest = path.partition("://")
    return _HOSTS.sub(
        lambda found: found[1] or found[2], f"{_NAMES_OF_STORES.get(scheme, scheme)}{mark}{rest}", count=1
    )


def refuse_repeated(paths: Iterable[str], why: str) -> None:
    """Raise :class:`UsageError` for a place that is given twice, also by a link. ``why``: what would be wrong then."""
    seen: set[str] = set()
    for path in paths:
        place = path if is_remote(path) else os.path.realpath(path)
        if place in seen:
            raise UsageError(f"{path} is given twice: {why}")
        seen.add(place)


def full_path(path: str) -> str:
    """Return a path that is right wherever it is read, without a key or password."""
    if is_remote(path):
        return without_credentials(path)[0]
    return os.path.abspath(local(path))  # noqa: PTH100 - links keep their own name
