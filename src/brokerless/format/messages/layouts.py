"""What fields a message has, in which versions: as Kafka's message definitions say, in a file of JSON of this form.

A script (``scripts/generate_message_layouts.py``) writes these files from the definitions in Kafka's jars.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ZERO_UUID = "A" * 22
LARGEST_STRING = 0x7FFF
_NEWEST = 0x7FFF


@dataclass(frozen=True, slots=True, eq=False)
class MessageField:
    """A field of a message. Its ``versions``, ``nullable`` and ``tagged`` are ranges of the message's versions."""

    name: str
    type: str
    """Such as ``int32`` or ``string``; ``struct`` has ``fields``; ``[]`` before it makes an array."""
    versions: range
    nullable: range
    tagged: range
    tag: int | None
    default: Any
    """The value of a tagged field that is not in the message."""
    fields: tuple[MessageField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One of Kafka's messages."""

    name: str
    kind: str
    """``key`` or ``value`` of a record, ``request``, ``response``, or ``data`` in another message."""
    api_key: int | None
    """The type of a record, or of a request; None for ``data``."""
    topic: str | None
    """The topic of records, None for other messages."""
    versions: range
    """The versions that are known."""
    flexible: range
    """The versions with compact lengths and tagged fields."""
    fields: tuple[MessageField, ...]


@cache
def load_messages(file: Path) -> tuple[Message, ...]:
    """Return all messages of a file of definitions."""
    return tuple(map(_message, json.loads(file.read_bytes())["messages"]))


def _message(facts: dict[str, Any]) -> Message:
    fields = tuple(map(_field, facts["fields"]))
    known, flexible = _range(facts["validVersions"]), _range(facts["flexibleVersions"])
    return Message(
        facts["name"],
        facts["kind"],
        facts["apiKey"],
        topic=facts["topic"],
        versions=known,
        flexible=flexible,
        fields=fields,
    )


def _field(facts: dict[str, Any]) -> MessageField:
    nullable, tagged = (_range(facts.get(key, "none")) for key in ("nullableVersions", "taggedVersions"))
    fields = tuple(map(_field, facts.get("fields", ())))
    default = facts["default"] if "default" in facts else _default(facts["type"], fields)
    return MessageField(
        facts["name"],
        facts["type"],
        _range(facts["versions"]),
        nullable=nullable,
        tagged=tagged,
        tag=facts.get("tag"),
        default=default,
        fields=fields,
    )


@cache
def _range(text: str) -> range:
    """``0-3``, ``2+``, ``1`` or ``none``."""
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        return range(0)
    last = _NEWEST if match[2] else int(match[3] or match[1])
    return range(int(match[1]), last + 1)


def _default(type_: str, fields: tuple[MessageField, ...]) -> Any:
    if type_.startswith("[]"):
        return []
    if type_ == "struct":
        return {each.name: each.default for each in fields if not each.tagged}
    return {"bool": False, "string": "", "bytes": "", "records": b"", "uuid": ZERO_UUID, "float64": 0.0}.get(type_, 0)
