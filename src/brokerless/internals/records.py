"""Decodes keys and values of internal topics' records into what Kafka's dump tool shows.

Coordinators (``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``) begin a key with the record's
type and a value with its version, each an int16 (``CoordinatorRecordSerde``). Records of KRaft and of tiered storage
(``__remote_log_metadata``) have no key, and a value that begins with a frame version, type and version as unsigned
varints (``AbstractApiMessageSerde``, KIP-631, KIP-405). Kafka 4.4.0.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from brokerless.findings import Kind
from brokerless.format.messages.layouts import Message
from brokerless.format.messages.reader import Cursor, UnreadableMessageError, decode
from brokerless.internals.messages import message, messages
from brokerless.log.names import CLUSTER_METADATA, REMOTE_LOG_METADATA

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, REMOTE_LOG_METADATA, CLUSTER_METADATA)

_FRAME_VERSION = 1
_LARGEST_KNOWN_KEY = 512
_EMBEDDED = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


@dataclass(frozen=True, slots=True)
class InternalRecord:
    """A decoded record. Records with one key may share its object: it is not to be changed."""

    type: str | None
    """Such as ``OFFSET_COMMIT`` or ``TOPIC_RECORD``, None if it is not known."""
    key: dict[str, Any] | None
    """As Kafka's dump tool prints it: ``{"type": "1", "data": {...}}``. None for KRaft's and tiered storage's, and
    where it cannot be decoded."""
    payload: dict[str, Any] | None
    """As Kafka's dump tool prints it: ``{"version": "4", "data": {...}}``, or for KRaft's and tiered storage's
    ``{"type": "TOPIC_RECORD", "version": 0, "data": {...}}``. None where it cannot be decoded."""
    problem: tuple[RecordProblem, str] | None = None
    """Why a part cannot be decoded, as ``kind`` and ``message`` of a finding."""

    @property
    def key_data(self) -> dict[str, Any]:
        return {} if self.key is None else self.key["data"]

    @property
    def data(self) -> dict[str, Any] | None:
        """The payload's fields; None for a tombstone and for what cannot be decoded."""
        return None if self.payload is None else self.payload["data"]


RecordProblem = Literal[Kind.RECORD_TYPE_UNKNOWN, Kind.RECORD_VERSION_UNKNOWN, Kind.RECORD_UNREADABLE]


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
    """Return what a record of one of :data:`TOPICS` says; never raises for its bytes."""
    if topic in (CLUSTER_METADATA, REMOTE_LOG_METADATA):
        return _decode_metadata(topic, value)
    return _decode_coordinator(topic, key, value)


def _decode_coordinator(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
    if key is None:
        return InternalRecord(None, None, None, (Kind.RECORD_UNREADABLE, "a record without a key"))
    type_id, name, key_json, problem = (_known_key if len(key) <= _LARGEST_KNOWN_KEY else _key)(topic, key)
    if value is None or problem is not None:
        return InternalRecord(name, key_json, None, problem)
    layout = messages(topic).values[type_id]
    try:
        version = Cursor(value).integer(2)
        if version not in layout.versions:
            return InternalRecord(name, key_json, None, _unknown(layout, version))
        data, _ = decode(layout, version, value, 2)
    except UnreadableMessageError as error:
        return InternalRecord(name, key_json, None, (Kind.RECORD_UNREADABLE, f"a value that cannot be read: {error}"))
    if name == "GROUP_METADATA":
        _decode_embedded(data)
    return InternalRecord(name, key_json, {"version": str(version), "data": data})


def _key(topic: str, key: bytes) -> tuple[int, str | None, dict[str, Any] | None, tuple[RecordProblem, str] | None]:
    """A key's type id, type and JSON; or why it has none."""
    known = messages(topic).keys
    type_id = -1
    try:
        type_id = Cursor(key).integer(2)
        if type_id not in known:
            return type_id, None, None, _unknown_type(type_id)
        fields, _ = decode(known[type_id], 0, key, 2)
    except UnreadableMessageError as error:
        return type_id, None, None, (Kind.RECORD_UNREADABLE, f"a key that cannot be read: {error}")
    return type_id, type_name(known[type_id].name.removesuffix("Key")), {"type": str(type_id), "data": fields}, None


_known_key = lru_cache(maxsize=1 << 14)(_key)
"""Most records have the key of one before them."""


def _decode_metadata(topic: str, value: bytes | None) -> InternalRecord:
    known = messages(topic).values
    name = None
    try:
        cursor = Cursor(value or b"")
        frame, type_id, version = cursor.unsigned(), cursor.unsigned(), cursor.unsigned()
        if frame != _FRAME_VERSION:
            return InternalRecord(None, None, None, (Kind.RECORD_VERSION_UNKNOWN, f"a record of frame version {frame}"))
        if type_id not in known:
            return InternalRecord(None, None, None, _unknown_type(type_id))
        name = type_name(known[type_id].name)
        if version not in known[type_id].versions:
            return InternalRecord(name, None, None, _unknown(known[type_id], version))
        data, end = decode(known[type_id], version, cursor.data, cursor.at)
        if end < len(cursor.data):
            raise UnreadableMessageError(f"{len(cursor.data) - end} bytes after its end")
    except UnreadableMessageError as error:
        return InternalRecord(name, None, None, (Kind.RECORD_UNREADABLE, f"a value that cannot be read: {error}"))
    return InternalRecord(name, None, {"type": name, "version": version, "data": data})


def _decode_embedded(data: dict[str, Any]) -> None:
    """Decode what the clients of a classic group sent; it is left as bytes where it cannot be read, as Kafka's dump
    tool does."""
    if data["protocolType"] != "consumer":
        return
    for member in data["members"]:
        for field, name in _EMBEDDED.items():
            said = b64decode(member[field])
            try:
                member[field] = decode(message(name), Cursor(said).integer(2), said, 2)[0]
            except UnreadableMessageError:
                continue


def _unknown_type(type_id: int) -> tuple[RecordProblem, str]:
    return Kind.RECORD_TYPE_UNKNOWN, f"a record of type {type_id}, which is not known"


def _unknown(message: Message, version: int) -> tuple[RecordProblem, str]:
    newest = message.versions[-1]
    return Kind.RECORD_VERSION_UNKNOWN, f"a record of {message.name}, version {version}; known are those up to {newest}"


@cache
def type_name(name: str) -> str:
    """``TopicRecord`` -> ``TOPIC_RECORD``, as ``MetadataRecordType`` and ``CoordinatorRecordType`` do."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
