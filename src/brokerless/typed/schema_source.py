"""Reads schemas from where they are: a registry's topic, JSON Lines of it, or a directory of schema files.

Files are named by what they are the schema of: ``orders-value.avsc`` (the subject), ``orders-value.v2.avsc`` (its
second version), ``17.proto`` (the id) or ``b7b4a7f0-9c96-4e4a-a687-fb5cc9ef0c63.avsc`` (AWS Glue's schema version).
Where records name an id, only a file named by that id is its schema: another one might decode to something else.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from brokerless import arrow
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.typed.registry import DEFAULT_CONTEXT, Reference, Registry, Schema, SchemaType, read_registry

TOPIC = "_schemas"
_SUFFIXES: dict[str, SchemaType] = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
_MAX_FILE, _MAX_EXPORT, _MAX_FILES = 16 << 20, 1 << 30, 10_000
_VERSION = re.compile(r"(?P<subject>.+)\.v(?P<version>[0-9]{1,9})")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def load_registry(schemas: str | None, partitions: Sequence[PartitionPath]) -> Registry:
    """Return the schemas in a path, which is opened as the partitions are; without one, those of ``_schemas`` beside
    the partitions, if any.

    Raises :class:`UnreadableError` for a path in which there is nothing of the kind.
    """
    if schemas is not None:
        return _load(Location(schemas, partitions[0].location.options if partitions else None))
    for partition in partitions:
        above = partition.location.parent
        beside = None if above is None or partition.topic is None else above / f"{TOPIC}-0"
        if beside is not None and beside.is_directory():
            return _from_logs(beside)
    return Registry()


def _load(location: Location) -> Registry:
    if not location.is_directory():
        if location.path.endswith(".log"):
            return _from_logs(location)
        data = location.read(_MAX_EXPORT)
        found = read_registry(_lines(data), location.path)
    else:
        entries = location.entries()
        names = [each.name for each in entries]
        if f"{TOPIC}-0" in names:
            return _from_logs(location / f"{TOPIC}-0")
        if any(name.endswith(".log") for name in names):
            return _from_logs(location)
        found = _from_files(location, names)
    if found.is_empty and not found.versions:
        raise UnreadableError(
            location.path,
            f"there are no schemas; give a log directory with the topic {TOPIC}, JSON Lines of that topic "
            "(as brokerless cat --json prints it), or a directory of .avsc, .proto and .json files",
        )
    return found


def _from_logs(location: Location) -> Registry:
    findings: list[Finding] = []

    def records() -> Iterator[tuple[bytes | None, bytes | None]]:
        for each in resolve(location, ()).partitions:
            reader = each
            for batch in read_records([reader], ReadOptions(["key", "value"], on_damage=findings.append)):
                yield from zip(arrow.values(batch.column("key")), arrow.values(batch.column("value")), strict=True)

    registry = read_registry(records(), location.path)
    registry.problems += [str(each) for each in findings if each.severity == "error"]
    return registry


def _lines(data: bytes) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values from lines: JSON objects with ``key`` and ``value`` (or kcat's ``payload``), or both as text with
    a tab between, as the console consumer prints them."""
    for line in data.splitlines():
        if not line.strip():
            continue
        key, tab, value = line.partition(b"\t")
        if tab and key.startswith(b"{"):
            yield key, None if value in (b"null", b"") else value
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            yield line, b"{}"
            continue
        own = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        yield _content(own.get("key")), _content(own.get("value", own.get("payload")))


def _content(value: Any) -> bytes | None:
    if isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {"base64"}:
        try:
            return base64.b64decode(value["base64"])
        except (ValueError, TypeError):
            return b""
    if isinstance(value, str):
        return value.encode(errors="replace")
    return None if value is None else json.dumps(value).encode()


def _from_files(location: Location, names: Sequence[str]) -> Registry:
    registry = Registry(location.path, is_topic=False)
    files = [name for name in names if name[name.rfind(".") :] in _SUFFIXES][:_MAX_FILES]
    found: dict[str, Schema] = {}
    for name in files:
        text = (location / name).read(_MAX_FILE).decode(errors="replace")
        stem, _, suffix = name.rpartition(".")
        version = _VERSION.fullmatch(stem)
        subject, number = (stem, 1) if version is None else (version["subject"], int(version["version"]))
        own_id: int | str = int(stem) if stem.isdecimal() and len(stem) < 20 else stem.lower()
        found[name] = Schema(subject, number, own_id, type=_SUFFIXES[f".{suffix}"], text=text)
    for name, schema in found.items():
        # What a file imports, it names by the file; those are in the same directory.
        imports = tuple(Reference(other, each.subject, each.version) for other, each in found.items() if other != name)
        whole = Schema(
            schema.subject,
            schema.version,
            schema.id,
            type=schema.type,
            text=schema.text,
            references=_needed(schema, imports, found),
        )
        registry.versions[whole.subject, whole.version] = whole
        if isinstance(whole.id, int) or _UUID.fullmatch(whole.id):
            registry.by_id[DEFAULT_CONTEXT, whole.id] = whole
    return registry


def _needed(schema: Schema, others: Sequence[Reference], found: dict[str, Schema]) -> tuple[Reference, ...]:
    """The files of the same kind that a schema's text names: by the file, or by the type that it defines. One that
    defines the same type is another version of it."""
    own = _avro_name(schema.text) if schema.type == "AVRO" else None
    needed: list[Reference] = []
    for each in others:
        other = found[each.name]
        if other.type != schema.type:
            continue
        named = each.name if schema.type != "AVRO" else _avro_name(other.text)
        if named and named != own and f'"{named}"' in schema.text:
            needed.append(each)
    return tuple(needed)


def _avro_name(text: str) -> str | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    own = cast("dict[str, Any]", found)
    name, namespace = own.get("name"), own.get("namespace")
    if not isinstance(name, str):
        return None
    return f"{namespace}.{name}" if isinstance(namespace, str) and "." not in name else name
