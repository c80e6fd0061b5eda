"""Decodes keys and values of MirrorMaker's and Kafka Connect's own records.

MirrorMaker's are structs of Kafka's protocol (``OffsetSync``, ``Checkpoint``, ``Heartbeat`` in
``org.apache.kafka.connect.mirror``), whose values begin with a version, but for offset syncs. Connect's are JSON
without schemas, with keys of text (``OffsetStorageWriter``, ``KafkaConfigBackingStore``, ``KafkaStatusBackingStore``).
4.3.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from brokerless.bounds import MAX_INT32
from brokerless.findings import Kind
from brokerless.format.messages.reader import Cursor, UnreadableMessageError
from brokerless.internals.records import InternalRecord, RecordProblem
from brokerless.values import Int32, Int64, LenientValue, Row, WrongJsonError, from_json, from_members


def decode_connect_record(table: str, key: bytes | None, value: bytes | None) -> InternalRecord:
    """Return what a record of a topic that makes a table (:data:`topics.TABLES`) says; never raises for its bytes.

    ``key`` and ``payload`` are ``{"data": {...}}``; MirrorMaker's have a ``version`` as well, as those of coordinators.
    """
    if key is None:
        return InternalRecord(None, None, None, (Kind.RECORD_UNREADABLE, "a record without a key"))
    layout = _LAYOUTS[table]
    type_, found = layout.type, None
    try:
        type_, fields = layout.key(key)
        found = {"data": fields}
        payload = None if value is None else layout.value(type_, value)
    except _UnknownError as error:
        return InternalRecord(type_, found, None, (error.kind, str(error)))
    except (UnreadableMessageError, WrongJsonError) as error:
        what = "key" if found is None else "value"
        return InternalRecord(type_, found, None, (Kind.RECORD_UNREADABLE, f"a {what} that cannot be read: {error}"))
    return InternalRecord(type_, found, payload)


class _UnknownError(Exception):
    """A type or version that is not known."""

    def __init__(self, kind: RecordProblem, message: str) -> None:
        super().__init__(message)
        self.kind: RecordProblem = kind


@dataclass(frozen=True, slots=True)
class _RecordLayout:
    """The layout of a topic's records."""

    type: str | None
    """The type of all records of the topic, None where their keys have it."""
    key: Callable[[bytes], tuple[str, Row]]
    """Returns the type and the fields of a key."""
    value: Callable[[str, bytes], Row]
    """Returns the payload."""


def _struct(type_: str, key: dict[str, int], value: dict[str, int], versioned: bool) -> _RecordLayout:
    """A struct of Kafka's protocol: sizes of integers by name, 0 for a text. What follows is passed over, as Kafka
    does."""

    def read_key(data: bytes) -> tuple[str, Row]:
        return type_, _fields(Cursor(data), key)

    def read_value(_: str, data: bytes) -> Row:
        cursor = Cursor(data)
        if not versioned:
            return {"data": _fields(cursor, value)}
        version = cursor.integer(2)
        if version != 0:
            message = f"a {type_} of version {version}, which is not known; known is 0"
            raise _UnknownError(Kind.RECORD_VERSION_UNKNOWN, message)
        return {"version": "0", "data": _fields(cursor, value)}

    return _RecordLayout(type_, read_key, read_value)


def _fields(cursor: Cursor, sizes: dict[str, int]) -> Row:
    return {name: cursor.integer(size) if size else cursor.text(2) for name, size in sizes.items()}


def _offset_key(data: bytes) -> tuple[str, Row]:
    """``["connector",{...}]``: the connector, and the source partition."""
    connector, partition = _read(data, tuple[str, dict[str, Any] | None])
    return "CONNECTOR_OFFSET", {"connector": connector, "partition": partition}


def _offset_value(_: str, data: bytes) -> Row:
    return {"data": _read(data, dict[str, Any] | None)}


_CONFIG_KEYS = {
    "CONNECTOR_CONFIG": r"connector-(?P<connector>.+)",
    "TASK_CONFIG": r"task-(?P<connector>.+)-(?P<task>\d+)",
    "COMMIT_TASKS": r"commit-(?P<connector>.+)",
    "TARGET_STATE": r"target-state-(?P<connector>.+)",
    "TASKS_FENCING": r"tasks-fencing-(?P<connector>.+)",
    "RESTART_CONNECTOR": r"restart-connector-(?P<connector>.+)",
    "SESSION_KEY": r"session-key",
    "LOGGER_LEVEL": r"logger-cluster-(?P<logger>.+)",
}
_STATUS_KEYS = {
    "CONNECTOR_STATUS": r"status-connector-(?P<connector>.+)",
    "TASK_STATUS": r"status-task-(?P<connector>.+)-(?P<task>\d+)",
    "TOPIC_STATUS": r"status-topic-(?P<topic>[^:]+):connector-(?P<connector>.+)",
}


def _text_key(kinds: dict[str, str]) -> Callable[[bytes], tuple[str, Row]]:
    """A key of text, of which a prefix is the type."""

    def read_key(data: bytes) -> tuple[str, Row]:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise WrongJsonError("it is not UTF-8") from None
        for type_, pattern in kinds.items():
            match = re.fullmatch(pattern, text, re.DOTALL | re.ASCII)
            if match is not None:
                return type_, {"key": text, **_with_task(match.groupdict())}
        raise _UnknownError(Kind.RECORD_TYPE_UNKNOWN, "a record whose key begins as none that is known")

    return read_key


def _with_task(found: Row) -> Row:
    if "task" in found:
        if len(found["task"]) > 10 or int(found["task"]) > MAX_INT32:
            raise WrongJsonError("the task's number is too large")
        found["task"] = int(found["task"])
    return found


def _config_value(_: str, data: bytes) -> Row:
    return {"data": _read(data, dict[str, Any])}


def _status_value(type_: str, data: bytes) -> Row:
    found = _read(data, dict[str, Any])
    from_members(found, _TopicStatus if type_ == "TOPIC_STATUS" else _Status)
    return {"data": found}


class _TaskOfTopic(LenientValue, frozen=True):
    name: str
    connector: str
    task: Int32
    discover_timestamp: Int64


class _TopicStatus(LenientValue, frozen=True):
    topic: _TaskOfTopic


class _Status(LenientValue, frozen=True, rename=None):
    """That of a connector or a task."""

    state: str
    worker_id: str
    generation: Annotated[int, Meta(ge=-MAX_INT32 - 1, le=MAX_INT32)]
    trace: str | None = None
    version: str | None = None


def _read(data: bytes, kind: Any) -> Any:
    value = from_json(data, kind)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise WrongJsonError("a text has half of a surrogate pair") from None
    return value


_PLACE = {"topic": 0, "partition": 4}
_OFFSETS = {"upstreamOffset": 8, "offset": 8}
_ALIASES = {"sourceClusterAlias": 0, "targetClusterAlias": 0}
_LAYOUTS = {
    "mirrorOffsetSyncs": _struct("OFFSET_SYNC", _PLACE, _OFFSETS, versioned=False),
    "mirrorCheckpoints": _struct("CHECKPOINT", {"group": 0, **_PLACE}, {**_OFFSETS, "metadata": 0}, versioned=True),
    "mirrorHeartbeats": _struct("HEARTBEAT", _ALIASES, {"timestamp": 8}, versioned=True),
    "connectOffsets": _RecordLayout(None, _offset_key, _offset_value),
    "connectConfigs": _RecordLayout(None, _text_key(_CONFIG_KEYS), _config_value),
    "connectStatus": _RecordLayout(None, _text_key(_STATUS_KEYS), _status_value),
}
