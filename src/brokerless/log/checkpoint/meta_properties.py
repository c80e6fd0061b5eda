"""``meta.properties``: the node and the cluster that a log directory belongs to.

Sources: ``MetaProperties`` (3.9.1, 4.1.1), ``PropertiesUtils`` (4.1.1).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Kind
from brokerless.log import names
from brokerless.log.checkpoint.text_files import FileFindings, MalformedFileError, parse_integer, parse_uuid, read_lines
from brokerless.log.storage.location import Location


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of ``meta.properties``: whose log directory it is."""

    file: str
    version: int | None = None
    cluster_id: str | None = None
    node_id: int | None = None
    """``broker.id`` in version 0."""
    directory_id: str | None = None
    properties: dict[str, str] = field(default_factory=dict[str, str])
    findings: FileFindings = ()


_MALFORMED_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
"""At which ``java.util.Properties`` throws, so that it reads nothing of a file."""


def load_meta_properties(location: Location) -> MetaProperties:
    """Reads a ``meta.properties``."""
    properties, findings = read_lines(location, _parse, {}, Kind.META_PROPERTIES_CORRUPT, "latin-1")
    version = int(properties.get("version", "0"))
    node_id = properties.get("node.id" if version else "broker.id")
    return MetaProperties(
        location.path,
        None if findings else version,
        properties.get("cluster.id"),
        node_id=None if node_id is None else int(node_id),
        directory_id=properties.get("directory.id"),
        properties=properties,
        findings=findings,
    )


def clusters_of(directories: Iterable[Location]) -> dict[str, str]:
    """Return the IDs of the clusters that log directories are of, as far as they say it, each with the path of the
    first one."""
    found: dict[str, str] = {}
    for path, directory in sorted({each.path: each for each in directories}.items()):
        with suppress(UnreadableError):
            own = load_meta_properties(directory / names.META_PROPERTIES).cluster_id
            if own is not None:
                found.setdefault(own, path)
    return found


def parse_properties(lines: Iterable[str]) -> dict[str, str]:
    """Names and values in a properties file: comments are passed over, and escaped characters taken for themselves."""
    properties: dict[str, str] = {}
    # Kafka writes this file through java.util.Properties, which escapes colons, equal signs and the like.
    for line in (line.lstrip(" \t\f") for line in lines):
        match = re.match(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", line)
        if match and line[:1] not in ("", "#", "!"):
            key, value = (re.sub(r"\\(.)", r"\1", each) for each in match.groups())
            properties[key] = value
    return properties


def _parse(lines: list[str]) -> dict[str, str]:
    for line in (line.lstrip(" \t\f") for line in lines):
        if line[:1] not in ("#", "!") and _MALFORMED_ESCAPE.search(line) is not None:
            raise MalformedFileError("a malformed escape, with which Java reads nothing", r"\u and four digits", line)
    properties = parse_properties(lines)
    version = parse_integer(properties.get("version", "0"), f"version={properties.get('version')}")
    if version not in (0, 1):
        raise MalformedFileError("meta.properties of an unknown version", "version 0 or 1", str(version))
    for name in ("node.id", "cluster.id") if version else ():
        if name not in properties:
            raise MalformedFileError("meta.properties is incomplete", name, None)
    for name in ("broker.id", "node.id"):
        if name in properties:
            parse_integer(properties[name], f"{name}={properties[name]}")
    if "directory.id" in properties:
        parse_uuid(properties["directory.id"], f"directory.id={properties['directory.id']}")
    return properties


def meta_properties(
    cluster_id: str, node_id: int, directory_id: str | None = None, written_ms: int | None = None
) -> bytes:
    """Return the ``meta.properties`` of a KRaft node's log directory, version 1. A comment holds ``written_ms`` (ms
    since epoch), which is now if it is not given.

    Raises :class:`UsageError` for a cluster ID that is not printable ASCII.
    """
    if not re.fullmatch(r"[!-~]+", cluster_id):
        raise UsageError(f"a cluster ID of printable ASCII characters is needed, not {cluster_id!r}")
    at = time.gmtime(time.time() if written_ms is None else written_ms // 1000)
    # Kafka writes through java.util.Properties: a comment (an empty one), the date, and what its hash table gives.
    lines = ["#", f"#{_date(at)}", f"node.id={node_id}"]
    lines += [f"directory.id={directory_id}"] if directory_id is not None else []
    lines += ["version=1", "cluster.id=" + re.sub(r"([\\:=#!])", r"\\\1", cluster_id)]
    return "".join(f"{line}\n" for line in lines).encode()


def _date(at: time.struct_time) -> str:
    """Format a time as ``java.util.Date.toString`` does, whatever the locale."""
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.tm_wday]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[at.tm_mon - 1]
    return f"{day} {month} {at.tm_mday:02} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} UTC {at.tm_year}"
