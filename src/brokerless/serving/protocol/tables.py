"""The requests that are answered, with their versions and fields, and the head of a request.

``requests.json`` is written by ``scripts/generate_message_layouts.py`` from Kafka's own definitions (4.4.0). A request
of a flexible version (KIP-482) has a head of version 2, any other one of version 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from brokerless.format.messages.layouts import Message, load_messages
from brokerless.format.messages.reader import Cursor, UnreadableMessageError, decode
from brokerless.text import java_text

MOST_ELEMENTS = 1 << 18
"""Elements of all arrays of one request together: some 50,000 partitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One kind of request, in the versions that a broker of 4.4 answers."""

    key: int
    name: str
    request: Message
    response: Message

    @property
    def versions(self) -> range:
        return self.request.versions


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int
    """Where the request's body begins (bytes)."""


@cache
def apis() -> dict[int, Api]:
    """All known kinds of requests, by their keys."""
    known = load_messages(Path(__file__).with_name("requests.json"))
    requests, responses = (
        {each.api_key or 0: each for each in known if each.kind == kind} for kind in ("request", "response")
    )
    return {
        key: Api(key, request.name.removesuffix("Request"), request, responses[key])
        for key, request in requests.items()
    }


def decode_head(data: bytes) -> Head:
    """Read the head of a request. Where its kind or version is unknown, only the fields that all versions have are
    read.

    Raises :class:`UnreadableMessageError` where the bytes are none.
    """
    cursor = Cursor(data)
    key, version, correlation_id = cursor.integer(2), cursor.integer(2), cursor.integer(4)
    size = cursor.integer(2)
    client_id = None if size < 0 else java_text(cursor.take(size))
    api = apis().get(key)
    if api is not None and version in api.versions and version in api.request.flexible:
        for _ in range(cursor.unsigned()):
            cursor.unsigned()
            cursor.take(cursor.unsigned())
    return Head(key, version, correlation_id, client_id=client_id, body_at=cursor.at)


def decode_body(api: Api, head: Head, data: bytes) -> dict[str, Any]:
    """Read the fields of a request. Raises :class:`UnreadableMessageError` for bytes that are no such request."""
    return decode(api.request, head.version, data, head.body_at, MOST_ELEMENTS)[0]


__all__ = ["MOST_ELEMENTS", "Api", "Head", "UnreadableMessageError", "apis", "decode_body", "decode_head"]
